"""OpenFst's binary files: transducers as states with their arcs, as two tables, or as elements of acceptors.

Kaldi: ``ReadFstKaldi``, ``WriteFstKaldi``, ``WriteLattice``.
"""
from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.compact_lattice import fill_states, read_state_words
from nnet3py.transducers.fst import (
    ARC_TYPES,
    NO_STATE,
    NO_WEIGHT,
    ArcType,
    Fst,
    Header,
    Stored,
    binary_header,
    check_fst,
    finished_fst,
    read_header,
    stored_facts,
)
from nnet3py.transducers.fst_properties import MUTABLE, known_properties

_ALIGNED, _ALIGNED_VERSION = 4, 1        # a flag; the version of files that are aligned without it
NO_LABEL = -1                  # marks a final weight among the elements of a compact FST
_ALIGNMENT = 16                # bytes; of the tables in aligned files
_MANY_STATES = 1000            # from here on a file is read by compiled loops
_ELEMENT = np.dtype([("label", "<i4"), ("weight", "<f4"), ("next", "<i4")])
_CONST_STATE = np.dtype([("final", "<f4"), ("first", "<u4"), ("arcs", "<u4"), ("input_eps", "<u4"),
                         ("output_eps", "<u4")])


def read_binary_fst(reader: TokenReader) -> Fst:
    """Read an FST in OpenFst's binary form: ``vector``, ``const`` or ``compact_acceptor``.

    Raises FormatError for anything else, and for states that do not exist.
    """
    header = read_header(reader)
    if header.arc_type not in ARC_TYPES or header.kind != "vector" and header.arc_type.startswith("lattice"):
        raise reader.error(f"expected an FST of arcs of type {', '.join(ARC_TYPES)}, found '{header.arc_type}' in an "
                           f"FST of type '{header.kind}'")
    bodies = {"vector": _read_vector, "const": _read_const, "compact_acceptor": _read_compact}
    if header.kind not in bodies:
        raise reader.error(f"expected an FST of type {', '.join(bodies)}, found '{header.kind}'",
                           hint="OpenFst's fstconvert --fst_type=vector makes one")
    return finished_fst(reader, bodies[header.kind](reader, header))


def _arc_dtype(arc_type: ArcType) -> np.dtype:
    weight = (arc_type.stored, (2,)) if arc_type.width == 2 else (arc_type.stored,)
    return np.dtype([("input", "<i4"), ("output", "<i4"), ("weight", *weight), ("next", "<i4")])


def _from_arcs(header: Header, final: np.ndarray, arc_starts: np.ndarray, arcs: np.ndarray) -> Fst:
    return Fst(header.start, final, arc_starts, arcs["input"].astype(np.int32), arcs["output"].astype(np.int32),
               arcs["weight"].astype(final.dtype), arcs["next"].astype(np.int32), header.arc_type, stored_facts(header))


def _read_vector(reader: TokenReader, header: Header) -> Fst:
    kind = ARC_TYPES[header.arc_type]
    arc_dtype, dtype = _arc_dtype(kind), np.dtype(kind.stored)
    weight_size = dtype.itemsize * kind.width
    reader.check_count(header.num_states, weight_size + 8, "states of an FST")
    if header.num_states >= _MANY_STATES and kind.width == 1:
        return _read_long_vector(reader, header)
    finals, blocks, counts = bytearray(), bytearray(), array("q")
    for _ in range(header.num_states):
        head = reader.raw(weight_size + 8)
        count = int.from_bytes(head[weight_size:], "little", signed=True)
        reader.check_count(count, arc_dtype.itemsize, "arcs of an FST")
        finals += head[:weight_size]
        counts.append(count)
        blocks += reader.raw(count * arc_dtype.itemsize)
    final = np.frombuffer(finals, dtype=dtype).astype(dtype.newbyteorder("="))
    arcs = np.frombuffer(blocks, dtype=arc_dtype)
    return _from_arcs(header, final.reshape(-1, 2) if kind.width == 2 else final, _starts(counts), arcs)


