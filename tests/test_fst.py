"""Finite-state transducers: binary forms, text, properties, order of states, lattices."""
from __future__ import annotations

import dataclasses
import io
import struct

import numpy as np
import pytest
from io_samples import SAMPLES, check_survives, reader_of, written
from paths import shared_golden

from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader
from nnet3py.transducers.fst import MAGIC, NO_WEIGHT, Fst, Stored
from nnet3py.transducers.fst_binary import read_binary_fst, write_binary_fst
from nnet3py.transducers.fst_operations import fst_properties, top_sorted
from nnet3py.transducers.fst_text import read_fst, read_text_fst, write_fst, write_text_fst
from nnet3py.transducers.lattice import read_lattice, write_lattice

# The documented example: 0 -> 1 with label 5, cost 0.5, and with label 6; state 1 is final.
SMALL = MAGIC + b"\x10\0\0\0compact_acceptor\x08\0\0\0standard" + bytes.fromhex(
    "02000000 00000000 0100955a69a50000 0000000000000000 0200000000000000 0200000000000000"
    "00000000 02000000 03000000 05000000 0000003f 01000000 06000000 00000000 01000000 ffffffff 00000000 ffffffff")
SMALL_TEXT = b"\n0\t1\t5\t5\t0.5\n0\t1\t6\t6\n1\n\n"
LATTICE_TEXT = b"\n0\t1\t3\t7\t0.5,1.25\n0\t1\t4\t0\n1\t2\t3\t8\t-1,0\n2\t0.25,0\n\n"


def fst_of(arcs: list[tuple[int, int, int]], finals: list[int], states: int) -> Fst:
    """An acceptor of (source, next state, label), no costs."""
    table = np.array(sorted(arcs, key=lambda arc: arc[0]), dtype=np.int32).reshape(-1, 3)
    final = np.full(states, NO_WEIGHT, dtype=np.float32)
    final[finals] = 0.0
    starts = np.concatenate(([0], np.cumsum(np.bincount(table[:, 0], minlength=states))))
    return Fst(0, final, starts, table[:, 2], table[:, 2], np.zeros(len(table), np.float32), table[:, 1])


def binary(fst: Fst, kind: str | None = None) -> bytes:
    return written(lambda writer: write_binary_fst(writer, fst, kind), binary=True)


def without_stored(fst: Fst) -> Fst:
    return dataclasses.replace(fst, stored=None)


def test_the_documented_example() -> None:
    fst = read_fst(reader_of(SMALL, True))
    assert (fst.start, fst.num_states, fst.num_arcs) == (0, 2, 2)
    assert fst.input_labels.tolist() == fst.output_labels.tolist() == [5, 6]
    assert fst.weights.tolist() == [0.5, 0.0]
    assert fst.next_states.tolist() == [1, 1]
    assert fst.sources.tolist() == [0, 0]
    assert fst.is_final.tolist() == [False, True]
    assert binary(fst) == SMALL
    assert binary(without_stored(fst), "compact_acceptor") == SMALL     # its properties are found out again
    assert written(write_fst, fst, binary=False) == SMALL_TEXT
    assert read_fst(reader_of(SMALL_TEXT, False)).equals(fst)


def test_a_denominator_graph_of_kaldis() -> None:
    data = (SAMPLES / "den.fst").read_bytes()
    fst = read_fst(reader_of(data, True))
    assert fst.stored is not None
    assert fst.stored.kind == "vector"
    assert (fst.start, fst.num_states, fst.num_arcs) == (70, 111, 574)
    assert binary(fst) == data
    for kind in ("const", "compact_acceptor"):
        other = binary(fst, kind)
        again = read_fst(reader_of(other, True))
        assert again.equals(fst)
        assert binary(again) == other
    claimed = fst.stored.properties
    assert claimed & ~(fst_properties(fst) | 2) == 0            # all that Kaldi knew of it is so


def test_properties_are_those_that_openfst_finds() -> None:
    count = 0
    for name in ("sup.ark", "cegs.ark"):
        data = (shared_golden() / "chain" / name).read_bytes()
        place = data.find(MAGIC)
        while place >= 0:
            fst = read_binary_fst(TokenReader(io.BytesIO(data[place:place + 50000]), binary=True))
            assert fst.stored is not None
            assert fst_properties(fst) == fst.stored.properties
            place = data.find(MAGIC, place + 1)
            count += 1
    assert count == 40 + 256


def bits(fst: Fst) -> set[int]:
    return {bit for bit in range(16, 48) if fst_properties(fst) >> bit & 1}


