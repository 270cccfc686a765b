"""HMM topologies, transition models, decision trees, and alignments.

Most used are ``TransitionModel`` (``transition_model.py``: arrays indexed by transition-id), ``ContextDependency``
(``tree.py``: decision trees, and the initial transition model of a tree and a topology) and ``PhoneAligner``
(``alignment.py``: alignments made of phones and lengths, and converted to another model or frame rate).

The package must not import FSTs, networks or Gaussians. kaldi-io, which reads tables, reads none of these files.
"""
