"""Sequence-discriminative training: the objectives MMI, MPFE and sMBR over lattices, and their derivatives.

The most important names: ``DiscriminativeObjective`` (``objective.py``: scores, sums over paths, derivatives),
``SupervisionSplitter`` and ``DiscriminativeExampleMaker`` (``make_egs.py``: an utterance's lattice and alignment, cut
into examples). ``options.py`` has the options of both. docs/discriminative.md is for users.

Imports nothing of ``training/``, where models are trained with it. k2 has differentiable lattices, but needs PyTorch,
and has neither Kaldi's examples nor its approximations (one silence class, dropped frames).
"""
