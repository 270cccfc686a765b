"""Sequence-discriminative training: the objectives MMI, MPFE and sMBR of lattices, and their derivatives.

``options.py`` (the objective's options), ``lattice_graphs.py`` (a minibatch's lattices as tables for kernels),
``objective.py`` (scores, sums over paths, derivatives).
"""
