"""The names of OpenFst's FST types other than ``vector``."""
from __future__ import annotations

FORMS = ("acceptor", "unweighted", "unweighted_acceptor", "string", "weighted_string")     # of elements
COMPACT_KINDS = tuple(f"compact{size}_{form}" for form in FORMS for size in ("", "8", "16", "64"))
CONST_KINDS = ("const", "const8", "const16", "const64")
