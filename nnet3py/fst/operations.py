"""Operations on FSTs: sorting, relabeling, loops, union, closure, replacement, local epsilons, pushing, random paths.

Results have no ``stored`` (symbols and properties of the file that an FST was read from), which may no longer be
true. OpenFst; Kaldi: ``fstbin``, ``RemoveEpsLocal``, ``PushSpecial``.
"""
from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Sequence

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.random_sequence import unsigned
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import connected, top_sorted

EPSILON = 0


def changed(fst: Fst, **values: object) -> Fst:
    """Return a copy of the FST with attributes such as ``input_labels`` replaced, and without ``stored``."""
    return dataclasses.replace(fst, stored=None, **values)  # type: ignore[arg-type]


def taken(fst: Fst, arcs: np.ndarray, arc_starts: np.ndarray | None = None) -> Fst:
    """Return the FST with the given arcs, in the given order; the arcs of a state must be next to each other.

    ``arc_starts`` is where the arcs of each state begin in the result; None: unchanged.
    """
    return changed(fst, arc_starts=fst.arc_starts if arc_starts is None else arc_starts,
                   input_labels=fst.input_labels[arcs], output_labels=fst.output_labels[arcs],
                   weights=fst.weights[arcs], next_states=fst.next_states[arcs])


def kept(fst: Fst, which: np.ndarray) -> Fst:
    """Return the FST with all states, and the arcs for which ``which`` (bool (arcs,)) is True."""
    return fst.selected(np.arange(fst.num_states), which)


def arc_sorted(fst: Fst, by_output: bool = False) -> Fst:
    """Return the FST with each state's arcs sorted by input, then output label; ``by_output``: by output, then input.

    OpenFst: ArcSort.
    """
    first, second = ((fst.output_labels, fst.input_labels) if by_output else (fst.input_labels, fst.output_labels))
    if is_sorted(fst, by_output):
        return changed(fst)
    return taken(fst, np.lexsort((second, first, fst.sources)))


def is_sorted(fst: Fst, by_output: bool = False) -> bool:
    """Return whether each state's arcs are sorted by input label, or by output label if ``by_output``."""
    labels = fst.output_labels if by_output else fst.input_labels
    descends = np.flatnonzero(labels[1:] < labels[:-1]) + 1
    return bool(np.isin(descends, fst.arc_starts).all()) if len(descends) else True


def inverted(fst: Fst) -> Fst:
    """Return the FST with input and output labels exchanged. OpenFst: Invert."""
    return changed(fst, input_labels=fst.output_labels, output_labels=fst.input_labels)


def projected(fst: Fst, on_output: bool) -> Fst:
    """Return the acceptor of the input labels, or of the output labels if ``on_output``. OpenFst: Project."""
    labels = fst.output_labels if on_output else fst.input_labels
    return changed(fst, input_labels=labels, output_labels=labels)


def relabeled(fst: Fst, input_pairs: dict[int, int] | None = None, output_pairs: dict[int, int] | None = None) -> Fst:
    """Return the FST with labels replaced (dicts from old to new labels); other labels stay. OpenFst: Relabel."""
    return changed(fst, input_labels=_mapped(fst.input_labels, input_pairs or {}),
                   output_labels=_mapped(fst.output_labels, output_pairs or {}))


def _mapped(labels: np.ndarray, pairs: dict[int, int]) -> np.ndarray:
    if not pairs or not len(labels):
        return labels
    old = np.array(sorted(pairs), dtype=np.int64)
    new = np.array([pairs[pair] for pair in old.tolist()], dtype=np.int64)
    at = np.minimum(np.searchsorted(old, labels), len(old) - 1)
    return np.where(old[at] == labels, new[at], labels).astype(np.int32)


def without_symbols(fst: Fst, symbols: Collection[int], on_output: bool = False) -> Fst:
    """Return the FST with epsilons in place of some input (output) labels. Kaldi: RemoveSomeInputSymbols."""
    side = "output_labels" if on_output else "input_labels"
    labels = getattr(fst, side)
    replaced = np.where(np.isin(labels, list(symbols)), EPSILON, labels).astype(np.int32)
    return changed(fst, **{side: replaced})


def without_arcs_of(fst: Fst, symbols: Collection[int], on_output: bool = False) -> Fst:
    """Return the FST without the arcs with some input (output) labels. Kaldi: RemoveArcsWithSomeInputSymbols."""
    labels = fst.output_labels if on_output else fst.input_labels
    return connected(kept(fst, ~np.isin(labels, list(symbols))))


