"""Tables of lattices, for Python programs."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnet3py
from nnet3py.errors import FormatError
from nnet3py.lattices import linear_lattice
from nnet3py.transducers.lattice import LATTICES, expanded


def test_lattices_come_back(here: Path) -> None:
    """Of a dict and of pairs, binary and text; state-level ones as compact ones."""
    lattices = {"a": linear_lattice(np.array([1, 2, 2]), np.array([7]), 1.0, 2.0), "b": nnet3py.CompactLattice.empty()}
    assert nnet3py.write_lattices("ark:a.ark", lattices) == 2
    assert nnet3py.write_lattices("ark,t:b.ark", lattices.items()) == 2
    for name in ("a.ark", "b.ark"):
        read = dict(nnet3py.read_lattices(f"ark:{name}"))
        assert list(read) == ["a", "b"] and all(read[key].equals(lattices[key]) for key in read)
    from nnet3py.io.tables import write_table

    write_table("ark:c.ark", LATTICES, {"a": expanded(lattices["a"])})
    [(_, lattice)] = nnet3py.read_lattices("ark:c.ark")
    assert nnet3py.lattices.path_of(lattice).words.tolist() == [7]      # type: ignore[union-attr]
    assert repr(lattices["a"]) == f"<CompactLattice: {lattices['a'].num_states} states, {lattices['a'].num_arcs} arcs>"
    Path("d.ark").write_bytes(b"a \0Bnonsense")
    with pytest.raises(FormatError, match="d.ark"):
        list(nnet3py.read_lattices("ark:d.ark"))
