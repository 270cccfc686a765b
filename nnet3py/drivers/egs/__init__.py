"""Folders of training examples: made from data and alignments, read, and checked."""
