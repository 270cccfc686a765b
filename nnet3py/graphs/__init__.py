"""Decoding and training graphs: FSTs of phones in context, of transition-ids and words, and grammars in parts.

Most used are ``expand_context`` (``context.py``: windows of phones as labels), ``expand_hmms`` and ``add_self_loops``
(``hmms.py``: transition-ids). ``grammar_fst.py`` has nonterminals and ``GrammarFst``, whose parts are put together
while
decoding. Graphs are ``transducers.fst.Fst``; labels of supervisions and denominator graphs are pdf-id + 1.

The room must not import decoding or networks. kaldifst has no context or HMM transducers made on demand from a tree;
composition, determinization and minimization are its work (``fst/openfst.py``).
"""
