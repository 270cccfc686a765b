"""Decision trees over phones in context: their statistics, questions, growth, and what models are made of them.

``stats.py``: ``TreeStats``, events as an int32 table with the moments of their features as rows; ``objective`` is the
one likelihood. ``clustering.py`` moves and merges rows of moments; ``questions.py``, ``growing.py`` and ``build.py``
make trees of ``hmm/tree.py`` with them, rounding to single precision where Kaldi does, because rounding
makes gains equal. ``draw.py`` and ``picture.py`` show trees. ``initial_models.py`` makes models of
``gaussians/diag_gmm.py``.
"""
