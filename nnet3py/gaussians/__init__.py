"""Gaussian mixtures: acoustic models before networks, and universal background models (UBM) of i-vectors.

``DiagGmm`` and ``FullGmm`` (``mixtures.py``) hold the natural parameters that files hold; ``pruned_posteriors`` says
which Gaussians frames belong to; ``estimation.py`` trains mixtures from ``GmmStats``. ``symmetric.py`` has packed
symmetric matrices and eigenvectors. Float64, but likelihoods and posteriors are in single precision as in Kaldi.

This package imports ``formats``, ``hmm`` and ``io``, no features, networks or ``ops``; ``options.py`` imports no numpy.
scikit-learn's GaussianMixture has neither Kaldi's files nor statistics that many jobs gather, nor its pruning.
"""
