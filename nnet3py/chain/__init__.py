"""LF-MMI (chain) training: graphs, supervision and what makes them.

``phone_lm.py``, ``den_fst.py`` (``make_den_fst(tree, model, phone_lm) -> Fst``), ``minimize.py`` (what makes it
small; in the order of arcs that Kaldi's numbers depend on), ``normalization.py`` (``normalization_fst(den_fst)``),
``den_graph.py`` (``initial_probs(den_fst)``, ``DenominatorGraph(den_fst, num_pdfs)``: arcs by destination, by source
and by pdf as arrays), ``proto_supervision.py``, ``make_supervision.py``, ``normalize.py``, ``make_egs.py``.
docs/chain.md is for users.
"""
