"""Commands that run whole trainings and preparations in stages, as Kaldi's steps/nnet3 scripts do, and reports.

``train.py``: train-dnn, train-chain and others; ``preparation.py``: i-vectors, trees, flat start, discriminative
training; ``report.py``: nnet3-monitor and nnet3-report. :func:`run_work` (``staged_work.py``) starts a driver of
nnet3py.drivers, whose options are dataclasses there; their declarations are imported with the command, the drivers
when it runs.
"""
