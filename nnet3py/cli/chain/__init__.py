"""Commands of chain (LF-MMI) training.

``graphs.py``: phone language model, denominator and numerator graphs; ``examples.py``: supervisions and examples;
``train.py``: training, objective, combination, for one or several languages; ``compute_post.py``: posteriors by the
denominator graph. The groups of options ``TRAINER``, ``CHAIN`` and ``PROB`` come from ``training/train_setup.py``. The
work is done by nnet3py.chain and nnet3py.training, which are imported when a command runs.
"""
