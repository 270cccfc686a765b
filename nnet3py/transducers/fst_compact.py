"""OpenFst's ``compact`` forms of FSTs, in which what is known of all arcs is left out.

A form's elements are arcs, and final weights where a state has one: before its arcs, with the label -1. In strings each
state has one element. The number in a type's name (``compact8_string``) is the size of the states' positions in bits.
OpenFst: ``compact-fst.h``.
"""
from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader
from nnet3py.transducers.fst import NO_STATE, NO_WEIGHT, Fst, Header, stored_facts

NO_LABEL = -1                  # marks a final weight among the elements
_NAME = re.compile(r"(const|compact)(8|16|64)?(?:_([a-z_]+))?")
_POSITIONS = {"8": "u1", "16": "<u2", "": "<u4", "64": "<u8"}


class Form(NamedTuple):
    """What the elements of a form have: ``label``, and others where they differ from what follows from the form."""

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
    """The numbers that say where a state's arcs begin, in an FST of type ``const…`` or ``compact…``."""
    match = _NAME.fullmatch(kind)
    assert match is not None
    return np.dtype(_POSITIONS[match[2] or ""])


def form_of(kind: str) -> Form:
    """The form of a type such as ``compact8_string``."""
    match = _NAME.fullmatch(kind)
    assert match is not None
    return _FORMS[match[3]]


def fst_of_elements(reader: TokenReader, header: Header, starts: np.ndarray, elements: np.ndarray) -> Fst:
    """The FST of a form's elements; ``starts`` (int64) are where those of each state begin, and the end.

    FormatError for elements that are none.
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
    """Why an FST cannot be stored as a ``compact…`` type; None if it can."""
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
    """The bytes of a ``compact…`` FST after its header. FormatError for more elements than positions can count."""
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
    """Positions as a type stores them. FormatError if they are too large for it."""
    dtype = position_type(kind)
    if len(starts) and int(starts[-1]) > np.iinfo(dtype).max:
        raise FormatError(f"an FST cannot be written as {kind}: it has {int(starts[-1])} arcs and final weights, more "
                          f"than {8 * dtype.itemsize} bits can count")
    return starts.astype(dtype).tobytes()
