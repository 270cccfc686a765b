"""Algorithms on finite-state transducers and on language models with back-off. OpenFst; Kaldi: ``fstext``, ``lm``."""
