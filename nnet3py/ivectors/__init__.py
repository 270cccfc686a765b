"""i-vectors, which say what is special about a speaker's or an utterance's sound, and what is done with them.

``extractor.py`` (``IvectorExtractor``, the statistics of an utterance, the distribution of its i-vector),
``training.py``, ``online.py`` (``OnlineIvectors``: estimates while frames come in, with what is known of the
speaker), ``plda.py``, ``vectors.py``. Everything is float64 except likelihoods and posteriors, which are in single
precision as in Kaldi.
"""
