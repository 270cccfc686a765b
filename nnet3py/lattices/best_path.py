"""Paths of lattices: best, n best and random paths, linear lattices with words and times, confidence."""
from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.determinize import determinize_pruned
from nnet3py.lattices.determinize_options import DeterminizeOptions
from nnet3py.lattices.states import arc_costs, final_costs, infinite_weights, top_sorted, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice, taken
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.lattice import LATTICE, factored
from nnet3py.transducers.state_graphs import enlarged, starts_of

_forward_costs = Loop("nnet3py.lattices.path_loops", "forward_costs", "i8 i8[] i4[] f8[] f8[] i8[]")
_backward_costs = Loop("nnet3py.lattices.path_loops", "backward_costs", "i8[] i4[] f8[] f8[] f8[]")
_next_paths = Loop("nnet3py.lattices.path_loops", "next_paths",
                   "i8[] i4[] f8[] f8[] f8[] i8 f8[] f8[] i4[] i8[] i4[] i4[] i8[] i4[]")
_FIRST_ROOM = 1 << 12            # nodes of the search for n paths


class Path(NamedTuple):
    """The words, transition-ids and costs of a lattice of one path.

    Attributes
    ----------
    words : int32 (words,), labels other than 0
    ids : int32 (frames,), transition-ids
    graph_cost, acoustic_cost : float32, sums along the path
    """

    words: np.ndarray
    ids: np.ndarray
    graph_cost: np.float32
    acoustic_cost: np.float32

    @property
    def cost(self) -> np.float32:
        """Graph cost plus acoustic cost, in nats."""
        return self.graph_cost + self.acoustic_cost


def best_costs(lattice: CompactLattice) -> tuple[np.ndarray, np.ndarray]:
    """Return the least cost from the start to each state of a sorted lattice, and the last arc of that path.

    Both have an element for each state, float64 and int64.
    """
    best, entered_by = np.empty(lattice.num_states), np.empty(lattice.num_states, dtype=np.int64)
    _forward_costs(lattice.start, lattice.arc_starts, lattice.next_states, arc_costs(lattice), best, entered_by)
    return best, entered_by


def best_path(lattice: CompactLattice) -> CompactLattice | None:
    """Return the cheapest path of a lattice. Kaldi: CompactLatticeShortestPath.

    Raises LatticeError for a lattice with a cycle.

    Parameters
    ----------
    lattice : CompactLattice, states in any order, costs scaled already (:func:`~nnet3py.lattices.scaling.scaled`)

    Returns
    -------
    CompactLattice, linear, whose contents :func:`path_of` returns; None if there is no path. Of equally cheap paths,
    the one through earlier states.
    """
    if lattice.start < 0:
        return None
    lattice = top_sorted(lattice)
    best, entered_by = best_costs(lattice)
    with np.errstate(invalid="ignore"):
        totals = best + final_costs(lattice)
    totals[np.isnan(totals)] = np.inf
    state = end = int(totals.argmin())
    if totals[end] == np.inf:
        return None
    sources, arcs = lattice.sources, []
    while state != lattice.start:
        arcs.append(int(entered_by[state]))
        state = int(sources[arcs[-1]])
    return linear(lattice, np.array(arcs[::-1], dtype=np.int64), end)


def linear(lattice: CompactLattice, arcs: np.ndarray, end: int) -> CompactLattice:
    """Return the lattice of one path along ``arcs`` (int64) to the final state ``end``."""
    size = len(arcs) + 1
    string_starts, ids = taken(lattice.string_starts, lattice.ids, arcs)
    finals = infinite_weights(size)
    finals[-1] = lattice.final_weights[end]
    final_starts = np.zeros(size + 1, dtype=np.int64)
    final_starts[-1] = lattice.final_lengths[end]
    states = np.arange(size, dtype=np.int32)
    return CompactLattice(0, starts_of(states < len(arcs)), lattice.labels[arcs], states[1:],
                          lattice.weights[arcs], string_starts, ids, finals, final_starts, lattice.final_string(end))


