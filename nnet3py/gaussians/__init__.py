"""Gaussian mixtures: of acoustic models, and of what stands before i-vectors."""
