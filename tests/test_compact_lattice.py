"""Compact lattices, read in text and binary, and made of lattices that are not compact."""
from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from io_samples import check_survives, reader_of, written

from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import (
    expanded,
    factored,
    read_compact_lattice,
    read_lattice,
    write_compact_lattice,
    write_lattice,
)

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
    assert lattice.labels.tolist() == [7, 8, 9] and lattice.ids.tolist() == [3, 4, 6]
    assert lattice.string_starts.tolist() == [0, 2, 3, 3] and lattice.string(0).tolist() == [3, 4]
    assert lattice.weights.tolist() == [[0.5, 1.25], [1, 2], [0.25, 0]]
    assert lattice.is_final.tolist() == [False, False, True]


def test_text_and_binary_say_the_same() -> None:
    for data, is_binary in ((TEXT, False), (binary(), True)):
        lattice = read_compact_lattice(reader_of(data, is_binary))
        check(lattice)
        assert lattice.final_weights[2].tolist() == [0.125, 0.5] and lattice.final_string(2).tolist() == [5]
        assert written(write_compact_lattice, lattice, binary=False) == TEXT
        again = read_compact_lattice(reader_of(written(write_compact_lattice, lattice, binary=True), True))
        assert again.equals(lattice)


def test_a_pipe_is_read_in_pieces_and_not_beyond_the_lattice() -> None:
    class Pipe(io.RawIOBase):
        """Gives a few bytes at a time, and cannot seek."""

        def __init__(self, data: bytes) -> None:
            self.data = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def readinto(self, target: Any) -> int:
            return self.data.readinto(memoryview(target)[:7])

    reader = TokenReader(io.BufferedReader(Pipe(binary() * 2 + b"rest"), 16), binary=True)
    for _ in range(2):
        check(read_compact_lattice(reader))
    assert reader.raw(4) == b"rest"


def test_arcs_in_a_row_become_one() -> None:
    lattice = factored(read_lattice(reader_of(PLAIN, False)))
    check(lattice)
    assert lattice.final_weights[2].tolist() == [0, 0] and not len(lattice.final_ids)


def test_an_expanded_lattice_has_new_states_in_order() -> None:
    lattice = expanded(read_compact_lattice(reader_of(TEXT, False)))
    arcs = list(zip(lattice.sources.tolist(), lattice.next_states.tolist(), lattice.input_labels.tolist(),
                    lattice.output_labels.tolist(), lattice.weights.tolist(), strict=True))
    # State 0's arc gets state 3; state 1's have no need of any; state 2's final string leads to state 4.
    assert arcs == [(0, 3, 3, 7, [0.5, 1.25]), (1, 2, 6, 8, [1, 2]), (1, 2, 0, 9, [0.25, 0]),
                    (2, 4, 5, 0, [0.125, 0.5]), (3, 1, 4, 0, [0, 0])]
    assert lattice.is_final.tolist() == [False] * 4 + [True] and lattice.final_weights[4].tolist() == [0, 0]


def test_the_expanded_lattice_joins_again() -> None:
    lattice = factored(read_lattice(reader_of(binary(), True)))
    assert lattice.ids.tolist() == [3, 4, 6, 5] and lattice.labels.tolist() == [7, 8, 9, 0]
    assert not len(lattice.final_ids)


def test_states_that_cannot_be_reached_are_no_part_of_a_factored_lattice() -> None:
    lattice = factored(read_lattice(reader_of(b"\n0 1 3 7\n2 1 4 8\n1\n\n", False)))
    assert lattice.num_states == 2 and lattice.labels.tolist() == [7]


def test_a_cycle_stays() -> None:
    lattice = factored(read_lattice(reader_of(b"\n0 1 3 7\n1 0 4 8\n1\n\n", False)))
    assert lattice.next_states.tolist() == [1, 0]


def test_states_are_selected_with_their_strings() -> None:
    lattice = read_compact_lattice(reader_of(TEXT, False))
    turned = lattice.selected(np.array([2, 1, 0]))
    assert turned.start == 2 and turned.ids.tolist() == [6, 3, 4] and turned.string(2).tolist() == [3, 4]
    assert turned.final_string(0).tolist() == [5]
    assert turned.selected(np.array([2, 1, 0])).equals(lattice)
    fewer = lattice.selected(np.array([0, 1]))
    assert fewer.num_arcs == 1 and fewer.ids.tolist() == [3, 4] and not len(fewer.final_ids)


def test_empty_lattices() -> None:
    assert read_compact_lattice(reader_of(b"\n\n", False)).start == -1
    assert not factored(read_lattice(reader_of(b"\n\n", False))).num_arcs
    empty = CompactLattice.empty()
    for is_binary in (True, False):
        data = written(write_compact_lattice, empty, binary=is_binary)
        assert read_compact_lattice(reader_of(data, is_binary)).equals(empty)
        assert expanded(empty).num_states == 0


@pytest.mark.parametrize("text", [b"\n0 1 2 3 4 5\n\n", b"\n0 1 3 7 0.5,1.25\n1 0,0,\n\n", b"\n0 99 1 0,0,\n\n",
                                  b"\n0 1 x 0,0,\n\n", b"\n0 1 1 0,a,\n\n", b"\n0 1 1 0,0,9999999999\n\n"])
def test_other_lines_are_refused(text: bytes) -> None:
    for read in (read_lattice, read_compact_lattice):
        with pytest.raises(FormatError):
            read(reader_of(text, False))


def test_lines_decide_which_kind_a_lattice_in_text_is() -> None:
    assert read_compact_lattice(reader_of(b"\n0 1 7\n1\n\n", False)).labels.tolist() == [7]
    plain = read_lattice(reader_of(b"\n0 1 3 7\n1 0.5,1\n\n", False))
    assert plain.input_labels.tolist() == [3] and plain.output_labels.tolist() == [7]


def test_damage_is_found() -> None:
    check_survives(read_compact_lattice, TEXT, False)
    check_survives(read_compact_lattice, PLAIN, False)
    check_survives(read_compact_lattice, binary(), True)
    check_survives(read_compact_lattice, written(write_lattice, read_lattice(reader_of(PLAIN, False)), binary=True),
                   True)


@pytest.mark.parametrize("text", [b"\n0 1 7 BadNumber,0,3\n1 0,0,\n\n", b"\n0 1 7 0,-Infinity,3\n1 0,0,\n\n",
                                  b"\n0 1 -7 0,0,3\n1 0,0,\n\n", b"\n0 1 -7 3 0,0\n1\n\n"])
def test_costs_and_labels_that_none_can_have_are_refused(text: bytes) -> None:
    for read in (read_lattice, read_compact_lattice):
        with pytest.raises(FormatError, match="expected (costs|words)"):
            read(reader_of(text, False))
