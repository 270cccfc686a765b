"""The numerator of the LF-MMI objective: sums over the paths that a supervision allows.

A supervision's FST either says which pdfs each frame may have (``NumeratorComputation`` of Kaldi), or, end to end and
unconstrained, nothing of time (``GenericNumeratorComputation``). Both run on the host: they read few of the network's
outputs, which are gathered first.
"""
from __future__ import annotations

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from nnet3py.egs.supervision import Supervision
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.io.fst import Fst
from nnet3py.log import kaldi_place
from nnet3py.ops import get_ops, threads

logger = logging.getLogger(__name__)

TOLERANCE = 0.001        # relative, between the forward and the backward pass

_PLACE = kaldi_place("Backward", "chain-numerator.cc", 150)
_NOT_NORMALIZED = ("was it made without the normalization FST? nnet3-chain-normalize-egs leaves out examples that "
                   "cannot be normalised")


class Numerator(NamedTuple):
    """What the numerator found.

    Attributes
    ----------
    log_prob : summed over sequences; as in Kaldi times the weight of the supervision, but not so without times
    ok : False where some sequence has no path of the right length
    row_starts : int64 (rows + 1,): the posteriors are a sparse matrix like the network's output
    columns : int32, the pdf of each of its elements
    values : float32, posteriors times the weight
    """

    log_prob: float
    ok: bool
    row_starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray


def check_supervision(supervision: Supervision, shape: tuple[int, int]) -> None:
    """Raise ShapeError unless a supervision fits an output of ``shape`` (rows, pdfs)."""
    if supervision.label_dim != shape[1]:
        raise ShapeError(f"the supervision is of {supervision.label_dim} pdfs, but the network's output has the "
                         f"dimension {shape[1]}", "were the examples made with another tree than the network?")
    if supervision.num_sequences * supervision.frames_per_sequence != shape[0]:
        raise ShapeError(f"the supervision is of {supervision.num_sequences} sequences of "
                         f"{supervision.frames_per_sequence} frames, but the network's output has {shape[0]} rows")


def compute_numerator(ops: Any, supervision: Supervision, output: Any, num_threads: int = 1) -> Numerator:
    """The numerator of a minibatch: its log-probability and posteriors.

    Parameters
    ----------
    ops : the device's operations
    supervision : of all sequences
    output : device matrix (rows, pdfs); row t S + s is frame t of sequence s of S
    num_threads : for supervision without times; 0: all cores

    Raises
    ------
    ShapeError : the supervision is for another output
    Nnet3Error : its FST holds epsilons, or is none of a supervision
    """
    check_supervision(supervision, tuple(output.shape))
    if supervision.is_end_to_end:
        return _without_times(ops, supervision, output, num_threads)
    return _with_times(ops, supervision, output)


def _check_fst(fst: Fst, label_dim: int) -> None:
    if fst.num_states == 0 or fst.start != 0:
        raise Nnet3Error(f"the FST of a supervision has {fst.num_states} states and starts in {fst.start}, expected "
                         "the start state 0")
    if not fst.num_arcs:
        raise Nnet3Error("the FST of a supervision has no arcs")
    if not fst.is_acceptor:
        raise Nnet3Error("the FST of a supervision is a transducer, expected an acceptor of pdfs plus 1")
    lowest, highest = int(fst.input_labels.min()), int(fst.input_labels.max())
    if lowest == 0:
        raise Nnet3Error("the FST of a supervision holds epsilons, so it is not normalised", _NOT_NORMALIZED)
    if lowest < 0 or highest > label_dim:
        raise Nnet3Error(f"the FST of a supervision of {label_dim} pdfs has the label "
                         f"{lowest if lowest < 0 else highest}, expected 1 to {label_dim}")


def state_times(fst: Fst) -> np.ndarray:
    """How many arcs lead to each state, int64 (states,). Kaldi: ``ComputeFstStateTimes``.

    Raises
    ------
    Nnet3Error : the FST is not sorted, not connected, or reaches a state or its end at several times
    """
    sources, nexts = fst.sources, fst.next_states
    if (nexts <= sources).any():
        raise Nnet3Error("the FST of a supervision is not sorted: an arc leads back, or to the state it leaves")
    times = [-1] * fst.num_states
    times[0] = 0
    for source, target in zip(sources.tolist(), nexts.tolist(), strict=True):
        times[target] = times[source] + 1
    result = np.array(times, dtype=np.int64)
    if (result < 0).any() or (result[1:] == 0).any():
        raise Nnet3Error("the FST of a supervision has states that cannot be reached")
    if (result[nexts] != result[sources] + 1).any():
        raise Nnet3Error("the FST of a supervision reaches a state at several times")
    if len(np.unique(result[fst.is_final])) != 1 or result[fst.is_final][0] != result.max():
        raise Nnet3Error("the FST of a supervision ends at several times, or nowhere")
    return result


