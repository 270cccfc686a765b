"""What an FST consists of, in the lines of OpenFst's ``fstinfo``."""
from __future__ import annotations

import numpy as np

from nnet3py.fst.arcs import EPSILON, reachable
from nnet3py.transducers import fst_operations as bits
from nnet3py.transducers.fst import Fst

_WIDTH = 50
_PROPERTIES = (
    ("acceptor", bits.ACCEPTOR), ("input deterministic", bits.INPUT_DETERMINISTIC),
    ("output deterministic", bits.OUTPUT_DETERMINISTIC), ("input/output epsilons", bits.EPSILONS),
    ("input epsilons", bits.INPUT_EPSILONS), ("output epsilons", bits.OUTPUT_EPSILONS),
    ("input label sorted", bits.INPUT_SORTED), ("output label sorted", bits.OUTPUT_SORTED), ("weighted", bits.WEIGHTED),
    ("cyclic", bits.CYCLIC), ("cyclic at initial state", bits.INITIAL_CYCLIC), ("top sorted", bits.TOP_SORTED),
    ("accessible", bits.ACCESSIBLE), ("coaccessible", bits.COACCESSIBLE), ("string", bits.STRING),
    ("weighted cycles", bits.WEIGHTED_CYCLES))


def info_text(fst: Fst) -> str:
    """All lines: sizes first, then properties, each ``y`` or ``n``."""
    properties = bits.fst_properties(fst)
    kind = fst.stored.kind if fst.stored else "vector"
    rows: list[tuple[str, object]] = [("fst type", kind), ("arc type", fst.arc_type)]
    flags = fst.stored.flags if fst.stored else 0
    rows += [("input symbol table", _table(flags & 1)), ("output symbol table", _table(flags & 2))]
    rows += _sizes(fst)
    sorted_sides = (properties >> bits.INPUT_SORTED & 1, properties >> bits.OUTPUT_SORTED & 1)
    rows += [("input matcher", _yes(sorted_sides[0])), ("output matcher", _yes(sorted_sides[1])),
             ("input lookahead", "n"), ("output lookahead", "n"), ("expanded", "y"),
             ("mutable", _yes(kind == "vector")), ("error", "n")]
    rows += [(name, _yes(properties >> bit & 1)) for name, bit in _PROPERTIES]
    return "".join(f"{name:<{_WIDTH}}{value}\n" for name, value in rows)


def _table(present: int) -> str:
    return "present" if present else "none"


def _yes(value: object) -> str:
    return "y" if value else "n"


def _sizes(fst: Fst) -> list[tuple[str, object]]:
    inputs, outputs = fst.input_labels == EPSILON, fst.output_labels == EPSILON
    accessible, coaccessible = reachable(fst)
    return [
        ("# of states", fst.num_states), ("# of arcs", fst.num_arcs), ("initial state", fst.start),
        ("# of final states", int(fst.is_final.sum())), ("# of input/output epsilons", int((inputs & outputs).sum())),
        ("# of input epsilons", int(inputs.sum())), ("# of output epsilons", int(outputs.sum())),
        ("input label multiplicity", f"{_multiplicity(fst, fst.input_labels):g}"),
        ("output label multiplicity", f"{_multiplicity(fst, fst.output_labels):g}"),
        ("# of accessible states", int(accessible.sum())), ("# of coaccessible states", int(coaccessible.sum())),
        ("# of connected states", int((accessible & coaccessible).sum())),
        ("# of connected components", _components(fst, "weak")),
        ("# of strongly conn components", _components(fst, "strong"))]


def _multiplicity(fst: Fst, labels: np.ndarray) -> float:
    """How many arcs with the same label its state has, averaged over arcs."""
    if not fst.num_arcs:
        return 0.0
    _, counts = np.unique((fst.sources.astype(np.int64) << 32) + labels, return_counts=True)
    return float(np.square(counts.astype(np.float64)).sum() / fst.num_arcs)


def _components(fst: Fst, connection: str) -> int:
    if not fst.num_states:
        return 0
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(bits.arc_matrix(fst), directed=True, connection=connection, return_labels=False))
