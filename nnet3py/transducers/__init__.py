"""FSTs, lattices and compact lattices as arrays, and in files of OpenFst's forms.

Most used are ``Fst`` (``fst.py``), ``CompactLattice`` (``compact_lattice.py``: words with strings of transition-ids)
and the holders ``LATTICES`` and ``COMPACT_LATTICES`` (``lattice.py``), which read each kind of lattice where the other
is wanted. ``fst_binary.py`` and ``fst_text.py`` read and write files, ``fst_operations.py`` has OpenFst's properties
and operations whose arcs must come in OpenFst's order, ``state_graphs.py`` orders and selects states.

The package must not import graphs, lattices' algorithms or models. kaldifst reads the same files, but returns states
and arcs one Python object at a time; and here an n-gram FST is used where it lies in its file, without being read.
"""