def with_penalty(fst: Fst, symbols: Collection[int], penalty: float, on_output: bool = False) -> Fst:
    """Return the FST with ``penalty`` added to arcs with some labels. Kaldi: PenalizeArcsWithSomeInputSymbols."""
    labels = fst.output_labels if on_output else fst.input_labels
    chosen = np.isin(labels, list(symbols))
    return changed(fst, weights=np.where(chosen, fst.weights + np.float32(penalty), fst.weights).astype(np.float32))


def with_loops(fst: Fst, inputs: Sequence[int], outputs: Sequence[int]) -> Fst:
    """Add self-loops with the labels ``inputs[i]`` : ``outputs[i]`` for the symbols of an FST composed on the right.

    An example is ``#0`` of a grammar. Final states get them, and states that an arc with an output label leaves.
    FormatError for lists of different lengths. Kaldi: AddSelfLoops.
    """
    if len(inputs) != len(outputs):
        raise FormatError(f"expected as many output as input labels of loops, found {len(outputs)} and {len(inputs)}")
    passes = fst.is_final.copy()
    passes[fst.sources[fst.output_labels != EPSILON]] = True
    states = np.repeat(np.flatnonzero(passes), len(inputs))
    times = int(passes.sum())
    return Fst.from_arcs(fst.start, fst.final_weights, np.concatenate((fst.sources, states)),
                         np.concatenate((fst.input_labels, np.tile(np.array(inputs, dtype=np.int32), times))),
                         np.concatenate((fst.output_labels, np.tile(np.array(outputs, dtype=np.int32), times))),
                         np.concatenate((fst.weights, np.zeros(len(states), dtype=np.float32))),
                         np.concatenate((fst.next_states, states)), fst.arc_type)


# -- FSTs put together -------------------------------------------------------------------------------------------------


def union(first: Fst, second: Fst) -> Fst:
    """Return an FST that accepts what either FST accepts. OpenFst: Union.

    As in OpenFst, a new start state is added only if an arc leads to the first FST's start.
    """
    if second.start < 0 or first.start < 0:
        return changed(second if first.start < 0 else first)
    offset = first.num_states
    returns = int((first.next_states == first.start).any())
    new_start = offset + second.num_states if returns else first.start
    sources = [first.sources, second.sources + offset, np.full(1 + returns, new_start)]
    starts = [first.start] * returns + [second.start + offset]
    nothing = np.zeros(len(starts), dtype=np.int32)
    finals = np.concatenate((first.final_weights, second.final_weights, np.full(returns, NO_WEIGHT, dtype=np.float32)))
    return Fst.from_arcs(new_start, finals, np.concatenate(sources),
                         np.concatenate((first.input_labels, second.input_labels, nothing)),
                         np.concatenate((first.output_labels, second.output_labels, nothing)),
                         np.concatenate((first.weights, second.weights, nothing)),
                         np.concatenate((first.next_states, second.next_states + offset, np.array(starts))))


def closure(fst: Fst, plus: bool = False) -> Fst:
    """Return an FST that accepts any number of repetitions, at least one if ``plus``. OpenFst: Closure."""
    final = np.flatnonzero(fst.is_final)
    nothing = np.zeros(len(final) + (not plus), dtype=np.int32)
    sources, targets = final, np.full(len(final), fst.start)
    weights, finals, start = fst.final_weights[final], fst.final_weights, fst.start
    if not plus:
        start = fst.num_states
        finals = np.append(finals, np.float32(0.0))
        if fst.start < 0:
            nothing = nothing[:0]
        else:
            sources, targets = np.append(sources, start), np.append(targets, fst.start)
            weights = np.append(weights, np.float32(0.0))
    return Fst.from_arcs(start, finals, np.concatenate((fst.sources, sources)),
                         np.concatenate((fst.input_labels, nothing)), np.concatenate((fst.output_labels, nothing)),
                         np.concatenate((fst.weights, weights)), np.concatenate((fst.next_states, targets)))


