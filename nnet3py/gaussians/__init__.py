"""Gaussian mixtures: of acoustic models, and of what stands before i-vectors.

``DiagGmm`` and ``FullGmm`` hold files' natural parameters; ``posteriors.py`` has likelihoods, selection and the one
routine of pruned posteriors; ``accumulators.py`` and ``estimation.py`` train them. Everything is float64 but
likelihoods and posteriors, which are Kaldi's single precision.
"""
