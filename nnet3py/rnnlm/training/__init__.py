"""Training of RNN language models on text. Kaldi: rnnlm/train_rnnlm.sh; Xu et al., 2018.

Xu, Li, Wang, Wang, Kang, Chen, Povey, Khudanpur: "Neural network language modeling with letter-based features and
importance sampling", ICASSP 2018.

``train_rnnlm`` (``run.py``) does all of it and writes the folder. ``vocabulary.py`` has the words and their features,
``text.py`` reads sentences and puts them into minibatches, ``objective.py`` computes the objective (over all words,
or a sample), ``trainer.py`` makes the network, trains it with the embedding (``RnnlmTrainer``) and measures perplexity.
``options.py`` imports nothing heavy. Nothing here imports ``nnet3py.recognition``.
"""