def reversed_fst(fst: Fst) -> Fst:
    """Return the reversed FST.

    State 0 is new, with an epsilon arc to each former final state; the others follow in their order. A state's arcs
    are in the order of the states that they come from, then in their former order. OpenFst: Reverse.
    """
    final = np.flatnonzero(fst.is_final)
    nothing = np.zeros(len(final), dtype=np.int32)
    finals = np.full(fst.num_states + 1, NO_WEIGHT, dtype=np.float32)
    finals[fst.start + 1] = 0.0 if fst.start >= 0 else NO_WEIGHT
    return Fst.from_arcs(
        0, finals, np.concatenate((np.zeros(len(final), dtype=np.int64), fst.next_states + 1)),
        np.concatenate((nothing, fst.input_labels)), np.concatenate((nothing, fst.output_labels)),
        np.concatenate((fst.final_weights[final], fst.weights)), np.concatenate((final, fst.sources)) + 1)


def replaced(root: Fst, label: int, part: Fst) -> Fst:
    """Return ``root`` with each arc of output label ``label`` replaced by a copy of ``part``, between epsilon arcs.

    The first of these has the replaced arc's cost and input label. OpenFst: Replace.
    """
    arcs = np.flatnonzero(root.output_labels == label)
    copies = len(arcs)
    rest = kept(root, root.output_labels != label)
    if not copies or part.start < 0:
        return rest
    offsets = root.num_states + np.arange(copies) * part.num_states
    final = np.flatnonzero(part.is_final)
    shift = np.repeat(offsets, part.num_arcs)
    back = np.repeat(offsets, len(final))
    sources = (rest.sources, root.sources[arcs], np.tile(part.sources, copies) + shift, np.tile(final, copies) + back)
    nothing = np.zeros(copies, dtype=np.int32), np.zeros(copies * len(final), dtype=np.int32)
    finals = np.concatenate((root.final_weights, np.full(copies * part.num_states, NO_WEIGHT, dtype=np.float32)))
    return Fst.from_arcs(
        root.start, finals, np.concatenate(sources),
        np.concatenate((rest.input_labels, root.input_labels[arcs], np.tile(part.input_labels, copies), nothing[1])),
        np.concatenate((rest.output_labels, nothing[0], np.tile(part.output_labels, copies), nothing[1])),
        np.concatenate((rest.weights, root.weights[arcs], np.tile(part.weights, copies),
                        np.tile(part.final_weights[final], copies))),
        np.concatenate((rest.next_states, offsets + part.start, np.tile(part.next_states, copies) + shift,
                        np.repeat(root.next_states[arcs], len(final)))))


# -- states ------------------------------------------------------------------------------------------------------------


def in_top_order(fst: Fst) -> Fst:
    """Return the FST with states sorted topologically; unchanged if it has a cycle. OpenFst: TopSort."""
    order = top_sorted(fst)
    return changed(fst) if order is None else order


def sums_of_states(fst: Fst, in_log: bool = True) -> np.ndarray:
    """Return the cost of the sum of probabilities of each state's arcs and final cost, float64 (states,).

    Without ``in_log``: the least of these costs.
    """
    final = np.flatnonzero(fst.is_final)
    sources = np.concatenate((fst.sources, final))
    costs = np.concatenate((fst.weights, fst.final_weights[final])).astype(np.float64)
    least = np.full(fst.num_states, np.inf)
    np.minimum.at(least, sources, costs)
    if not in_log:
        return least
    floor = np.where(np.isfinite(least), least, 0.0)
    with np.errstate(divide="ignore"):
        return floor - np.log(np.bincount(sources, np.exp(floor[sources] - costs), fst.num_states))


_remove = Loop("nnet3py.fst.local_epsilons_loops", "remove",
               "i4[] i4[] f4[] i4[] f4[] i8[] i8[] i8[] i8[] i8[] b1 b1")
_collect = Loop("nnet3py.fst.local_epsilons_loops", "collect", "i8[] i8[] i4[] i8[] i8[]")
_NONE = -1


