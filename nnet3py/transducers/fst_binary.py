"""OpenFst's binary files: FSTs of types ``vector``, ``const``, ``compact…`` and ``ngram``.

A compact form leaves out what is the same for all arcs. Its elements are arcs, and final weights where a state has one,
before its arcs, with the label -1; in strings each state has one element. The number in a type's name
(``compact8_string``) is the size of the states' positions in bits. Kaldi: ``ReadFstKaldi``, ``WriteFstKaldi``,
``WriteLattice``. OpenFst: ``compact-fst.h``.
"""
from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers import COMPACT_KINDS, CONST_KINDS, ngram_fst
from nnet3py.transducers.compact_lattice import read_vector
from nnet3py.transducers.fst import (
    ARC_TYPES,
    FILE_VERSION,
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
from nnet3py.transducers.fst_operations import MUTABLE, known_properties
from nnet3py.transducers.ngram_fst import ngram_body, ngram_of_fst

NO_LABEL = -1                  # marks a final weight among the elements
_NAME = re.compile(r"(const|compact)(8|16|64)?(?:_([a-z_]+))?")
_POSITIONS = {"8": "u1", "16": "<u2", "": "<u4", "64": "<u8"}


class Form(NamedTuple):
    """The layout of a ``compact…`` type: the fields of an element, and whether the file has positions of states."""

    element: np.dtype
    has_positions: bool = True


def _form(has_positions: bool, **fields: str) -> Form:
    return Form(np.dtype(list(fields.items())), has_positions)


_FORMS = {
    "acceptor": _form(True, label="<i4", weight="<f4", next="<i4"),
    "unweighted": _form(True, label="<i4", output="<i4", next="<i4"),
    "unweighted_acceptor": _form(True, label="<i4", next="<i4"),
    "string": _form(False, label="<i4"),
    "weighted_string": _form(False, label="<i4", weight="<f4")}


def position_type(kind: str) -> np.dtype:
    """Return the dtype of the positions where each state's arcs begin, in an FST of type ``const…`` or ``compact…``."""
    match = _NAME.fullmatch(kind)
    assert match is not None
    return np.dtype(_POSITIONS[match[2] or ""])


def form_of(kind: str) -> Form:
    """Return the layout of a ``compact…`` type, such as ``compact8_string``."""
    match = _NAME.fullmatch(kind)
    assert match is not None
    return _FORMS[match[3]]


def fst_of_elements(reader: TokenReader, header: Header, starts: np.ndarray, elements: np.ndarray) -> Fst:
    """Return the FST that the elements of a ``compact…`` file describe; FormatError if they contradict the header.

    The elements, a structured array with the fields of the form, of state s begin at ``starts[s]``, int64 (states +
    1,).
    """
    names = elements.dtype.names or ()
    labels = elements["label"].astype(np.int32)
    is_weight = labels == NO_LABEL
    places = np.flatnonzero(is_weight)
    states = np.searchsorted(starts, places, side="right") - 1
    weights = elements["weight"].astype(np.float32) if "weight" in names else np.zeros(len(elements), np.float32)
    if not np.array_equal(starts[states], places) or np.isposinf(weights[places]).any():
        raise reader.error("expected the final weight of a state before its arcs, and finite")
    final = np.full(header.num_states, NO_WEIGHT, dtype=np.float32)
    final[states] = weights[places]
    if "next" in names:
        following = elements["next"].astype(np.int32)
        wrong = (following[places] != NO_STATE).any()
    else:
        following = np.arange(1, len(elements) + 1, dtype=np.int32)
        wrong = False
    arcs = ~is_weight
    if header.num_arcs != int(arcs.sum()) or wrong:
        raise reader.error(f"expected {header.num_arcs} arcs in an FST, found {int(arcs.sum())}")
    before = np.concatenate(([0], np.cumsum(is_weight)))
    outputs = elements["output"].astype(np.int32)[arcs] if "output" in names else labels[arcs]
    return Fst(header.start, final, starts - before[starts], labels[arcs], outputs, weights[arcs], following[arcs],
               header.arc_type, stored_facts(header))


def why_not(fst: Fst, kind: str) -> str | None:
    """Return as text why an FST cannot be stored as a ``compact…`` type; None if it can."""
    names = form_of(kind).element.names or ()
    if "output" not in names and not fst.is_acceptor:
        return "its input labels are not its output labels"
    if (fst.input_labels == NO_LABEL).any():
        return "a label is -1"
    if "weight" not in names and (fst.weights.any() or fst.final_weights[fst.is_final].any()):
        return "it has weights"
    if "next" not in names:
        counts = np.diff(fst.arc_starts)
        if (fst.start != 0 or (counts + fst.is_final != 1).any()
                or (fst.next_states != fst.sources + 1).any()):
            return "it is not one path of states in order"
    return None


def compact_body(fst: Fst, kind: str) -> bytes:
    """Return the bytes of a ``compact…`` FST after its header; FormatError if positions cannot count the elements."""
    form, is_final = form_of(kind), fst.is_final
    starts = fst.arc_starts + np.concatenate(([0], np.cumsum(is_final)))
    elements = np.zeros(int(starts[-1]), dtype=form.element)
    is_weight = np.zeros(len(elements), dtype=bool)
    is_weight[starts[:-1][is_final]] = True
    for name, values, of_final in (("label", fst.input_labels, NO_LABEL), ("output", fst.output_labels, NO_LABEL),
                                   ("next", fst.next_states, NO_STATE),
                                   ("weight", fst.weights, fst.final_weights[is_final])):
        if name in (form.element.names or ()):
            elements[name][~is_weight] = values
            elements[name][is_weight] = of_final
    return (positions(starts, kind) if form.has_positions else b"") + elements.tobytes()


def positions(starts: np.ndarray, kind: str) -> bytes:
    """Return the bytes of positions in the type's integer size; FormatError if they are too large for it."""
    dtype = position_type(kind)
    if len(starts) and int(starts[-1]) > np.iinfo(dtype).max:
        raise FormatError(f"an FST cannot be written as {kind}: it has {int(starts[-1])} arcs and final weights, more "
                          f"than {8 * dtype.itemsize} bits can count")
    return starts.astype(dtype).tobytes()


_ALIGNED, _ALIGNED_VERSION = 4, 1        # a flag; the version of files that are aligned without it
_ALIGNMENT = 16                # bytes; of the tables in aligned files
_LOOKAHEAD_KINDS = ("olabel_lookahead", "ilabel_lookahead")
_LOOKAHEAD_MAGIC = 446681434
KINDS = ("vector", *CONST_KINDS, *COMPACT_KINDS, "ngram", *_LOOKAHEAD_KINDS)      # that are read


def _const_state(kind: str) -> np.dtype:
    """Return the dtype of a state's record in a ``const…`` FST."""
    size = position_type(kind)
    return np.dtype([("final", "<f4"), ("first", size), ("arcs", size), ("input_eps", size), ("output_eps", size)],
                    align=True)


_CONST_STATE = _const_state("const")


def read_binary_fst(reader: TokenReader) -> Fst:
    """Read an FST in OpenFst's binary form, of any of the types ``KINDS``; of look-ahead types the FST inside is read.

    Raises FormatError for other bytes, and for arcs to states that do not exist.
    """
    header = read_header(reader)
    if header.arc_type not in ARC_TYPES or header.kind != "vector" and header.arc_type.startswith("lattice"):
        raise reader.error(f"expected an FST of arcs of type {', '.join(ARC_TYPES)}, found '{header.arc_type}' in an "
                           f"FST of type '{header.kind}'")
    if header.kind not in KINDS:
        raise reader.error(f"expected an FST of type {', '.join(KINDS)}, found '{header.kind}'",
                           hint="OpenFst's fstconvert --fst_type=vector makes one")
    if header.kind in _LOOKAHEAD_KINDS:
        magic = int(reader.array("<i4", 1)[0])
        if magic != _LOOKAHEAD_MAGIC:
            raise reader.error(f"expected an FST with look-ahead data, found {magic}")
        return read_binary_fst(reader)
    if header.kind == ngram_fst.KIND:
        return ngram_fst.read_ngram(reader, header).to_fst()
    read = {"vector": _read_vector}.get(header.kind, _read_const if header.kind in CONST_KINDS else _read_compact)
    return finished_fst(reader, read(reader, header))


def _arc_dtype(arc_type: ArcType) -> np.dtype:
    weight = (arc_type.stored, (2,)) if arc_type.width == 2 else (arc_type.stored,)
    return np.dtype([("input", "<i4"), ("output", "<i4"), ("weight", *weight), ("next", "<i4")])


def _from_arcs(header: Header, final: np.ndarray, arc_starts: np.ndarray, arcs: np.ndarray) -> Fst:
    return Fst(header.start, final, arc_starts, arcs["input"].astype(np.int32), arcs["output"].astype(np.int32),
               arcs["weight"].astype(final.dtype), arcs["next"].astype(np.int32), header.arc_type, stored_facts(header))


def _read_vector(reader: TokenReader, header: Header) -> Fst:
    kind = ARC_TYPES[header.arc_type]
    fst = read_vector(reader, header, *kind)
    return fst if kind.width == 2 else replace(fst, weights=fst.weights[:, 0], final_weights=fst.final_weights[:, 0])


def _starts(counts: Any) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(np.asarray(counts, dtype=np.int64))))


