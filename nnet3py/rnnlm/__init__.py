"""RNN language models that are nnet3 networks: scores of sentences, rescored lattices, training. Kaldi: src/rnnlm.

``RnnLanguageModel`` (``model.py``) is a model's folder; ``RnnlmNetwork`` (``network.py``) computes histories, any
number together, a word at a time; ``rescoring.py`` replaces language model costs in lattices. ``word_embedding.py`` has
the vectors of words, ``folder.py`` the names of files and the options (it imports nothing heavy, so that commands start
quickly). ``training/`` makes such folders of text.

Nothing here imports ``nnet3py.recognition``, which rescores its results with a ``RnnLanguageModel``. PyTorch could
train such models, but neither it nor any other library reads Kaldi's folders or composes lattices with their networks.
"""
