"""The numerator of the LF-MMI objective: sums over the paths that a supervision allows.

A supervision's FST either says which pdfs each frame may have (``NumeratorComputation`` of Kaldi), or, if end-to-end
or unconstrained, has no times (``GenericNumeratorComputation``).
"""
from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3py.chain.numerator_graphs import check_fst, cyclic_graphs, timed_graphs
from nnet3py.chain.scratch import scratch_doubles, scratch_floats
from nnet3py.egs.supervision import Supervision
from nnet3py.errors import ShapeError
from nnet3py.log import kaldi_place
from nnet3py.ops import get_ops

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

TOLERANCE = 0.001        # relative, between the forward and the backward pass

_PLACE = kaldi_place("Backward", "chain-numerator.cc", 150)


class Numerator(NamedTuple):
    """The numerator's results.

    Attributes
    ----------
    log_prob : summed over sequences; as in Kaldi times the supervision's weight, except for supervision without times
    ok : False where some sequence has no path of the right length
    row_starts : int64 (rows + 1,): the posteriors are a sparse matrix like the network's output
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
    """A numerator that the device computes, without the host waiting for it.

    Attributes
    ----------
    sums : float64 (graphs, 2) of the device: logs of sums over paths, forward and, with times, backward
    posteriors : row_starts, columns and values of a sparse matrix, of the device
    """

    def __init__(self, ops: Ops, supervision: Supervision, sums: Any, posteriors: Sequence[Any]) -> None:
        self._ops, self._supervision = ops, supervision
        self.sums, self.posteriors = sums, posteriors

    def set_posteriors(self, matrix: DeviceArray) -> None:
        """Set a device matrix like the output to the posteriors times the weight."""
        self._ops.copy_from_sparse(matrix, *self.posteriors)

    def result(self, sums: np.ndarray) -> tuple[float, bool]:
        """``log_prob`` and ``ok`` of a :class:`Numerator`, from a host copy of ``sums``; warns if passes disagree."""
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

    Parameters
    ----------
    ops : the device's operations
    supervision : of all sequences
    output : device matrix (rows, pdfs); row t S + s is frame t of sequence s of S

    Raises
    ------
    ShapeError : the supervision is for another output
    Nnet3Error : its FST holds epsilons, or is not a supervision's
    """
    check_supervision(supervision, output.shape)
    compute = _without_times if supervision.is_end_to_end else _with_times
    mark = ops.mark_scratch()
    with compute(ops, supervision, output) as numerators:
        yield numerators
    ops.release_scratch(mark)


def compute_numerator(supervision: Supervision, output: np.ndarray) -> Numerator:
    """The numerator of a minibatch, on the CPU: how likely the supervision is, and posteriors of pdfs.

    Parameters
    ----------
    supervision : of all sequences of the minibatch
    output : float32 (frames sequences, pdfs), the network's output: the first frame of all sequences, then the next

    Returns
    -------
    Log-probability, and posteriors float32, sparse (frames sequences, pdfs).

    Raises
    ------
    ShapeError : output and supervision that do not fit each other
    Nnet3Error : an FST that cannot be a supervision's
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
