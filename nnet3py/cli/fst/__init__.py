"""Commands on finite-state transducers: Kaldi's and OpenFst's programs, decoding graphs, language models.

``programs.py``: Kaldi's fstbin/ and the parts of HCLG; ``openfst.py``: OpenFst's programs; ``make_graph.py``: lang
folders, decoding graphs in one step, ARPA models; ``train_rnnlm.py``. Important names, in ``graph_files.py``:
``read_graph(name)``, ``change_graph(args, change)`` (read an FST, change it, write it) and ``names_of_files(args)``.

The algorithms are in ``nnet3py.fst``, ``graphs`` and ``decoding``, imported inside the commands, like numpy. OpenFst's
determinization and composition come from the package kaldifst, an extra; the others are written here, to do without it.
"""
