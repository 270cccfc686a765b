"""Sequence-discriminative training: the objectives MMI, MPFE and sMBR over lattices, and their derivatives.

``splitting.py`` (an utterance's lattice and alignment, cut into pieces), ``make_egs.py`` (examples of them),
``options.py`` (the objective's options), ``lattice_graphs.py`` (a minibatch's lattices as tables for kernels),
``objective.py`` (scores, sums over paths, derivatives).
"""
