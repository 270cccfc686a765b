"""Algorithms on finite-state transducers, n-gram language models, and FSTs as text. OpenFst; Kaldi: ``fstext``, ``lm``.

Most used are ``compose`` and ``determinize_star`` (``openfst.py``, the interface to kaldifst), ``read_arpa``
(``arpa.py``) and ``ConstArpa`` (``const_arpa.py``: ``read(rxfilename)``, ``log_prob(history, word)``,
``state(history)``). ``operations.py`` sorts, relabels and joins FSTs, ``arpa_graph.py`` makes grammars, ``text.py``
reads and writes FSTs in text and symbol tables. Compiled code that looks words up takes ``ConstArpa.arrays`` and calls
``next_state`` of ``const_arpa_loops.py``, to be named in ``uses=`` of its ``Loop``.

The package must not import models, graphs or lattices' algorithms. kaldifst composes, determinizes and minimizes;
other operations are here, since arrays are passed to kaldifst only as files.
"""