def test_properties_of_cycles_and_strings() -> None:
    string = fst_of([(0, 1, 3), (1, 2, 4)], [2], 3)
    assert {16, 18, 20, 23, 28, 33, 35, 37, 38, 40, 42, 44, 47} <= bits(string)
    loop = fst_of([(0, 1, 3), (1, 1, 0)], [1], 2)
    assert {22, 24, 26, 34, 37, 39, 45, 47} <= bits(loop)       # a cycle, not through the start
    cycle = fst_of([(0, 1, 3), (1, 0, 3)], [1], 3)
    assert {34, 36, 41, 43} <= bits(cycle)                     # state 2 is alone
    costly = dataclasses.replace(cycle, weights=np.array([0.0, 1.0], np.float32))
    assert {32, 46} <= bits(costly)
    choice = fst_of([(0, 1, 5), (0, 1, 5), (0, 1, 3)], [1], 2)
    assert {19, 21, 29, 31} <= bits(choice)
    assert fst_properties(fst_of([], [], 0)) & 1


def test_states_are_sorted() -> None:
    fst = fst_of([(0, 2, 1), (2, 1, 2), (0, 1, 3)], [1], 3)
    assert not fst.is_top_sorted
    made = top_sorted(fst)
    assert made is not None
    assert made.is_top_sorted
    assert made.start == 0
    arcs = sorted(zip(made.sources.tolist(), made.next_states.tolist(), made.input_labels.tolist(), strict=True))
    assert arcs == [(0, 1, 1), (0, 2, 3), (1, 2, 2)]
    assert made.is_final.tolist() == [False, False, True]
    assert top_sorted(fst_of([(0, 1, 1), (1, 0, 1)], [1], 2)) is None
    assert top_sorted(fst_of([(0, 0, 1)], [0], 1)) is None
    assert top_sorted(made) is made


def test_text_forms() -> None:
    text = b"  \n3 0 1 2 0.5\r\n0\t3 4\t5\n1 Infinity\n3\n2\t7.5\n\nrest"
    reader = reader_of(text, False)
    fst = read_text_fst(reader)
    assert reader.raw(4) == b"rest"
    assert fst.start == 3
    assert fst.final_weights.tolist() == [np.inf, np.inf, 7.5, 0.0]
    assert written(write_text_fst, fst, binary=False) == (
        b"\n3\t0\t1\t2\t0.5\n3\n0\t3\t4\t5\n1\tInfinity\n2\t7.5\n\n")
    empty = read_text_fst(reader_of(b"\n\n", False))
    assert (empty.start, empty.num_states) == (-1, 0)
    assert written(write_text_fst, empty, binary=False) == b"\n\n"
    assert read_fst(reader_of(binary(empty), True)).equals(empty)


@pytest.mark.parametrize("text, message", [
    (b"0 1 2 3\n\n", "newline before"), (b"\n0 1 2\n\n", "1, 2, 4 or 5"), (b"\n0 1 2 3 4 5\n\n", "1, 2, 4 or 5"),
    (b"\n0 1 2 x\n\n", "a label"), (b"\n-1 1 2 3\n\n", "a state"), (b"\n0 99999999999 1 1\n\n", "a state"),
    (b"\n0 1000 1 1\n\n", "cannot have 1001 states"), (b"\n0 1 1 1 1e60\n\n", "a cost"), (b"\n0 inf\n\n", "a cost"),
    (b"\n0 1 1 1 1,2\n\n", "a cost"), (b"\n0 1 1 1\n", "newline"), (b"\n0 1_0\n\n", "a cost")])
def test_text_that_is_no_fst_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_text_fst(reader_of(text, False))


@pytest.mark.parametrize("old, new, message", [
    (b"compact_acceptor", b"compact_acceptoR", "type"), (b"standard", b"standarD", "arcs of type"),
    (b"\xd6\xfd", b"\xd6\xfc", "begins with"), (b"\2\0\0\0\3\0\0\0", b"\3\0\0\0\2\0\0\0", "follow each other"),
    (b"\0\0\0\x3f\1\0\0\0", b"\0\0\0\x3f\2\0\0\0", "does not exist"),
    (b"\0\0\0\0\xff\xff\xff\xff", b"\0\0\x80\x7f\xff\xff\xff\xff", "finite"),
    (b"\0\0\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\0\0\0", "arcs in an FST")])
def test_bytes_that_are_no_fst_are_refused(old: bytes, new: bytes, message: str) -> None:
    assert old in SMALL
    with pytest.raises(FormatError, match=message):
        read_binary_fst(reader_of(new.join(SMALL.rsplit(old, 1)), True))


def test_symbol_tables_are_kept() -> None:
    fst = read_fst(reader_of(SMALL, True))
    assert fst.stored is not None
    table = struct.pack("<ii", 2125658996, 3) + b"abc" + struct.pack("<qqi", 1, 1, 1) + b"x" + struct.pack("<q", 5)
    data = binary(dataclasses.replace(fst, stored=fst.stored._replace(flags=1, symbols=table)))
    again = read_fst(reader_of(data, True))
    assert again.stored == Stored("compact_acceptor", fst.stored.properties, 2, 1, table)
    assert binary(again) == data


def test_aligned_files_are_read() -> None:
    header, body = SMALL[:-48], SMALL[-48:]
    header = header[:-40] + struct.pack("<ii", 1, 4) + header[-32:]
    first = header + bytes(-len(header) % 16) + body[:12]
    fst = read_fst(reader_of(first + bytes(-len(first) % 16) + body[12:], True))
    assert fst.equals(read_fst(reader_of(SMALL, True)))


