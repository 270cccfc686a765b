"""Gaussian mixtures: those of acoustic models, and those that i-vectors are based on.

``DiagGmm`` and ``FullGmm`` hold files' natural parameters; ``posteriors.py`` has likelihoods, selection and the one
routine of pruned posteriors; ``accumulators.py`` and ``estimation.py`` train them. Everything is float64
except likelihoods and posteriors, which are in single precision as in Kaldi.
"""