def _with_times(ops: Any, supervision: Supervision, output: Any) -> Numerator:
    fst = supervision.fst
    assert fst is not None
    _check_fst(fst, supervision.label_dim)
    times = state_times(fst)
    num_sequences, num_frames = supervision.num_sequences, supervision.frames_per_sequence
    if times.max() != num_sequences * num_frames:
        raise ShapeError(f"the paths of a supervision's FST have {times.max()} arcs, expected one for each frame: "
                         f"{num_sequences} times {num_frames}")
    sequences, frames = np.divmod(times[fst.sources], num_frames)
    rows = (frames * num_sequences + sequences).astype(np.int32)
    columns = fst.input_labels - np.int32(1)
    scores = _gathered(ops, output, rows, columns)
    alpha, beta, posteriors = np.empty(fst.num_states), np.empty(fst.num_states), np.empty(fst.num_arcs, np.float32)
    log_prob = get_ops("cpu").chain_numerator(posteriors, alpha, beta, scores, fst.weights, fst.final_weights,
                                              fst.arc_starts, fst.next_states)
    if math.isfinite(log_prob) and not math.isclose(log_prob, beta[0], rel_tol=2 * TOLERANCE):
        logger.warning(f"Disagreement in forward/backward log-probs: {beta[0]:.6g} vs. {log_prob:.6g}", extra=_PLACE)
    order = np.argsort(rows, kind="stable")
    row_starts = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=output.shape[0])))).astype(np.int64)
    weight = np.float32(supervision.weight)
    return Numerator(supervision.weight * log_prob, True, row_starts, columns[order], weight * posteriors[order])


def _gathered(ops: Any, output: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Elements of the output, float32, on the host."""
    scores = ops.scratch(1, len(rows))
    ops.chain_gather(scores[0], output, ops.upload(rows), ops.upload(columns))
    return ops.copy_out(scores)[0]


class _CyclicFst(NamedTuple):
    """An FST of one sequence as arrays: its pdfs, and what ``chain_cyclic_numerator`` takes."""

    pdfs: np.ndarray
    num_states: int
    tables: tuple[np.ndarray, ...]


def _cyclic_fst(fst: Fst, label_dim: int) -> _CyclicFst:
    _check_fst(fst, label_dim)
    pdfs, columns = np.unique(fst.input_labels - np.int32(1), return_inverse=True)
    columns = columns.astype(np.int32)
    into = np.argsort(fst.next_states, kind="stable")
    in_starts = np.concatenate(([0], np.cumsum(np.bincount(fst.next_states, minlength=fst.num_states))))
    return _CyclicFst(pdfs, fst.num_states, (
        fst.final_weights, -fst.weights[into], -fst.weights, in_starts.astype(np.int64), fst.sources[into],
        columns[into], fst.arc_starts, fst.next_states, columns))


def _without_times(ops: Any, supervision: Supervision, output: Any, num_threads: int) -> Numerator:
    num_sequences, num_frames = supervision.num_sequences, supervision.frames_per_sequence
    if len(supervision.e2e_fsts) != num_sequences:
        raise ShapeError(f"a supervision of {num_sequences} sequences has {len(supervision.e2e_fsts)} FSTs")
    fsts = [_cyclic_fst(fst, supervision.label_dim) for fst in supervision.e2e_fsts]
    # Rows of the sparse posteriors go frame after frame, in each sequence after sequence: a frame's elements are the
    # pdfs of all sequences side by side.
    counts = np.array([len(fst.pdfs) for fst in fsts])
    ends = np.cumsum(counts)
    rows = np.add.outer(np.arange(num_frames) * num_sequences, np.repeat(np.arange(num_sequences), counts))
    columns = np.tile(np.concatenate([fst.pdfs for fst in fsts]), num_frames)
    scores = _gathered(ops, output, rows.ravel().astype(np.int32), columns).reshape(num_frames, -1)
    posteriors = np.zeros_like(scores)

    def log_prob(sequence: int) -> float:
        fst, part = fsts[sequence], slice(ends[sequence] - counts[sequence], ends[sequence])
        if not np.isfinite(scores[:, part]).all():
            return math.nan
        alpha = np.empty((num_frames + 3, fst.num_states), dtype=np.float32)
        return get_ops("cpu").chain_cyclic_numerator(posteriors[:, part], alpha, np.empty(num_frames, np.float32),
                                                     scores[:, part], *fst.tables)

    num_threads = min(num_threads or threads.available_cores(), num_sequences)
    if num_threads > 1:
        with ThreadPoolExecutor(num_threads) as pool:
            log_probs = list(pool.map(log_prob, range(num_sequences)))
    else:
        log_probs = [log_prob(sequence) for sequence in range(num_sequences)]
    row_starts = np.concatenate(([0], np.cumsum(np.tile(counts, num_frames)))).astype(np.int64)
    weight = np.float32(supervision.weight)
    return Numerator(math.fsum(log_probs) if np.isfinite(log_probs).all() else float(np.sum(log_probs)),
                     bool(np.isfinite(log_probs).all()), row_starts, columns, (weight * posteriors).ravel())
