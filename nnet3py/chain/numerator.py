"""The numerator of the LF-MMI objective: sums over the paths that a supervision allows.

A supervision's FST either has times: it allows certain pdfs in each frame (Kaldi: ``NumeratorComputation``); or, if it
is end-to-end or unconstrained, has no times (``GenericNumeratorComputation``). Kernels get the graphs of a minibatch as
arrays. A supervision with times has one FST for all sequences, one after the other. If the states between two sequences
differ only by a weight, as they do after merging, the sequences become separate graphs, which are computed in parallel;
otherwise the FST is one long graph.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3py.chain.denominator import scratch_doubles, scratch_floats
from nnet3py.egs.chain_example import Supervision
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.log import kaldi_place
from nnet3py.ops import get_ops
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.state_graphs import starts_by

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)


SAME_WEIGHT = 1.0e-4      # how much arcs' weights may differ to count as the same arcs plus a weight of the state

_NOT_NORMALIZED = ("was it made without the normalization FST? nnet3-chain-normalize-egs leaves out examples that "
                   "cannot be normalized")


def check_fst(fst: Fst, label_dim: int) -> None:
    """Raise Nnet3Error unless an FST can be a supervision with ``label_dim`` pdfs."""
    if fst.num_states == 0 or fst.start != 0:
        raise Nnet3Error(f"the FST of a supervision has {fst.num_states} states and starts in {fst.start}, expected "
                         "the start state 0")
    if not fst.num_arcs:
        raise Nnet3Error("the FST of a supervision has no arcs")
    if not fst.is_acceptor:
        raise Nnet3Error("the FST of a supervision is a transducer, expected an acceptor of pdfs plus 1")
    lowest, highest = int(fst.input_labels.min()), int(fst.input_labels.max())
    if lowest == 0:
        raise Nnet3Error("the FST of a supervision holds epsilons, so it is not normalized", _NOT_NORMALIZED)
    if lowest < 0 or highest > label_dim:
        raise Nnet3Error(f"the FST of a supervision of {label_dim} pdfs has the label "
                         f"{lowest if lowest < 0 else highest}, expected 1 to {label_dim}")


def state_times(fst: Fst) -> np.ndarray:
    """Return the number of arcs from the start to each state, int64 (states,). Kaldi: ``ComputeFstStateTimes``.

    Raises Nnet3Error if the FST is not sorted, not connected, or reaches a state or its end at several times.
    """
    sources, nexts = fst.sources, fst.next_states
    if (nexts <= sources).any():
        raise Nnet3Error("the FST of a supervision is not sorted: an arc leads back, or to the state it leaves")
    # The path of each state back to the start along the last arc that enters it: twice as far in each round.
    before = np.arange(fst.num_states)
    before[nexts] = sources
    result = (before != np.arange(fst.num_states)).astype(np.int64)
    while before.any():
        further = before[before]
        if np.array_equal(further, before):
            raise Nnet3Error("the FST of a supervision has states that cannot be reached")
        result += result[before]
        before = further
    if (result[nexts] != result[sources] + 1).any():
        raise Nnet3Error("the FST of a supervision has paths of different lengths to the same state")
    if len(np.unique(result[fst.is_final])) != 1 or result[fst.is_final][0] != result.max():
        raise Nnet3Error("the FST of a supervision has no final state, or final states that are not in the last frame")
    return result


class TimedGraphs(NamedTuple):
    """Graphs whose nodes are in levels, as arrays; arcs lead to the next level, and are sorted by row of the output."""

    # num_graphs, num_levels: nodes are sorted by graph, then level; each graph begins in a node of its own
    num_graphs: int
    num_levels: int
    # int64 (rows + 1,); the arcs of row r of the output are ``row_starts[r]`` to ``row_starts[r + 1]``
    row_starts: np.ndarray
    # rows, columns: int32 (arcs,), row and column of each arc's score in the output
    rows: np.ndarray
    columns: np.ndarray
    # costs, finals: float32, costs of arcs and final costs of nodes; infinity for a node that is not final
    costs: np.ndarray
    finals: np.ndarray
    tables: tuple[np.ndarray, ...]  # the arguments of ``chain_numerator`` from ``sources`` to ``level_starts``


def timed_graphs(fst: Fst, num_sequences: int, num_frames: int) -> TimedGraphs:
    """Make the arrays for a supervision with times.

    Raises Nnet3Error for an FST that is not valid for a supervision; ShapeError if its paths are not as long as all
    sequences together.
    """
    times, num_rows = state_times(fst), num_sequences * num_frames
    if times.max() != num_rows:
        raise ShapeError(f"the paths of a supervision's FST have {times.max()} arcs, expected one for each frame: "
                         f"{num_sequences} times {num_frames}")
    between = _between_sequences(fst, times, num_frames)
    length = num_frames if between is not None else num_rows
    finals, left_out = between if between is not None else (fst.final_weights, np.zeros(fst.num_states, bool))
    # Nodes: a start for each graph, then the states but the first. A state between sequences is an end of the graph
    # before; as a source it is the start of the next graph.
    num_graphs, starts = num_rows // length, np.arange(num_rows // length)
    levels = np.concatenate((starts * (length + 1), times[1:] + (times[1:] - 1) // length))
    order = np.argsort(levels, kind="stable")
    nodes = np.empty(len(order), np.int32)
    nodes[order] = np.arange(len(order))
    as_source = np.concatenate(([0], np.arange(1, fst.num_states) + num_graphs - 1))
    as_target = as_source.copy()
    begins = (times % length == 0) & (times < num_rows)
    as_source[begins] = times[begins] // length
    sequences, frames = np.divmod(times[fst.sources], num_frames)
    rows = frames * num_sequences + sequences
    arcs = np.argsort(rows, kind="stable")
    arcs = arcs[~left_out[fst.sources[arcs]]]
    rows = rows[arcs].astype(np.int32)
    sources, nexts = nodes[as_source[fst.sources[arcs]]], nodes[as_target[fst.next_states[arcs]]]
    node_finals = np.concatenate((np.full(num_graphs, NO_WEIGHT), finals[1:])).astype(np.float32)[order]
    into, out_of = (np.argsort(ends, kind="stable").astype(np.int32) for ends in (nexts, sources))
    tables = (sources, nexts, starts_by(nexts, len(nodes)), into, starts_by(sources, len(nodes)), out_of,
              starts_by(levels, num_graphs * (length + 1)))
    return TimedGraphs(num_graphs, length + 1, starts_by(rows, num_rows), rows,
                       fst.input_labels[arcs] - np.int32(1), fst.weights[arcs], node_finals, tables)


def _between_sequences(fst: Fst, times: np.ndarray, num_frames: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return final costs, and the states to leave out, with which the sequences can be separated; else None.

    Sequences can be separated if all states between two of them (at the same time) have the same arcs, up to a cost for
    each state, which becomes its final cost. All but the first of these states are left out.
    """
    finals, left_out = fst.final_weights.copy(), np.zeros(fst.num_states, bool)
    states = np.flatnonzero((times % num_frames == 0) & (times > 0) & (times < times.max()))
    if not len(states):
        return finals, left_out
    states = states[np.argsort(times[states], kind="stable")]
    counts = (fst.arc_starts[1:] - fst.arc_starts[:-1])[states]
    is_first = np.concatenate(([True], np.diff(times[states]) > 0))
    models = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]        # the first state of the same time
    if (counts != counts[models]).any() or not counts.all() or fst.is_final[states].any():
        return None
    finals[states] = 0.0
    left_out[states[~is_first]] = True
    if is_first.all():
        return finals, left_out
    first_arcs = np.concatenate(([0], np.cumsum(counts)))
    owners = np.repeat(np.arange(len(states)), counts)
    place = np.arange(first_arcs[-1]) - first_arcs[owners]
    arcs = fst.arc_starts[states][owners] + place
    arcs = arcs[np.lexsort((fst.weights[arcs], fst.input_labels[arcs], fst.next_states[arcs], owners))]
    same = arcs[first_arcs[models[owners]] + place]
    more = fst.weights[arcs].astype(np.float64) - fst.weights[same]
    costs = np.bincount(owners, more) / counts
    if ((fst.next_states[arcs] != fst.next_states[same]).any()
            or (fst.input_labels[arcs] != fst.input_labels[same]).any()
            or not (np.abs(more - costs[owners]) <= SAME_WEIGHT).all()):
        return None
    finals[states] = costs
    return finals, left_out