def _read_long_vector(reader: TokenReader, header: Header) -> Fst:
    """As :func:`_read_vector`, for single costs, by compiled loops, which are worth loading for many states."""
    data, (num_arcs, _, _) = read_state_words(reader, header.num_states, 1, False)
    finals, arc_starts, arcs = fill_states(data, header.num_states, 1, num_arcs)
    weights = np.ascontiguousarray(arcs[:, 2]).view(np.float32)
    return Fst(header.start, finals.view(np.float32)[:, 0], arc_starts, arcs[:, 0].copy(), arcs[:, 1].copy(), weights,
               arcs[:, 3].copy(), header.arc_type, stored_facts(header))


def _starts(counts: Any) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(np.asarray(counts, dtype=np.int64))))


def _skip_padding(reader: TokenReader, header: Header) -> None:
    if header.version == _ALIGNED_VERSION or header.flags & _ALIGNED:
        reader.skip(-reader.offset % _ALIGNMENT)


def _read_const(reader: TokenReader, header: Header) -> Fst:
    _skip_padding(reader, header)
    states = reader.array(_CONST_STATE, header.num_states, "states of an FST")
    starts = _starts(states["arcs"])
    if not np.array_equal(states["first"], starts[:-1]) or header.num_arcs != starts[-1]:
        raise reader.error("expected an FST whose states' arcs follow each other")
    _skip_padding(reader, header)
    arcs = reader.array(_arc_dtype(ARC_TYPES[header.arc_type]), header.num_arcs, "arcs of an FST")
    return _from_arcs(header, states["final"].astype(np.float32), starts, arcs)


def _read_compact(reader: TokenReader, header: Header) -> Fst:
    _skip_padding(reader, header)
    starts = reader.array("<u4", header.num_states + 1, "states of an FST").astype(np.int64)
    if starts[0] != 0 or (np.diff(starts) < 0).any():
        raise reader.error("expected an FST whose states' arcs follow each other")
    _skip_padding(reader, header)
    elements = reader.array(_ELEMENT, int(starts[-1]), "arcs of an FST")
    is_weight = elements["label"] == NO_LABEL
    places = np.flatnonzero(is_weight)
    states = np.searchsorted(starts, places, side="right") - 1
    finals = elements["weight"][places]
    if not np.array_equal(starts[states], places) or np.isposinf(finals).any():
        raise reader.error("expected the final weight of a state before its arcs, and finite")
    final = np.full(header.num_states, NO_WEIGHT, dtype=np.float32)
    final[states] = finals
    arcs = elements[~is_weight]
    if header.num_arcs != len(arcs) or (elements["next"][places] != NO_STATE).any():
        raise reader.error(f"expected {header.num_arcs} arcs in an FST, found {len(arcs)}")
    before = np.concatenate(([0], np.cumsum(is_weight)))
    labels = arcs["label"].astype(np.int32)
    return Fst(header.start, final, starts - before[starts], labels, labels, arcs["weight"].astype(np.float32),
               arcs["next"].astype(np.int32), header.arc_type, stored_facts(header))


# -- writing -----------------------------------------------------------------------------------------------------------


def write_binary_fst(writer: TokenWriter, fst: Fst, kind: str | None = None) -> None:
    """Write in OpenFst's binary form.

    ``kind`` is ``vector``, ``const`` or ``compact_acceptor``; None for that of the file it came from, or vector. The
    properties that the file stated are written again if the kind is the same; otherwise they are computed.

    Raises FormatError for an FST that cannot be stored so.
    """
    kind = kind or (fst.stored.kind if fst.stored else "vector")
    bodies = {"vector": _vector_body, "const": _const_body, "compact_acceptor": _compact_body}
    problem = check_fst(fst) or (_not_compact(fst) if kind == "compact_acceptor" else None)
    if problem or kind != "vector" and fst.weights.ndim == 2:
        raise FormatError(f"an FST cannot be written as {kind}: {problem or 'its weights are pairs'}")
    body = bodies[kind](fst)
    stored = fst.stored
    if stored is None or stored.kind != kind:
        bits = known_properties(fst) | (MUTABLE if kind == "vector" else 0)
        stored = Stored(kind, bits, 0 if kind == "vector" else fst.num_arcs)
    num_arcs = stored.num_arcs if kind == "vector" else fst.num_arcs
    writer.raw(binary_header(kind, fst.arc_type, stored.properties, fst.start, fst.num_states, num_arcs, stored.flags,
                             stored.symbols))
    writer.raw(body)