def _skip_padding(reader: TokenReader, header: Header) -> None:
    if header.version == _ALIGNED_VERSION or header.flags & _ALIGNED:
        reader.skip(-reader.offset % _ALIGNMENT)


def _read_const(reader: TokenReader, header: Header) -> Fst:
    _skip_padding(reader, header)
    states = reader.array(_const_state(header.kind), header.num_states, "states of an FST")
    starts = _starts(states["arcs"])
    if not np.array_equal(states["first"], starts[:-1]) or header.num_arcs != starts[-1]:
        raise reader.error("expected an FST whose states' arcs follow each other")
    _skip_padding(reader, header)
    arcs = reader.array(_arc_dtype(ARC_TYPES[header.arc_type]), header.num_arcs, "arcs of an FST")
    return _from_arcs(header, states["final"].astype(np.float32), starts, arcs)


def _read_compact(reader: TokenReader, header: Header) -> Fst:
    form = form_of(header.kind)
    _skip_padding(reader, header)
    if form.has_positions:
        starts = reader.array(position_type(header.kind), header.num_states + 1, "states of an FST").astype(np.int64)
        if starts[0] != 0 or (np.diff(starts) < 0).any():
            raise reader.error("expected an FST whose states' arcs follow each other")
        _skip_padding(reader, header)
    else:
        reader.check_count(header.num_states, form.element.itemsize, "states of an FST")
        starts = np.arange(header.num_states + 1, dtype=np.int64)
    elements = reader.array(form.element, int(starts[-1]), "arcs of an FST")
    return fst_of_elements(reader, header, starts, elements)


