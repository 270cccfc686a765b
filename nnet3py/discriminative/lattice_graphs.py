"""A minibatch's lattices as tables of arrays for kernels, with one graph for each sequence where possible.

A merged supervision has one lattice: those of its sequences, one after the other, joined by epsilon arcs. Between two
sequences every path then goes through one state, which only epsilon arcs enter; there the lattice is cut, and the costs
of these arcs become final costs. Sums over all paths are products of those of the parts.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.egs.discriminative_example import DiscriminativeSupervision
from nnet3py.errors import ShapeError, within
from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.states import LatticeError, from_start, state_times, trimmed
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.state_graphs import starts_by


class LatticeGraphs(NamedTuple):
    """Graphs whose nodes lie in levels; an arc leads to a later one.

    Attributes
    ----------
    num_graphs, num_levels : nodes are sorted by graph, then level; each graph begins in a node of its own
    times : int32 (arcs,), the frame in sequence-major order; -1 for an epsilon arc
    ids : int32 (arcs,), transition-ids; 0 for an epsilon arc
    costs, finals : float32, graph costs of arcs and of nodes; infinity for a node that is not final
    tables : what ``chain_numerator`` and ``lattice_accuracies`` take from ``sources`` to ``level_starts``
    """

    num_graphs: int
    num_levels: int
    times: np.ndarray
    ids: np.ndarray
    costs: np.ndarray
    finals: np.ndarray
    tables: tuple[np.ndarray, ...]


def lattice_graphs(supervision: DiscriminativeSupervision, model: TransitionModel) -> LatticeGraphs:
    """The tables of a supervision's lattice; its acoustic costs are left out.

    Raises
    ------
    ShapeError : the alignment or the lattice does not have the supervision's number of frames
    LatticeError : the lattice has no path, a cycle, or does not end in its last frame
    Nnet3Error : a transition-id that the model does not have
    """
    num_frames = supervision.num_sequences * supervision.frames_per_sequence
    if len(supervision.num_ali) != num_frames:
        raise ShapeError(f"the alignment of a supervision has {len(supervision.num_ali)} frames, expected "
                         f"{supervision.num_sequences} sequences of {supervision.frames_per_sequence}")
    with within("the reference alignment"):
        check_transition_ids(model, supervision.num_ali)
    lattice = from_start(trimmed(supervision.den_lat))
    if lattice.start < 0 or not lattice.num_states:
        raise LatticeError("the lattice of a supervision has no path")
    with within("the lattice"):
        check_transition_ids(model, lattice.input_labels[lattice.input_labels != 0])
    if np.isnan(lattice.weights[:, 0]).any() or np.isnan(lattice.final_weights[lattice.is_final, 0]).any():
        raise LatticeError("the lattice of a supervision has a cost that is not a number")
    times = state_times(lattice)
    if (times[lattice.is_final] != num_frames).any():
        raise ShapeError(f"the lattice of a supervision has paths of {int(times[lattice.is_final].min())} frames, "
                         f"expected {num_frames}", "alignment and lattice must be of the same model and features")
    return _tables(lattice, times, supervision)


def _tables(lattice: Fst, times: np.ndarray, supervision: DiscriminativeSupervision) -> LatticeGraphs:
    cut = _cut_states(lattice, times, supervision)
    graph_of = np.searchsorted(cut, np.arange(lattice.num_states), side="right")
    sources, nexts, costs = lattice.sources, lattice.next_states, lattice.weights[:, 0].astype(np.float32)
    finals = np.where(lattice.is_final, lattice.final_weights[:, 0], NO_WEIGHT).astype(np.float32)
    between = graph_of[sources] != graph_of[nexts]
    finals[sources[between]] = costs[between]
    levels, length = _levels(lattice, times, cut, between, supervision)
    if length is None:      # epsilon arcs inside: a level for each state, and one more state for every end
        return _one_graph(lattice, times, finals)
    kept = np.flatnonzero(~between)
    order = np.lexsort((levels, graph_of))
    nodes = np.empty(len(order), np.int32)
    nodes[order] = np.arange(len(order))
    return LatticeGraphs(len(cut) + 1, length + 1, times[sources[kept]].astype(np.int32), lattice.input_labels[kept],
                         costs[kept], finals[order],
                         _arc_tables(nodes[sources[kept]], nodes[nexts[kept]], len(order),
                                     starts_by(graph_of * (length + 1) + levels, (len(cut) + 1) * (length + 1))))


def _cut_states(lattice: Fst, times: np.ndarray, supervision: DiscriminativeSupervision) -> np.ndarray:
    """The first state of each sequence but the first, if the lattice can be cut before all of them; else none.

    It is one that only epsilon arcs enter, from final states of the sequence before, and that no path bypasses.
    """
    none = np.zeros(0, np.int64)
    if supervision.num_sequences == 1:
        return none
    boundaries = np.arange(1, supervision.num_sequences) * supervision.frames_per_sequence
    sources, nexts, epsilon = lattice.sources, lattice.next_states, lattice.input_labels == 0
    leaves = np.zeros(lattice.num_states, bool)
    leaves[sources[~epsilon]] = True
    candidates = np.flatnonzero(leaves & np.isin(times, boundaries))
    if len(candidates) != len(boundaries) or not np.array_equal(times[candidates], boundaries):
        return none
    graph_of = np.searchsorted(candidates, np.arange(lattice.num_states), side="right")
    between = graph_of[sources] != graph_of[nexts]
    ends = np.bincount(sources[between], minlength=lattice.num_states)
    arcs = np.diff(lattice.arc_starts)
    fits = (np.array_equal(between, epsilon) and np.isin(nexts[between], candidates).all()
            and (ends[ends > 0] == 1).all() and (arcs[ends > 0] == 1).all()
            and (times[sources[between]] == times[nexts[between]]).all())
    return candidates if fits else none


def _levels(lattice: Fst, times: np.ndarray, cut: np.ndarray, between: np.ndarray,
            supervision: DiscriminativeSupervision) -> tuple[np.ndarray, int | None]:
    """The level of each state in its graph, and the last one; None if epsilon arcs are left in a graph."""
    if (lattice.input_labels[~between] == 0).any():
        return times, None
    if not len(cut):
        return times, supervision.num_sequences * supervision.frames_per_sequence
    first = np.concatenate(([0], cut))
    graph_of = np.searchsorted(cut, np.arange(lattice.num_states), side="right")
    return times - times[first][graph_of], supervision.frames_per_sequence


def _one_graph(lattice: Fst, times: np.ndarray, finals: np.ndarray) -> LatticeGraphs:
    """The lattice as it is, with a state after all ends; each state is a level, since they are in order."""
    ends, end = np.flatnonzero(lattice.is_final), lattice.num_states
    ids = np.concatenate((lattice.input_labels, np.zeros(len(ends), np.int32))).astype(np.int32)
    sources = np.concatenate((lattice.sources, ends)).astype(np.int32)
    nexts = np.concatenate((lattice.next_states, np.full(len(ends), end))).astype(np.int32)
    costs = np.concatenate((lattice.weights[:, 0], finals[ends])).astype(np.float32)
    only_end = np.full(end + 1, NO_WEIGHT, np.float32)
    only_end[end] = 0.0
    frames = np.where(ids == 0, -1, np.append(times, 0)[sources]).astype(np.int32)
    return LatticeGraphs(1, end + 1, frames, ids, costs, only_end,
                         _arc_tables(sources, nexts, end + 1, np.arange(end + 2, dtype=np.int64)))


def output_rows(times: np.ndarray, supervision: DiscriminativeSupervision) -> np.ndarray:
    """The rows of a network's output, frame-major, for frames in the order of the supervision, sequence-major."""
    sequences, frames = np.divmod(times, supervision.frames_per_sequence)
    rows: np.ndarray = frames * supervision.num_sequences + sequences
    return rows


def _arc_tables(sources: np.ndarray, nexts: np.ndarray, num_nodes: int,
                level_starts: np.ndarray) -> tuple[np.ndarray, ...]:
    return (sources, nexts, starts_by(nexts, num_nodes), _by_group(nexts, num_nodes), starts_by(sources, num_nodes),
            _by_group(sources, num_nodes), level_starts)


def _by_group(groups: np.ndarray, num_groups: int) -> np.ndarray:
    """int32, the order that sorts things stably by group, in a time linear in both numbers."""
    from scipy.sparse import csr_matrix

    numbers = np.arange(len(groups), dtype=np.int32)
    order: np.ndarray = csr_matrix((numbers, groups, np.array([0, len(groups)])), shape=(1, num_groups)).tocsc().data
    return order
