"""FSTs, lattices and compact lattices as arrays, and in files of OpenFst's forms.

Most used are ``Fst`` (``fst.py``), ``CompactLattice`` (``compact_lattice.py``: words with strings of transition-ids)
and the holders ``LATTICES`` and ``COMPACT_LATTICES`` (``lattice.py``), which read each kind of lattice where the other
is wanted. ``fst_binary.py`` and ``fst_text.py`` read and write files, ``fst_operations.py`` has OpenFst's properties
and operations whose arcs must come in OpenFst's order, ``state_graphs.py`` orders and selects states.

The package must not import graphs, lattices' algorithms or models. kaldifst reads the same files, but returns states
and arcs one Python object at a time; and here an n-gram FST is used where it lies in its file, without being read.
"""
from __future__ import annotations

# The names of OpenFst's FST types other than ``vector``.
FORMS = ("acceptor", "unweighted", "unweighted_acceptor", "string", "weighted_string")     # of elements
COMPACT_KINDS = tuple(f"compact{size}_{form}" for form in FORMS for size in ("", "8", "16", "64"))
CONST_KINDS = ("const", "const8", "const16", "const64")