def write_binary_fst(writer: TokenWriter, fst: Fst, kind: str | None = None) -> None:
    """Write an FST in OpenFst's binary form.

    If the FST was read from a file of the same type, the properties in that file's header are written again; otherwise
    they are computed. Raises FormatError for an FST that cannot be stored in this type.

    Parameters
    ----------
    kind : str, one of ``KINDS`` that is not a look-ahead type; None for the type of the file that the FST was read
        from, or ``vector``
    """
    kind = kind or (fst.stored.kind if fst.stored else "vector")
    problem = check_fst(fst) or (why_not(fst, kind) if kind in COMPACT_KINDS else None)
    if problem or kind != "vector" and fst.weights.ndim == 2:
        raise FormatError(f"an FST cannot be written as {kind}: {problem or 'its weights are pairs'}")
    stored, version = fst.stored, ngram_fst.VERSION if kind == ngram_fst.KIND else FILE_VERSION
    num_states, num_arcs, start = fst.num_states, fst.num_arcs, fst.start
    if kind == ngram_fst.KIND:
        ngram = ngram_of_fst(fst)
        body, start, num_arcs = ngram_body(ngram), ngram.start, 0
    elif kind in COMPACT_KINDS:
        body = compact_body(fst, kind)
    else:
        body = _vector_body(fst) if kind == "vector" else _const_body(fst, kind)
    if stored is None or stored.kind != kind:
        bits = known_properties(fst) | (MUTABLE if kind == "vector" else 0)
        stored = Stored(kind, bits, 0 if kind == "vector" else num_arcs, *((stored.flags, stored.symbols) if stored
                                                                          else (0, b"")))
    num_arcs = stored.num_arcs if kind == "vector" else num_arcs
    writer.raw(binary_header(kind, fst.arc_type, stored.properties, start, num_states, num_arcs, stored.flags,
                             stored.symbols, version))
    writer.raw(body)


def const_tables(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    """Return the records of states, 20 bytes each, and of arcs, 16 bytes each, of a ``const`` file."""
    states = np.empty(fst.num_states, dtype=_CONST_STATE)
    states["final"], states["first"], states["arcs"] = fst.final_weights, fst.arc_starts[:-1], np.diff(fst.arc_starts)
    for name, labels in (("input_eps", fst.input_labels), ("output_eps", fst.output_labels)):
        states[name] = np.bincount(fst.sources[labels == 0], minlength=fst.num_states)
    return states, _arc_records(fst)


class ConstPlaces(NamedTuple):
    """The header of a ``const`` file, and the byte positions of its records of states and of arcs."""

    header: Header
    states: int
    arcs: int


def find_const_tables(reader: TokenReader) -> ConstPlaces | None:
    """Find the records of a ``const`` FST of costs in a file, without reading them; None for FSTs of other types.

    ``reader`` must have read the file from its beginning; it is left after the header. FormatError for other files.
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
    """Return the bytes of a ``vector`` FST after its header: each state, followed by its arcs."""
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
    """View an array's memory as int32 (rows, …)."""
    size = values.nbytes // 4 // rows if rows else 2
    return np.frombuffer(values.tobytes(), dtype="<i4").reshape(rows, size)


def _const_body(fst: Fst, kind: str) -> bytes:
    states, arcs = const_tables(fst)
    positions(fst.arc_starts, kind)                # which must fit
    return states.astype(_const_state(kind)).tobytes() + arcs.tobytes()
