"""OpenFst's const and compact types: what they can hold is read as it was written; what they cannot is said."""
from __future__ import annotations

import struct

import numpy as np
import pytest
from fst_cases import ACCEPTOR, FITTING, INF, LINE, PLAIN, TRANSDUCER, WEIGHTED_LINE, read, written

from nnet3py.errors import FormatError
from nnet3py.transducers import COMPACT_KINDS, CONST_KINDS
from nnet3py.transducers.fst import Fst


@pytest.mark.parametrize("kind", COMPACT_KINDS)
def test_compact(kind: str) -> None:
    fst = FITTING[kind.partition("_")[2]]
    found = read(written(fst, kind) + b"trailing data")
    assert found.equals(fst) and found.stored is not None and found.stored.kind == kind


@pytest.mark.parametrize("kind", CONST_KINDS)
@pytest.mark.parametrize("arc_type", ["standard", "log"])
def test_const(kind: str, arc_type: str) -> None:
    fst = Fst.from_arcs(0, [INF, 0.0, 0.0], [0, 0, 1], [1, 0, 3], [4, 5, 0], [0.5, 1.0, 2.0], [1, 2, 2], arc_type)
    assert read(written(fst, kind)).equals(fst)


def test_bytes_are_openfsts() -> None:
    """A string of two labels; positions of 8 bits; a state of const8."""
    assert written(LINE, "compact_string").endswith(struct.pack("<iii", 5, 6, -1))
    assert written(PLAIN, "compact8_unweighted_acceptor").endswith(
        bytes([0, 2, 4, 5]) + struct.pack("<10i", -1, -1, 1, 1, 0, 0, 3, 2, -1, -1))
    assert written(ACCEPTOR, "const8")[-3 * 16 - 3 * 8:-3 * 16] == struct.pack(
        "<f4Bf4Bf4B", 0.5, 0, 1, 0, 0, INF, 1, 2, 1, 1, 0.0, 3, 0, 0, 0)


def test_aligned_files() -> None:
    data = written(ACCEPTOR, "const16")
    head = data.index(struct.pack("<i", 2), 4)              # the version
    states = len(data) - 3 * 16 - 3 * 12
    padded = data[:head] + struct.pack("<ii", 2, 4) + data[head + 8:states]
    padded += bytes(-len(padded) % 16) + data[states:states + 36]
    padded += bytes(-len(padded) % 16) + data[states + 36:]
    assert read(padded).equals(ACCEPTOR)


def test_inside_of_lookahead_files() -> None:
    names = b"".join(struct.pack("<i", len(name)) + name for name in (b"ilabel_lookahead", b"standard"))
    head = struct.pack("<i", 2125659606) + names + struct.pack("<iiQqqqi", 1, 0, 0, -1, 0, 0, 446681434)
    assert read(head + written(TRANSDUCER, "const") + b"what can come next").equals(TRANSDUCER)
    with pytest.raises(FormatError, match="expected an FST with look-ahead data, found 5"):
        read(head[:-4] + struct.pack("<i", 5) + written(TRANSDUCER, "const"))


@pytest.mark.parametrize(("fst", "kind", "message"), [
    (TRANSDUCER, "compact_acceptor", "its input labels are not its output labels"),
    (ACCEPTOR, "compact_unweighted", "it has weights"), (WEIGHTED_LINE, "compact_string", "it has weights"),
    (PLAIN, "compact8_string", "it is not one path of states in order"),
    (Fst.from_arcs(0, np.append(np.full(300, INF), 0.0), np.arange(300), np.ones(300), np.ones(300), np.zeros(300),
                   np.arange(1, 301)), "const8", "300 arcs and final weights, more than 8 bits can count"),
])
def test_what_a_type_cannot_hold(fst: Fst, kind: str, message: str) -> None:
    with pytest.raises(FormatError, match=f"cannot be written as {kind}: .*{message}"):
        written(fst, kind)


def test_types_that_are_not_known() -> None:
    data = written(LINE, "const").replace(b"const", b"tsnoc")
    with pytest.raises(FormatError, match="expected an FST of type vector, const, .*, found 'tsnoc'"):
        read(data)