def path_of(lattice: CompactLattice) -> Path | None:
    """Return the words, transition-ids and costs of a linear lattice. OpenFst: GetLinearSymbolSequence.

    Parameters
    ----------
    lattice : CompactLattice

    Returns
    -------
    Path; None if the lattice is empty or not linear.
    """
    size = lattice.num_states
    # Linear lattices need not have their states in order.
    state, states, arcs = lattice.start, list[int](), list[int]()
    if state < 0:
        return None
    while len(states) < size:
        states.append(state)
        first, end = int(lattice.arc_starts[state]), int(lattice.arc_starts[state + 1])
        if lattice.is_final[state] == (end > first) or end > first + 1:
            return None
        if end == first:
            break
        arcs.append(first)
        state = int(lattice.next_states[first])
    else:
        return None
    order = np.array(arcs, dtype=np.int64)
    _, ids = taken(lattice.string_starts, lattice.ids, order)
    ids = np.concatenate((ids, lattice.final_string(states[-1])))
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.cumsum(np.concatenate((lattice.weights[order], lattice.final_weights[states[-1:]])), axis=0,
                         dtype=np.float32)[-1]
    labels = lattice.labels[order]
    return Path(labels[labels != 0], ids[ids != 0], sums[0], sums[1])


def best_paths(lattice: CompactLattice, count: int) -> list[CompactLattice]:
    """Return the n cheapest paths of a lattice. LatticeError if it has a cycle. OpenFst: ShortestPath.

    Parameters
    ----------
    lattice : CompactLattice, states in any order
    count : int, number of paths wanted

    Returns
    -------
    List of linear CompactLattice, the cheapest first; shorter if there are fewer paths. Paths may have the same words
    unless the lattice was determinized.
    """
    if lattice.start < 0 or count < 1:
        return []
    lattice = top_sorted(lattice)
    costs, finals = arc_costs(lattice), final_costs(lattice)
    for values in (costs, finals):
        values[np.isnan(values)] = np.inf
    rest = np.empty(lattice.num_states)
    _backward_costs(lattice.arc_starts, lattice.next_states, costs, finals, rest)
    if not rest[lattice.start] < np.inf:
        return []
    most_arcs = int(np.diff(lattice.arc_starts).max())
    room = _FIRST_ROOM + most_arcs
    nodes = [np.empty(room, dtype=kind) for kind in (np.float64, np.float64, np.int32, np.int64, np.int32, np.int32)]
    priorities, so_far, parents, arcs, states, heap = nodes
    priorities[0], so_far[0], parents[0], arcs[0], states[0], heap[0] = rest[lattice.start], 0, -1, -1, lattice.start, 0
    counts, ends = np.array([1, 1, 0], dtype=np.int64), np.empty(count, dtype=np.int32)
    while _next_paths(lattice.arc_starts, lattice.next_states, costs, finals, rest, most_arcs, *nodes, counts, ends):
        nodes = [enlarged(values) for values in nodes]
    _, _, parents, arcs, states, _ = nodes
    return [linear(lattice, *_path_to(parents, arcs, states, int(end))) for end in ends[:counts[2]].tolist()]


def _path_to(parents: np.ndarray, arcs: np.ndarray, states: np.ndarray, end: int) -> tuple[np.ndarray, int]:
    """Return the arcs of the path that ends in node ``end`` of the n-best search, int64, and its final state.

    ``parents``, ``arcs`` and ``states`` are the arrays of nodes of :func:`~nnet3py.lattices.path_loops.next_paths`.
    """
    way, node = [], int(parents[end])
    while node > 0:
        way.append(int(arcs[node]))
        node = int(parents[node])
    return np.array(way[::-1], dtype=np.int64), int(states[end])


def random_paths(lattice: CompactLattice, count: int, random: np.random.Generator) -> list[CompactLattice]:
    """Draw random paths of a lattice: at each state all arcs, and ending there, are equally likely.

    Parameters
    ----------
    lattice : CompactLattice, trimmed
    count : int, number of paths
    random : numpy Generator

    Returns
    -------
    List of linear CompactLattice; empty for a lattice without states.
    """
    if lattice.start < 0:
        return []
    is_final, starts = lattice.is_final, lattice.arc_starts.tolist()
    paths = []
    for _ in range(count):
        state, arcs = lattice.start, list[int]()
        while True:
            choices = starts[state + 1] - starts[state] + bool(is_final[state])
            if not choices:
                break                                     # a dead end, which a trimmed lattice does not have
            arc = starts[state] + int(random.integers(choices))
            if arc == starts[state + 1]:
                paths.append(linear(lattice, np.array(arcs, dtype=np.int64), state))
                break
            arcs.append(arc)
            state = int(lattice.next_states[arc])
    return paths


