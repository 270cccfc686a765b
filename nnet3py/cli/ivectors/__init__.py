"""Commands on Gaussian mixtures, i-vectors, x-vectors, PLDA and clusters of speakers.

``gmm_global.py`` and ``gmm_posteriors.py`` train and apply universal background models, ``extractor.py`` and
``extract.py`` extractors of i-vectors; ``vectors.py`` and ``scoring.py`` compare speakers. The work is done by
``nnet3py.gaussians`` and ``nnet3py.ivectors``, which are imported when a command runs.
"""
