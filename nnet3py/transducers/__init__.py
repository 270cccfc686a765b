"""FSTs, lattices and compact lattices as arrays, and in files of OpenFst's forms.

``fst.py``: ``Fst`` as arrays by arc and state; ``fst_binary.py``: ``write_binary_fst(writer, fst, kind)``;
``fst_text.py``: ``read_fst(reader)``, ``write_fst(writer, fst)``. ``lattice.py``: lattices with a transition-id on
each arc (an ``Fst`` of arc type ``lattice4``) and compact ones (``compact_lattice.py``, ``CompactLattice``, words
with strings of transition-ids), with the holders ``LATTICES`` and ``COMPACT_LATTICES``; each kind of file is read
where the other is wanted (``lattice_conversion.py``: ``expanded``, ``factored``). ``state_graphs.py``: orders of
states and selections of them, for both. ``fst_operations.py``: ``concatenated``, ``without_epsilons``, ``connected``,
``breadth_first``, with arcs in OpenFst's order.
"""
