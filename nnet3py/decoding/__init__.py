"""Word decoding: lexicons, grammars, graphs made from them, the decoder, lattices and word error rates.

``symbols.py`` (words.txt, phones.txt), ``lexicon.py`` (L and L_disambig), ``grammar.py``, ``ngram.py`` (estimates,
ARPA files, G), ``graph.py`` (HCLG; graphs for alignment; lang and graph folders), ``decoder.py`` (``Decoder(graph,
model, options).decode(log_likes) -> Decoded``, ``.determinize(found)``), ``word_errors.py``. ``decoding_graph.py``:
``DecodingGraph`` is the two tables of OpenFst's ``const`` files, mapped into memory where a file has them, checked
once, and never changed. ``lattice_decoder.py``: ``LatticeDecoder(graph, options)``, Kaldi's search, with ``init()``,
``advance(log_likes)``, ``best_path()``, ``finalize()``, ``raw_lattice()``. Its tokens and links are rows of arrays
(``search_layout.py``) that compiled loops work on: ``search_loops.py`` passes tokens, in Kaldi's order;
``pruning_loops.py`` prunes backwards and closes the gaps, so a time's tokens always lie together, in order of
creation; ``result_loops.py`` reads off paths and lattices. ``lookahead_graph.py``: ``LookaheadGraph``, HCL and
a G, whose ``for_decoder()`` is a ``ComposedGraph``: tables like those above that grow as ``lookahead_loops.py``
composes what the search asks for (``MORE_ARCS``), looking ahead as OpenFst does; ``lookahead.py``: which labels can
come next in HCL, as intervals, read from ``olabel_lookahead`` files or found by ``reach_loops.py``;
``lookahead_grammar.py``: ``GrammarTables``, G for these loops, an n-gram model where it lies in its file.
``growing_graph.py`` is what such graphs have in common; ``grammar_graph.py``: ``GrammarGraph``, graphs that call each
other by nonterminals (``graphs/grammar_fst.py``), whose ``ExpandedGrammar`` ``grammar_loops.py`` puts together.
docs/decoding.md is for users.
"""
