"""Compact lattices, read in text and binary, and made of lattices that are not compact."""
from __future__ import annotations

import struct

import numpy as np
import pytest
from io_samples import check_survives, reader_of

from nnet3py.errors import FormatError
from nnet3py.io.compact_lattice import CompactLattice, joined, read_compact_lattice
from nnet3py.io.lattice import read_lattice

# 0 -> 1 with word 7 and ids 3, 4; 1 -> 2 with word 8 and id 6; 1 -> 2 with word 9 and no id; 2 is final with id 5.
TEXT = b"\n0\t1\t7\t0.5,1.25,3_4\n1\t2\t8\t1,2,6\n1\t2\t9\t0.25,0,\n2\t0.125,0.5,5\n\n"
PLAIN = b"\n0 1 3 7 0.5,1.25\n1 2 4 0\n2 3 6 8 1,2\n2 3 0 9 0.25,0\n3 0,0\n\n"


def binary() -> bytes:
    def weight(graph: float, acoustic: float, *ids: int) -> bytes:
        return struct.pack(f"<2fi{len(ids)}i", graph, acoustic, len(ids), *ids)

    def name(text: str) -> bytes:
        return struct.pack("<i", len(text)) + text.encode()

    none = weight(np.inf, np.inf)
    head = (struct.pack("<i", 2125659606) + name("vector") + name("compactlattice44")
            + struct.pack("<iiQqqq", 2, 0, 3, 0, 3, 0))
    return (head + none + struct.pack("<q2i", 1, 7, 7) + weight(0.5, 1.25, 3, 4) + struct.pack("<i", 1)
            + none + struct.pack("<q2i", 2, 8, 8) + weight(1, 2, 6) + struct.pack("<i2i", 2, 9, 9) + weight(0.25, 0)
            + struct.pack("<i", 2) + weight(0.125, 0.5, 5) + struct.pack("<q", 0))


def check(lattice: CompactLattice) -> None:
    assert lattice.start == 0 and lattice.sources.tolist() == [0, 1, 1] and lattice.next_states.tolist() == [1, 2, 2]
    assert lattice.labels.tolist() == [7, 8, 9] and lattice.lengths.tolist() == [2, 1, 0]
    assert lattice.weights.tolist() == [[0.5, 1.25], [1, 2], [0.25, 0]]
    assert np.isinf(lattice.final_weights[:2]).all()


def test_text_and_binary_say_the_same() -> None:
    for data, is_binary in ((TEXT, False), (binary(), True)):
        lattice = read_compact_lattice(reader_of(data, is_binary))
        check(lattice)
        assert lattice.final_weights[2].tolist() == [0.125, 0.5] and lattice.final_lengths.tolist() == [0, 0, 1]


def test_arcs_in_a_row_become_one() -> None:
    lattice = joined(read_lattice(reader_of(PLAIN, False)))
    check(lattice)
    assert lattice.final_weights[2].tolist() == [0, 0] and lattice.final_lengths.tolist() == [0, 0, 0]


def test_the_expanded_lattice_joins_again() -> None:
    lattice = joined(read_lattice(reader_of(binary(), True)))
    assert lattice.lengths.tolist()[:3] == [2, 1, 0] and lattice.labels.tolist()[:3] == [7, 8, 9]
    assert lattice.final_lengths.tolist() == [0] * len(lattice.final_lengths)


def test_empty_lattices() -> None:
    assert read_compact_lattice(reader_of(b"\n\n", False)).start == -1
    assert not len(joined(read_lattice(reader_of(b"\n\n", False))).sources)


@pytest.mark.parametrize("text", [b"\n0 1 2 3 4 5\n\n", b"\n0 1 3 7 0.5,1.25\n1\n\n", b"\n0 99 1 0,0,\n\n",
                                  b"\n0 1 x 0,0,\n\n", b"\n0 1 1 0,a,\n\n"])
def test_other_lines_are_refused(text: bytes) -> None:
    with pytest.raises(FormatError):
        read_compact_lattice(reader_of(text, False))


def test_damage_is_found() -> None:
    check_survives(read_compact_lattice, TEXT, False)
    check_survives(read_compact_lattice, binary(), True)