class CyclicGraphs(NamedTuple):
    """Graphs of sequences without times, as arrays; every path with as many arcs as the sequence has frames counts."""

    columns: np.ndarray  # int32, the pdfs that each sequence uses, one sequence after the other; only these are scored
    first_columns: np.ndarray  # int64 (sequences + 1,), where the columns of each sequence begin, and the end
    num_states: int  # the number of states of all graphs
    # the arguments ``finals``, ``in_weights``, ``out_weights`` of ``chain_cyclic_numerator``
    weights: tuple[np.ndarray, ...]
    # the arguments of ``chain_cyclic_numerator`` from ``in_starts`` to ``first_columns``
    tables: tuple[np.ndarray, ...]


def cyclic_graphs(fsts: list[Fst], label_dim: int) -> CyclicGraphs:
    """Make the arrays for a supervision without times.

    Raises Nnet3Error for an FST that is not valid for a supervision.
    """
    for fst in fsts:
        check_fst(fst, label_dim)
    first_states, first_arcs = (np.concatenate(([0], np.cumsum(counts))) for counts in (
        [fst.num_states for fst in fsts], [fst.num_arcs for fst in fsts]))
    owners = np.repeat(np.arange(len(fsts)), np.diff(first_arcs))
    sources, nexts = (np.concatenate(parts) + first_states[owners] for parts in (
        [fst.sources for fst in fsts], [fst.next_states for fst in fsts]))
    labels, weights = (np.concatenate(parts) for parts in ([fst.input_labels for fst in fsts],
                                                           [fst.weights for fst in fsts]))
    keys, columns = np.unique(owners * np.int64(label_dim) + labels - 1, return_inverse=True)
    into, by_column = np.argsort(nexts, kind="stable"), np.argsort(columns, kind="stable")
    num_states, first_columns = int(first_states[-1]), starts_by(keys // label_dim, len(fsts))
    sources, nexts, columns = sources.astype(np.int32), nexts.astype(np.int32), columns.astype(np.int32)
    tables = (starts_by(nexts, num_states), sources[into], columns[into], starts_by(sources, num_states), nexts,
              columns, starts_by(columns, len(keys)), by_column.astype(np.int32), sources,
              first_states.astype(np.int64), first_columns)
    return CyclicGraphs((keys % label_dim).astype(np.int32), first_columns, num_states,
                        (np.concatenate([fst.final_weights for fst in fsts]), -weights[into], -weights), tables)


TOLERANCE = 0.001        # relative, between the forward and the backward pass

_PLACE = kaldi_place("Backward", "chain-numerator.cc", 150)


class Numerator(NamedTuple):
    """Results of a numerator.

    Attributes
    ----------
    log_prob : the log-probability, summed over sequences; as in Kaldi times the supervision's weight, except for
        supervision without times
    ok : false if a sequence has no path of its length
    row_starts : int64 (rows + 1,): the posteriors are a sparse matrix with the shape of the network's output
    columns : int32 (elements,), the pdf of each
    values : float32 (elements,), posteriors times the weight
    """

    log_prob: float
    ok: bool
    row_starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray


def check_supervision(supervision: Supervision, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless a supervision fits an output of ``shape`` (rows, pdfs)."""
    if supervision.label_dim != shape[1]:
        raise ShapeError(f"the supervision is of {supervision.label_dim} pdfs, but the network's output has the "
                         f"dimension {shape[1]}", "were the examples made with another tree than the network?")
    if supervision.num_sequences * supervision.frames_per_sequence != shape[0]:
        raise ShapeError(f"the supervision is of {supervision.num_sequences} sequences of "
                         f"{supervision.frames_per_sequence} frames, but the network's output has {shape[0]} rows")


class QueuedNumerator:
    """A numerator that is being computed on the device.

    Attributes
    ----------
    sums : device array, float64 (graphs, 2): logs of the sums over paths of the forward and (with times) backward pass
    posteriors : device arrays: row_starts, columns and values as in :class:`Numerator`
    """

    def __init__(self, ops: Ops, supervision: Supervision, sums: Any, posteriors: Sequence[Any]) -> None:
        self._ops, self._supervision = ops, supervision
        self.sums, self.posteriors = sums, posteriors

    def set_posteriors(self, matrix: DeviceArray) -> None:
        """Set ``matrix`` (rows, pdfs) on the device to the posteriors times the supervision's weight."""
        self._ops.copy_from_sparse(matrix, *self.posteriors)

    def result(self, sums: np.ndarray) -> tuple[float, bool]:
        """Return a Numerator's ``log_prob`` and ``ok`` from a host copy of ``sums``; warn if the passes disagree."""
        if self._supervision.is_end_to_end:
            log_probs = sums[:, 0]
            ok = bool(np.isfinite(log_probs).all())
            return (math.fsum(log_probs) if ok else float(log_probs.sum())), ok
        forward, backward = (float(total) for total in sums.sum(axis=0))
        if math.isfinite(forward) and not math.isclose(forward, backward, rel_tol=2 * TOLERANCE):
            logger.warning(f"Disagreement in forward/backward log-probs: {backward:.6g} vs. {forward:.6g}",
                           extra=_PLACE)
        return self._supervision.weight * forward, True


@contextmanager
def queued_numerator(ops: Ops, supervision: Supervision, output: DeviceArray) -> Iterator[QueuedNumerator]:
    """Compute the numerator of a minibatch; the result is valid inside the ``with`` block.

    ``ops``: the device's operations. ``supervision``: the supervision of all sequences. ``output``: device matrix
    (rows, pdfs); row t S + s is frame t of sequence s, of S sequences.

    Raises ShapeError if supervision and output have different numbers of frames or pdfs; Nnet3Error if the FST has
    epsilons, or is not valid for a supervision.
    """
    check_supervision(supervision, output.shape)
    compute = _without_times if supervision.is_end_to_end else _with_times
    mark = ops.mark_scratch()
    with compute(ops, supervision, output) as numerators:
        yield numerators
    ops.release_scratch(mark)


def compute_numerator(supervision: Supervision, output: np.ndarray) -> Numerator:
    """Compute the numerator of a minibatch, on the CPU: log-probability of the supervision, and posteriors of pdfs.

    Parameters
    ----------
    supervision : the supervision of all sequences of the minibatch
    output : float32 (frames sequences, pdfs), the network's output: the first frame of all sequences, then the next

    Returns
    -------
    Log-probability, and posteriors float32, sparse (frames sequences, pdfs).

    Raises
    ------
    ShapeError : supervision and output have different numbers of frames or pdfs
    Nnet3Error : an FST that is not valid for a supervision
    """
    ops = get_ops("cpu")
    with queued_numerator(ops, supervision, output) as numerators:
        return Numerator(*numerators.result(numerators.sums), *map(np.copy, numerators.posteriors))


@contextmanager
def _with_times(ops: Ops, supervision: Supervision, output: DeviceArray) -> Iterator[QueuedNumerator]:
    fst = supervision.fst
    assert fst is not None
    check_fst(fst, supervision.label_dim)
    graphs = timed_graphs(fst, supervision.num_sequences, supervision.frames_per_sequence)
    with ops.staged(graphs.rows, graphs.columns, graphs.row_starts, graphs.costs, graphs.finals,
                    *graphs.tables) as (rows, columns, row_starts, costs, finals, sources, nexts,
                                       in_starts, in_arcs, out_starts, out_arcs, level_starts):
        scores, posteriors = scratch_floats(ops, len(graphs.rows)), scratch_floats(ops, len(graphs.rows))
        alpha, beta = scratch_doubles(ops, len(graphs.finals)), scratch_doubles(ops, len(graphs.finals))
        sums = scratch_doubles(ops, graphs.num_graphs, 2)
        ops.chain_gather(scores, output, rows, columns)
        ops.chain_numerator(posteriors, alpha, beta, sums, scores, costs, finals, sources, nexts, in_starts, in_arcs,
                            out_starts, out_arcs, level_starts, graphs.num_levels, supervision.weight)
        yield QueuedNumerator(ops, supervision, sums, (row_starts, columns, posteriors))


@contextmanager
def _without_times(ops: Ops, supervision: Supervision, output: DeviceArray) -> Iterator[QueuedNumerator]:
    num_sequences, num_frames = supervision.num_sequences, supervision.frames_per_sequence
    if len(supervision.e2e_fsts) != num_sequences:
        raise ShapeError(f"a supervision of {num_sequences} sequences has {len(supervision.e2e_fsts)} FSTs")
    graphs = cyclic_graphs(supervision.e2e_fsts, supervision.label_dim)
    # Rows of the sparse posteriors go frame by frame, and within a frame sequence by sequence: a frame's elements are
    # the pdfs of all sequences side by side.
    counts, width = np.diff(graphs.first_columns), len(graphs.columns)
    all_rows = np.add.outer(np.arange(num_frames) * num_sequences, np.repeat(np.arange(num_sequences), counts))
    ends = np.concatenate(([0], np.cumsum(np.tile(counts, num_frames)))).astype(np.int64)
    with ops.staged(all_rows.ravel().astype(np.int32), np.tile(graphs.columns, num_frames), ends, *graphs.weights,
                    *graphs.tables) as (rows, columns, row_starts, finals, in_weights, out_weights, in_starts,
                                       in_sources, in_columns, out_starts, out_nexts, out_columns, column_starts,
                                       column_arcs, sources, first_states, first_columns):
        scores, posteriors = scratch_floats(ops, num_frames * width), scratch_floats(ops, num_frames * width)
        ops.chain_gather(scores, output, rows, columns)
        alpha = scratch_floats(ops, num_frames + 3, graphs.num_states)
        scales = scratch_floats(ops, num_frames, num_sequences)
        sums = scratch_doubles(ops, num_sequences, 2)
        ops.chain_cyclic_numerator(posteriors.reshape(num_frames, width), alpha, scales, sums,
                                   scores.reshape(num_frames, width), finals, in_weights, out_weights, in_starts,
                                   in_sources, in_columns, out_starts, out_nexts, out_columns, column_starts,
                                   column_arcs, sources, first_states, first_columns, supervision.weight)
        yield QueuedNumerator(ops, supervision, sums, (row_starts, columns, posteriors))
