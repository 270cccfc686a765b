"""Commands that decode utterances and streams, and score the words.

``latgen.py``: nnet3-latgen-faster and its variants for features or log-likelihoods; ``looped.py`` and ``online.py``:
streams of features and of sound; ``scoring.py``: word error rates. ``decode_table.py`` has the options ``DECODER`` and
:func:`decode_table`, the search, outputs and log lines for features; ``online_options.py`` the options ``DECODING`` and
:class:`OnlineDecoding` for sound. The work is done by nnet3py.decoding and nnet3py.recognition, which are imported when
a command runs.
"""
