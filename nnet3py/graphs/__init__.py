"""Graphs: finite-state transducers of phones, context windows, transition-ids and words."""
