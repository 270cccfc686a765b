"""Decoding and training graphs: expansion to phones in context and to transition-ids, and grammars with nonterminals.

Most used are ``expand_context`` (``context.py``: windows of phones as labels), ``expand_hmms`` and ``add_self_loops``
(``hmms.py``: transition-ids). ``grammar_fst.py`` has nonterminals and ``GrammarFst``, whose graphs are joined while
decoding. Graphs are ``transducers.fst.Fst``; labels of supervisions and denominator graphs are pdf-id + 1.

The package must not import decoding or networks. kaldifst cannot make context or HMM transducers on demand from a
tree; it composes, determinizes and minimizes (``fst/openfst.py``).
"""