def _not_compact(fst: Fst) -> str | None:
    if not fst.is_acceptor:
        return "its input labels are not its output labels"
    return "a label is -1" if (fst.input_labels == NO_LABEL).any() else None


def const_tables(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    """The two tables of a ``const`` file: records of the states, and of the arcs, 20 and 16 bytes each."""
    states = np.empty(fst.num_states, dtype=_CONST_STATE)
    states["final"], states["first"], states["arcs"] = fst.final_weights, fst.arc_starts[:-1], np.diff(fst.arc_starts)
    for name, labels in (("input_eps", fst.input_labels), ("output_eps", fst.output_labels)):
        states[name] = np.bincount(fst.sources[labels == 0], minlength=fst.num_states)
    return states, _arc_records(fst)


class ConstPlaces(NamedTuple):
    """Where the tables of a ``const`` file begin, and what its header says."""

    header: Header
    states: int
    arcs: int


def find_const_tables(reader: TokenReader) -> ConstPlaces | None:
    """Where the tables of a ``const`` FST of costs begin in a file, without reading them; None for other FSTs.

    The reader, which must count from the file's beginning, is left after the FST's header. FormatError if it is no FST.
    """
    header = read_header(reader)
    if header.kind != "const" or header.arc_type != "standard":
        return None
    padding = _ALIGNMENT if header.version == _ALIGNED_VERSION or header.flags & _ALIGNED else 1
    states = reader.offset + -reader.offset % padding
    end = states + header.num_states * _CONST_STATE.itemsize
    return ConstPlaces(header, states, end + -end % padding)


def _arc_records(fst: Fst) -> np.ndarray:
    arcs = np.empty(fst.num_arcs, dtype=_arc_dtype(ARC_TYPES[fst.arc_type]))
    arcs["input"], arcs["output"], arcs["next"] = fst.input_labels, fst.output_labels, fst.next_states
    arcs["weight"] = fst.weights
    return arcs


def _vector_body(fst: Fst) -> bytes:
    """States, each with its arcs, all in words of 4 bytes."""
    arcs = _words(_arc_records(fst), fst.num_arcs)
    final = _words(np.ascontiguousarray(fst.final_weights, dtype=ARC_TYPES[fst.arc_type].stored), fst.num_states)
    weight_words = final.shape[1]
    state_at = np.arange(fst.num_states) * (weight_words + 2) + fst.arc_starts[:-1] * arcs.shape[1]
    arc_at = np.arange(fst.num_arcs) * arcs.shape[1] + (fst.sources + 1) * np.int64(weight_words + 2)
    words = np.zeros(fst.num_states * (weight_words + 2) + arcs.size, dtype="<i4")
    words[state_at[:, None] + np.arange(weight_words)] = final
    words[state_at + weight_words] = np.diff(fst.arc_starts)
    words[arc_at[:, None] + np.arange(arcs.shape[1])] = arcs
    return words.tobytes()


def _words(values: np.ndarray, rows: int) -> np.ndarray:
    """The memory of an array as int32 (rows, …)."""
    size = values.nbytes // 4 // rows if rows else 2
    return np.frombuffer(values.tobytes(), dtype="<i4").reshape(rows, size)


def _const_body(fst: Fst) -> bytes:
    return b"".join(table.tobytes() for table in const_tables(fst))


def _compact_body(fst: Fst) -> bytes:
    is_final = fst.is_final
    starts = fst.arc_starts + np.concatenate(([0], np.cumsum(is_final)))
    elements = np.empty(int(starts[-1]), dtype=_ELEMENT)
    is_weight = np.zeros(len(elements), dtype=bool)
    is_weight[starts[:-1][is_final]] = True
    for name, values, of_final in (("label", fst.input_labels, NO_LABEL), ("next", fst.next_states, NO_STATE),
                                   ("weight", fst.weights, fst.final_weights[is_final])):
        elements[name][~is_weight] = values
        elements[name][is_weight] = of_final
    return starts.astype("<u4").tobytes() + elements.tobytes()
