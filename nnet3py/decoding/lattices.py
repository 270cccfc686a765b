"""Lattices, FSTs whose weights are a graph cost and an acoustic cost: best paths, scaling, the table type."""
from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.io.fst import NO_WEIGHT, Fst
from nnet3py.io.fst_operations import connected
from nnet3py.io.fst_properties import top_sorted
from nnet3py.io.holders import Holder
from nnet3py.io.lattice import LATTICE, read_lattice, write_lattice
from nnet3py.io.tokens import TokenReader


def _read(reader: TokenReader) -> Fst:
    first = reader.peek(1)
    reader.binary = not (first and first in b" \t\r\n")
    return read_lattice(reader)


LATTICES: Holder[Fst] = Holder("lattice", _read, write_lattice, has_header=False)


class Path(NamedTuple):
    """A path through a lattice.

    ``arcs``: int64, numbers of the lattice's arcs; ``words`` and ``alignment``: int32, the output labels and input
    labels that are not epsilon.
    """

    arcs: np.ndarray
    words: np.ndarray
    alignment: np.ndarray
    graph_cost: float
    acoustic_cost: float


def sorted_lattice(lattice: Fst) -> Fst:
    """The lattice without states that lead nowhere, numbered such that every arc leads to a higher number.

    Nnet3Error for one with a cycle.
    """
    found = top_sorted(connected(lattice))
    if found is None:
        raise Nnet3Error("a lattice must not have cycles")
    return found


def best_path(lattice: Fst, acoustic_scale: float = 1.0, graph_scale: float = 1.0) -> Path | None:
    """The cheapest path of a sorted lattice, or None if there is none. Of equal ones, the one of the earlier arcs.

    Costs are compared after scaling, and returned as they stand in the lattice.
    """
    if lattice.start < 0:
        return None
    scales = np.array([graph_scale, acoustic_scale])
    arc_costs = (lattice.weights.astype(np.float64) @ scales).tolist()
    starts, targets = lattice.arc_starts.tolist(), lattice.next_states.tolist()
    costs, came_by = [np.inf] * lattice.num_states, [-1] * lattice.num_states
    costs[lattice.start] = 0.0
    for state in range(lattice.num_states):
        for arc in range(starts[state], starts[state + 1]) if costs[state] < np.inf else ():
            cost = costs[state] + arc_costs[arc]
            if cost < costs[targets[arc]]:
                costs[targets[arc]], came_by[targets[arc]] = cost, arc
    finals = np.where(lattice.is_final, lattice.final_weights.astype(np.float64).clip(max=1e30) @ scales, np.inf)
    totals = np.array(costs) + finals
    state = int(totals.argmin())
    if totals[state] == np.inf:
        return None
    sources = lattice.sources
    arcs: list[int] = []
    end = state
    while state != lattice.start:
        arcs.append(came_by[state])
        state = int(sources[came_by[state]])
    taken = np.array(arcs[::-1], dtype=np.int64)
    cost_pair = lattice.weights[taken].astype(np.float64).sum(axis=0) + lattice.final_weights[end]
    inputs, outputs = lattice.input_labels[taken], lattice.output_labels[taken]
    return Path(taken, outputs[outputs != 0], inputs[inputs != 0], float(cost_pair[0]), float(cost_pair[1]))


def linear_lattice(lattice: Fst, arcs: np.ndarray) -> Fst:
    """The lattice of one path, ``arcs``: one state after the other."""
    states = np.arange(len(arcs) + 1)
    final = np.full((len(states), 2), NO_WEIGHT, dtype=np.float32)
    final[-1] = lattice.final_weights[lattice.next_states[arcs[-1]] if len(arcs) else lattice.start]
    return Fst.from_arcs(0, final, states[:-1], lattice.input_labels[arcs], lattice.output_labels[arcs],
                         lattice.weights[arcs], states[1:], LATTICE)


def scaled(lattice: Fst, graph_scale: float = 1.0, acoustic_scale: float = 1.0) -> Fst:
    """The lattice with its costs multiplied. Kaldi: ScaleLattice."""
    scales = np.array([graph_scale, acoustic_scale], dtype=np.float32)
    finals = np.where(lattice.is_final[:, None], np.where(np.isinf(lattice.final_weights), 0, lattice.final_weights)
                      * scales, NO_WEIGHT).astype(np.float32)
    return dataclasses.replace(lattice, weights=lattice.weights * scales, final_weights=finals, stored=None)
