"""Phones' models: HMM topologies, transition models, decision trees, and alignments that refer to them.

Most used are ``TransitionModel`` (``transition_model.py``: arrays indexed by transition-id), ``ContextDependency``
(``tree.py``: decision trees, and the transition model that a tree and a topology make) and ``PhoneAligner``
(``alignment.py``: alignments from phones and lengths, and to another model or frame rate).

The room must not import FSTs, networks or Gaussians. kaldi-io, which reads tables, reads none of
these files.
"""
