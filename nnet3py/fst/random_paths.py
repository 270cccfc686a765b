"""Random paths of an FST. OpenFst: ``RandGen``."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import connected

_TRIES = 1000            # of finding a path that is short enough
_END = -1


def random_paths(fst: Fst, count: int = 1, longest: int = 2**31 - 1, seed: int | None = None,
                 by_cost: bool = False) -> Fst:
    """An FST of ``count`` random paths from the start to a final state, side by side from one start, without costs.

    At each state every arc, and ending if it is final, is equally probable; with ``by_cost``, as their costs say.
    Raises Nnet3Error if no path of at most ``longest`` arcs is found.
    """
    fst = connected(fst)
    random = np.random.default_rng(seed)
    sources, targets, taken = [], [], []
    num_states, ends = 1, []
    for _ in range(count if fst.num_states else 0):
        arcs = _path(fst, longest, random, by_cost)
        states = [0, *range(num_states, num_states + len(arcs))]
        num_states += len(arcs)
        sources += states[:-1]
        targets += states[1:]
        taken += arcs
        ends.append(states[-1])
    if not ends:
        return connected(fst)
    finals = np.full(num_states, NO_WEIGHT, dtype=np.float32)
    finals[ends] = 0.0
    chosen = np.array(taken, dtype=np.int64)
    return Fst.from_arcs(0, finals, np.array(sources, dtype=np.int64), fst.input_labels[chosen],
                         fst.output_labels[chosen], np.zeros(len(chosen)), np.array(targets, dtype=np.int32))


def _path(fst: Fst, longest: int, random: np.random.Generator, by_cost: bool) -> list[int]:
    for _ in range(_TRIES):
        state, arcs = fst.start, list[int]()
        while len(arcs) <= longest:
            arc = _choice(fst, state, random, by_cost)
            if arc == _END:
                return arcs
            arcs.append(arc)
            state = int(fst.next_states[arc])
    raise Nnet3Error(f"no path of at most {longest} arcs was found in {_TRIES} tries", "give a larger --max_length")


def _choice(fst: Fst, state: int, random: np.random.Generator, by_cost: bool) -> int:
    arcs = np.arange(fst.arc_starts[state], fst.arc_starts[state + 1])
    costs = fst.weights[arcs].astype(np.float64)
    if fst.final_weights[state] != NO_WEIGHT:
        arcs, costs = np.append(arcs, _END), np.append(costs, fst.final_weights[state])
    if not by_cost:
        return int(arcs[random.integers(len(arcs))])
    probs = np.exp(costs.min() - costs)
    return int(random.choice(arcs, p=probs / probs.sum()))
