"""Training of RNN language models on text. Kaldi: rnnlm/train_rnnlm.sh; Xu et al., 2018.

Xu, Li, Wang, Wang, Kang, Chen, Povey, Khudanpur: "Neural network language modeling with letter-based features and
importance sampling", ICASSP 2018.

``vocabulary.py`` numbers the words, ``features.py`` describes each by what its letters and its frequency are,
``text.py`` reads sentences, ``chunks.py`` puts them into minibatches; ``embedding.py`` holds the matrix that turns
features into vectors, ``objective.py`` compares outputs with the vectors of all words, or of those that ``sampling.py``
draws; ``trainer.py`` trains on a minibatch, ``perplexity.py`` measures; ``run.py`` does all of it, and ``folder.py``
writes what Kaldi's scripts look for.
"""
