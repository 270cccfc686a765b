"""Algorithms on finite-state transducers and on language models with back-off. OpenFst; Kaldi: ``fstext``, ``lm``.

Algorithms on ``transducers.fst.Fst`` arrays; loops over states and arcs are compiled (``*_loops.py``). ``arcs.py``:
sorting, sides, labels, loops, union, closure, replacement, all vectorized. ``text.py``: lines of text and back;
``symbols.py``: tables of symbols. ``local_epsilons.py``, ``push.py`` (special push): Kaldi's. ``openfst.py`` is the
one door to kaldifst: composition, determinization, minimization, shortest paths; a graph passes it as a file.
Language models: ``arpa.py`` (``read_arpa(rxfilename, WordIds(ids or None), Warner(most)) -> Arpa``, n-grams as
arrays), ``arpa_graph.py`` (grammars), ``const_arpa.py`` (``ConstArpa.read(rxfilename)``, ``log_prob(history, word)``,
``state(history)``). Compiled code is given ``ConstArpa.arrays`` and calls ``next_state`` of ``const_arpa_loops.py``,
which follows a word from one row of an array of histories to another (name that module in ``uses=`` of your
``Loop``). ``graphs/`` has what is made from them with a model: ``context.py``, ``windows.py``, ``hmms.py``,
``self_loops.py``. Scoring is in ``decoding/edit_distance.py``.
"""
