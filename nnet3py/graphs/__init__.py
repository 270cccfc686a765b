"""Graphs: finite-state transducers of phones, context windows, transition-ids and words.

Graphs are ``transducers.fst.Fst`` everywhere; labels of supervisions and denominator graphs are pdf + 1.
``openfst.py`` is the one door to kaldifst (an extra, imported late; ``to_openfst(fst)``, ``from_openfst(fst)``),
``context.py``: ``expand_context(fst, width, central) -> (fst, windows)`` with window ids as labels, ``windows[id -
1]`` a tuple of phones; ``hmms.py``: ``expand_hmms(fst, windows, tree, model, transition_scale) -> Fst`` (labels are
transition-ids, no self-loops), ``hmm_transducer(windows, tree, model, transition_scale) -> (fst, labels of
disambiguation symbols)`` (transition-ids to window ids) and ``to_pdfs(fst, model)``; ``self_loops.py``:
``add_self_loops(fst, model, scale, check=True, reorder=True)``. Grammars in parts: ``nonterminals.py`` (labels),
``grammar_context.py`` (as ``context.py``, with nonterminals), ``grammar_fst.py`` (``GrammarFst``: files, and
preparing a graph to be a part). docs/chain.md is for users.
"""