def without_local_epsilons(fst: Fst, use_log: bool = False, stochastic_in_log: bool = True) -> Fst:
    """Return the FST with successive arcs joined where that does not enlarge it. Kaldi: RemoveEpsLocal.

    Two successive arcs can become one if at most one of them has an input label, and at most one an output label. They
    do if the state between them has one arc in (then all exits that can be joined are) or one exit.

    Parameters
    ----------
    use_log : bool, sum final costs as probabilities where they are merged; otherwise the cheaper one is kept
    stochastic_in_log : bool, where only some exits of a state are joined, shift costs so that for each state the sum of
        the probabilities of its exits stays the same; otherwise, so that the least cost does
    """
    fst = connected(fst)
    states = np.arange(fst.num_states)
    begins, ends = fst.arc_starts[:-1], fst.arc_starts[1:]
    following = np.arange(1, fst.num_arcs + 1, dtype=np.int64)
    has_arcs = ends > begins
    following[ends[has_arcs] - 1] = _NONE
    first, last = np.where(has_arcs, begins, _NONE), np.where(has_arcs, ends - 1, _NONE)
    entering = np.bincount(fst.next_states, minlength=fst.num_states).astype(np.int64) + (states == fst.start)
    leaving = ends - begins + fst.is_final
    inputs, outputs, weights, targets, finals = (
        values.copy() for values in (fst.input_labels, fst.output_labels, fst.weights, fst.next_states,
                                     fst.final_weights))
    _remove(inputs, outputs, weights, targets, finals, first, last, following, entering, leaving, use_log,
            stochastic_in_log)
    arcs, arc_starts = np.empty(len(targets), dtype=np.int64), np.empty(fst.num_states + 1, dtype=np.int64)
    count = _collect(first, following, targets, arcs, arc_starts)
    joined = changed(fst, input_labels=inputs, output_labels=outputs, weights=weights, next_states=targets,
                     final_weights=finals)
    return connected(taken(joined, arcs[:count], arc_starts))


logger = logging.getLogger(__name__)

OPENFST_DELTA = 1.0 / 1024.0
_MAX_ITERATIONS = 200
_CHECK_EVERY = 5
_DAMPING = 0.1                             # share of the old vector kept, without which periodic graphs do not converge


def push_special(fst: Fst, delta: float = OPENFST_DELTA) -> Fst:
    """Push costs so that the probabilities of the exits of each state have the same sum. Kaldi: PushSpecial.

    Ending in a final state is treated as an arc back to the start. The sum need not be 1. FormatError if a state cannot
    be reached or reaches no final state. A warning is logged if sums differ by more than ``delta``.
    """
    final = np.flatnonzero(fst.is_final)
    sources = np.concatenate((fst.sources, final))
    targets = np.concatenate((fst.next_states, np.full(len(final), fst.start)))
    with np.errstate(over="ignore"):
        probs = np.exp(-np.concatenate((fst.weights, fst.final_weights[final]))).astype(np.float64)
    with np.errstate(all="ignore"):
        potentials = np.log(_leading_vector(sources, targets, probs, fst.num_states, delta))
    if not np.isfinite(potentials).all():
        raise FormatError("a graph cannot be pushed: a state cannot be reached, reaches no final state, or has no "
                          "probability", hint="fstconnect leaves such states out")
    finals = fst.final_weights.copy()
    finals[final] = finals[final] + (potentials[final] - potentials[fst.start])
    weights = fst.weights + (potentials[fst.sources] - potentials[fst.next_states])
    return changed(fst, final_weights=finals.astype(np.float32), weights=weights.astype(np.float32))


def _leading_vector(rows: np.ndarray, cols: np.ndarray, values: np.ndarray, size: int, delta: float) -> np.ndarray:
    """Return the eigenvector, of length 1, of the greatest eigenvalue of a sparse matrix, float64 (size,)."""
    vector = np.full(size, 1.0 / np.sqrt(size))
    for iteration in range(_MAX_ITERATIONS):
        vector = np.bincount(rows, values * vector[cols], size) + _DAMPING * vector
        vector /= np.sqrt(np.square(vector).sum())                      # not BLAS: its threads cost more here
        if iteration % _CHECK_EVERY == 0 and iteration > 0:
            sums = np.bincount(rows, values * vector[cols], size) / vector
            if np.log(sums.max() / sums.min()) <= delta:
                return vector
    logger.warning("push-special: finished %d iterations without converging.  Output will be inaccurate.",
                   _MAX_ITERATIONS)
    return vector


_TRIES = 1000            # number of draws of a path that is short enough
_END = -1


def random_paths(fst: Fst, count: int = 1, longest: int = 2**31 - 1, seed: int | None = None,
                 by_cost: bool = False) -> Fst:
    """Draw ``count`` random paths to a final state; return an FST in which they leave one start state, without costs.

    At each state every arc, and ending if it is final, is equally probable; with ``by_cost``, of probability
    exp(-cost). Nnet3Error if no path of at most ``longest`` arcs is found. OpenFst: RandGen.
    """
    fst = connected(fst)
    random = np.random.default_rng(None if seed is None else unsigned(seed))
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
