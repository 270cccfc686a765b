"""Simple operations on all arcs of an FST: sorting, exchanging and replacing labels, loops. OpenFst; Kaldi: ``fstbin``.

Results do not keep what a file said about its FST (``stored``), which may no longer hold.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import reached, top_sorted

EPSILON = 0


def changed(fst: Fst, **values: object) -> Fst:
    """The FST with some values replaced, such as ``input_labels``."""
    return dataclasses.replace(fst, stored=None, **values)  # type: ignore[arg-type]


def taken(fst: Fst, arcs: np.ndarray, arc_starts: np.ndarray | None = None) -> Fst:
    """The FST with some of its arcs, or in another order: those of each state must stay together."""
    return changed(fst, arc_starts=fst.arc_starts if arc_starts is None else arc_starts,
                   input_labels=fst.input_labels[arcs], output_labels=fst.output_labels[arcs],
                   weights=fst.weights[arcs], next_states=fst.next_states[arcs])


def kept(fst: Fst, which: np.ndarray) -> Fst:
    """The FST with the arcs for which ``which`` (bool) is true; all states are kept."""
    counts = np.concatenate(([0], np.cumsum(which)))
    return taken(fst, np.flatnonzero(which), counts[fst.arc_starts])


def arc_sorted(fst: Fst, by_output: bool = False) -> Fst:
    """Each state's arcs sorted by input label and then output label, or the other way round. OpenFst: ArcSort."""
    first, second = ((fst.output_labels, fst.input_labels) if by_output else (fst.input_labels, fst.output_labels))
    if is_sorted(fst, by_output):
        return changed(fst)
    return taken(fst, np.lexsort((second, first, fst.sources)))


def is_sorted(fst: Fst, by_output: bool = False) -> bool:
    """Whether each state's arcs are sorted by input (output) label."""
    labels = fst.output_labels if by_output else fst.input_labels
    descends = np.flatnonzero(labels[1:] < labels[:-1]) + 1
    return bool(np.isin(descends, fst.arc_starts).all()) if len(descends) else True


def inverted(fst: Fst) -> Fst:
    """Input and output exchanged. OpenFst: Invert."""
    return changed(fst, input_labels=fst.output_labels, output_labels=fst.input_labels)


def projected(fst: Fst, on_output: bool) -> Fst:
    """The acceptor of the input or output side. OpenFst: Project."""
    labels = fst.output_labels if on_output else fst.input_labels
    return changed(fst, input_labels=labels, output_labels=labels)


def relabeled(fst: Fst, input_pairs: dict[int, int] | None = None, output_pairs: dict[int, int] | None = None) -> Fst:
    """The FST with labels replaced: new ones by old ones; other labels are kept. OpenFst: Relabel."""
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
    """The FST with epsilons in place of some input (output) labels. Kaldi: RemoveSomeInputSymbols."""
    side = "output_labels" if on_output else "input_labels"
    labels = getattr(fst, side)
    replaced = np.where(np.isin(labels, list(symbols)), EPSILON, labels).astype(np.int32)
    return changed(fst, **{side: replaced})


def without_arcs_of(fst: Fst, symbols: Collection[int], on_output: bool = False) -> Fst:
    """The FST without the arcs with some input (output) labels. Kaldi: RemoveArcsWithSomeInputSymbols."""
    from nnet3py.transducers.fst_operations import connected

    labels = fst.output_labels if on_output else fst.input_labels
    return connected(kept(fst, ~np.isin(labels, list(symbols))))


def with_penalty(fst: Fst, symbols: Collection[int], penalty: float, on_output: bool = False) -> Fst:
    """The FST with ``penalty`` added to arcs with some labels. Kaldi: PenalizeArcsWithSomeInputSymbols."""
    labels = fst.output_labels if on_output else fst.input_labels
    chosen = np.isin(labels, list(symbols))
    return changed(fst, weights=np.where(chosen, fst.weights + np.float32(penalty), fst.weights).astype(np.float32))


def with_loops(fst: Fst, inputs: Sequence[int], outputs: Sequence[int]) -> Fst:
    """Add loops with the i-th input and output label at final states and at states with an output label on an exit.

    They let symbols of an FST composed on the right, such as ``#0`` of a grammar, pass. FormatError for lists of
    different lengths. Kaldi: AddSelfLoops of ``fstaddselfloops``.
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
    """What either accepts: a new start with epsilons to both, unless nothing returns to the start. OpenFst: Union."""
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
    """Accepts what the FST accepts, one or more times in a row; without ``plus`` zero or more. OpenFst: Closure."""
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
    """The reversed FST.

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
    """Each arc with output label ``label`` replaced by a copy of ``part``, with epsilons to it and from it.

    The first epsilon has the arc's cost and its input label. OpenFst: Replace.
    """
    arcs = np.flatnonzero(root.output_labels == label)
    copies = len(arcs)
    if not copies or part.start < 0:
        return kept(root, root.output_labels != label)
    rest = kept(root, root.output_labels != label)
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
    """The FST with states numbered so that arcs lead to higher ones; unchanged if it has a cycle. OpenFst: TopSort."""
    order = top_sorted(fst)
    return changed(fst) if order is None else order


def sums_of_states(fst: Fst, in_log: bool = True) -> np.ndarray:
    """float64 (states,): the costs of leaving and of ending at each state, summed as probabilities, or the least."""
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


def reachable(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays, bool (states,): which states the start leads to; which lead to a final state."""
    start = np.array([fst.start] if fst.start >= 0 else [], dtype=np.int64)
    return reached(fst, start, backward=False), reached(fst, np.flatnonzero(fst.is_final), backward=True)
