"""Language models that are nnet3 networks: scoring sentences, and lattices. Kaldi: src/rnnlm.

``word_features.py`` reads word_feats.txt, ``word_embedding.py`` has the vector of each word (``WordEmbedding``).
``network.py``: ``RnnlmNetwork`` computes histories, a word at a time, any number of them together; a ``History`` has
the network's state after some words, from which any number of others can be made. ``sentences.py`` scores sentences.
``histories.py``: which histories are taken for the same. ``on_demand.py``: the model looked up word by word, for pruned
composition (``HistoryLm``);
``composition.py``: composed with a whole lattice; ``rescoring.py`` has both for lattices, as Kaldi's programs and
vosk's rescoring have them. ``model.py``: ``RnnLanguageModel``, a folder of such a model. ``options.py``: light.
``training/`` makes such folders of text.
"""
