"""Word decoding: lexicons, grammars, graphs made of them, the lattice decoder, and word error rates.

The most important names are :class:`~nnet3py.decoding.lattice_decoder.LatticeDecoder`, Kaldi's search, whose loops
(``search_loops.py``, ``lattice_loops.py``) work on arrays described in ``layout.py``;
:class:`~nnet3py.decoding.decoding_graph.DecodingGraph`, HCLG in tables that are mapped from ``const`` files; and
:class:`~nnet3py.decoding.composed_graphs.LookaheadGraph`, HCL and G composed while decoding. ``symbols.py``,
``lexicon.py`` and ``grammar.py`` have the parts from which ``graph.py`` makes HCLG, training graphs and phone loops.
Modules here do not use neural networks, features or audio streams: these are in ``recognition/``. Lattices are in
``lattices/``. The library kaldi-decoder (k2-fsa), a port of Kaldi's C++, is not used: graphs expanded while decoding,
and results during the search, need access to its tokens. kaldifst, an extra, composes and determinizes graphs.
docs/decoding.md is for users.
"""
