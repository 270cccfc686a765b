"""Commands that train networks on examples and measure objectives, frame-level and discriminative.

``train.py``: nnet3-train, nnet3-compute-prob, nnet3-combine and others; ``discriminative.py``: discriminative examples,
training and objective. ``train_setup.py`` is for chain training, too: the groups of options ``TRAINER``, ``PROB`` and
``CHAIN``, :func:`trainer_options` and :func:`finish`. The work is done by nnet3py.training, which is imported when a
command runs. Drivers of whole trainings are in ``drivers/``.
"""
