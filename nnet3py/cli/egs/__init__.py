"""Commands that make, copy, select, order and merge training examples, and compute outputs for examples.

``get.py``: examples from features; ``copy.py``; ``rearrange.py``: shuffle, subset, merge; ``outputs.py``;
``options.py``: the groups of options of commands that make or merge examples. Commands for chain and discriminative
examples stand beside those for frame-level examples, whose functions they share; making chain examples is in
``chain/``, making discriminative examples in ``training/``. The work is done by nnet3py.egs, which is imported when a
command runs.
"""