@pytest.mark.parametrize("kind", ["compact_acceptor", "const", "vector"])
def test_damaged_fsts_are_refused(kind: str) -> None:
    check_survives(read_fst, binary(read_fst(reader_of(SMALL, True)), kind), True, count=600)


def test_damaged_text_is_refused() -> None:
    check_survives(read_text_fst, SMALL_TEXT, False)


def test_only_acceptors_are_compact() -> None:
    fst = read_text_fst(reader_of(b"\n0 1 1 2\n1\n\n", False))
    with pytest.raises(FormatError, match="input labels"):
        binary(fst, "compact_acceptor")
    lattice = read_lattice(reader_of(LATTICE_TEXT, False))
    with pytest.raises(FormatError, match="pairs"):
        binary(lattice, "const")


def test_lattices() -> None:
    lattice = read_lattice(reader_of(LATTICE_TEXT, False))
    assert lattice.weights.tolist() == [[0.5, 1.25], [0, 0], [-1, 0]]
    assert lattice.final_weights.tolist() == [[np.inf] * 2, [np.inf] * 2, [0.25, 0]]
    assert written(write_lattice, lattice, binary=False) == LATTICE_TEXT
    data = written(write_lattice, lattice, binary=True)
    again = read_lattice(reader_of(data, True))
    assert again.equals(lattice)
    assert written(write_lattice, again, binary=True) == data
    double = dataclasses.replace(lattice, arc_type="lattice8", weights=lattice.weights.astype(np.float64),
                                 final_weights=lattice.final_weights.astype(np.float64))
    assert read_lattice(reader_of(binary(double), True)).equals(lattice)
    check_survives(read_lattice, data, True)
    check_survives(read_lattice, LATTICE_TEXT, False)


def compact_lattice(code: str) -> bytes:
    """0 -> 1 with word 7 and ids 3, 4; 1 -> 2 with word 8 and no id; 2 is final with id 5."""
    def weight(graph: float, acoustic: float, *ids: int) -> bytes:
        return struct.pack(f"<2{code}i{len(ids)}i", graph, acoustic, len(ids), *ids)

    none = weight(np.inf, np.inf)
    name = b"compactlattice%d4" % struct.calcsize(code)
    return (MAGIC + struct.pack("<i", 6) + b"vector" + struct.pack("<i", len(name)) + name
            + struct.pack("<iiQqqq", 2, 0, 3, 0, 3, 0)
            + none + struct.pack("<qii", 1, 7, 7) + weight(0.5, 1.0, 3, 4) + struct.pack("<i", 1)
            + none + struct.pack("<qii", 1, 8, 8) + weight(0.25, 0.0) + struct.pack("<i", 2)
            + weight(2.0, 0.0, 5) + struct.pack("<q", 0))


@pytest.mark.parametrize("code", ["f", "d"])
def test_compact_lattices_become_lattices(code: str) -> None:
    lattice = read_lattice(reader_of(compact_lattice(code), True))
    arcs = list(zip(lattice.sources.tolist(), lattice.next_states.tolist(), lattice.input_labels.tolist(),
                    lattice.output_labels.tolist(), lattice.weights.tolist(), strict=True))
    assert arcs == [(0, 3, 3, 7, [0.5, 1.0]), (1, 2, 0, 8, [0.25, 0.0]), (2, 4, 5, 0, [2.0, 0.0]),
                    (3, 1, 4, 0, [0.0, 0.0])]
    assert lattice.is_final.tolist() == [False, False, False, False, True]
    check_survives(read_lattice, compact_lattice(code), True)


def test_an_fst_that_is_no_lattice_is_refused() -> None:
    with pytest.raises(FormatError, match="expected a lattice"):
        read_lattice(reader_of(SMALL, True))


def test_long_files_are_read_by_compiled_loops() -> None:
    draw = np.random.default_rng(1)
    states, arcs = 3000, 8000
    finals = np.where(draw.random(states) < 0.2, draw.random(states), np.inf)
    fst = Fst.from_arcs(7, finals, *(draw.integers(0, states, arcs) for _ in range(1)),
                        draw.integers(0, 50, arcs), draw.integers(0, 50, arcs), draw.random(arcs),
                        draw.integers(0, states, arcs))
    data = binary(fst)
    assert read_binary_fst(reader_of(data)).equals(fst)
    for cut in (len(data) - 1, len(data) // 2, 90):
        with pytest.raises(FormatError):
            read_binary_fst(reader_of(data[:cut]))


def test_large_graphs_say_less_of_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    from nnet3py.transducers import fst_operations as bits

    fst = fst_of([(0, 1, 5), (0, 1, 6), (1, 0, 0)], [1], 2)
    monkeypatch.setattr(bits, "_MANY_ARCS", 1)
    known = bits.known_properties(fst)
    assert known & fst_properties(fst) == known and known >> bits.INPUT_SORTED & 1
    assert not known >> bits.CYCLIC & 3, "neither cyclic nor acyclic is said"