logger = logging.getLogger(__name__)


def linear_lattice(ids: np.ndarray, words: np.ndarray, graph_cost: float, acoustic_cost: float) -> CompactLattice:
    """Return a lattice of one path. Kaldi: MakeLatticeFromLinear.

    Parameters
    ----------
    ids : int (frames,), transition-ids
    words : int (words,), word-ids
    graph_cost, acoustic_cost : float, costs of the path, put on its final weight

    Returns
    -------
    CompactLattice; the i-th word is on the arc that begins with the i-th transition-id.
    """
    size = max(len(ids), len(words))
    inputs, outputs = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    inputs[:len(ids)], outputs[:len(words)] = ids, words
    finals = infinite_weights(size + 1)
    finals[-1] = graph_cost, acoustic_cost
    return factored(Fst(0, finals, starts_of(np.arange(size + 1) < size), inputs, outputs,
                        np.zeros((size, 2), dtype=np.float32), np.arange(1, size + 1, dtype=np.int32), LATTICE))


def word_times(lattice: CompactLattice) -> list[tuple[int, int, int]] | None:
    """Return the times of the arcs of a linear lattice. Kaldi: CompactLatticeToWordAlignment.

    Parameters
    ----------
    lattice : CompactLattice of one path, aligned with words before
        (:func:`~nnet3py.lattices.word_alignment.align_words`)

    Returns
    -------
    List of (label, first frame, number of frames) for each arc that has a label or frames; None for a lattice that is
    not linear.
    """
    if path_of(lattice) is None:
        return None
    times, state, frame = [], lattice.start, 0
    while lattice.arc_starts[state] < lattice.arc_starts[state + 1]:
        arc = int(lattice.arc_starts[state])
        label, length = int(lattice.labels[arc]), len(lattice.string(arc))
        if label or length:
            times.append((label, frame, length))
        frame += length
        state = int(lattice.next_states[arc])
    if len(lattice.final_string(state)):
        logger.warning("Lattice has alignments on the final weight: the last words may be shorter than they are; use "
                       "lattice-align-words or lattice-align-words-lexicon before")
    return times


def phones_of_words(lattice: CompactLattice, model: TransitionModel) -> list[list[int]] | None:
    """Return the phones of each arc that :func:`word_times` returns. Kaldi: CompactLatticeToWordProns.

    Raises ShapeError for a transition-id that the model does not have.

    Parameters
    ----------
    lattice : CompactLattice of one path
    model : TransitionModel, which maps transition-ids to phones

    Returns
    -------
    For each of these arcs, a list of the phones that end in it; None for a lattice that is not linear.
    """
    times, path = word_times(lattice), path_of(lattice)
    if times is None or path is None:
        return None
    check_transition_ids(model, path.ids)
    phones = model.transition_id_to_phone
    parts = [path.ids[begin:begin + length] for _, begin, length in times]
    return [phones[ids[model.is_final[ids]]].tolist() for ids in parts]


LARGEST = 1.0e10           # the confidence if there is only one word sequence


def confidence(lattice: CompactLattice) -> float | None:
    """Compute the confidence of the best word sequence. Kaldi: SentenceLevelConfidence.

    Parameters
    ----------
    lattice : CompactLattice, determinized, so that its paths have different words

    Returns
    -------
    Cost of the second best path minus that of the best path; 1e10 if there is only one path; None if there is none.
    """
    costs = [path.cost for path in map(path_of, best_paths(lattice, 2)) if path is not None]
    if not costs:
        return None
    return LARGEST if len(costs) == 1 else float(min(max(costs[1] - costs[0], np.float32(0.0)), np.float32(LARGEST)))


def determinized_for_confidence(lattice: Fst) -> CompactLattice:
    """Determinize a lattice on its words, only until it has as many arcs as its two best word sequences can need."""
    lattice = top_sorted(trimmed(lattice))
    longest = np.zeros(lattice.num_states, dtype=np.int64)         # words on the way to each state
    sources, has_word = lattice.sources, lattice.output_labels != 0
    for arc in range(lattice.num_arcs):
        target = lattice.next_states[arc]
        longest[target] = max(longest[target], longest[sources[arc]] + has_word[arc])
    options = DeterminizeOptions(max_arcs=3 * int(longest.max(initial=0)) + 4, retry_cutoff=0.0)
    return trimmed(determinize_pruned(lattice, np.inf, options).lattice)
