"""Commands that decode utterances and streams, and score the words.

``latgen.py``: nnet3-latgen-faster and its variants for features or log-likelihoods; ``online.py``: streams, a server;
``scoring.py``: word error rates. ``decode_table.py`` has the options ``DECODER`` and :func:`decode_table`, the search,
outputs and log lines of the commands in ``latgen.py``; ``online_options.py`` the options ``DECODING`` and
:class:`OnlineDecoding` of streams. The work is done by nnet3py.decoding and nnet3py.recognition, which are imported
when a command runs.
"""
