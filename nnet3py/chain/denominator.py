"""The denominator of the LF-MMI objective: sums over all paths of a graph. Kaldi: ``DenominatorComputation``."""
from __future__ import annotations

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.engine import threads
from nnet3py.errors import ShapeError
from nnet3py.log import kaldi_place
from nnet3py.ops.training_operations import chain_work_rows

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)


SMALLEST = 1024          # float32 elements; sizes vary with minibatches, so scratch space is taken in powers of two


def scratch_floats(ops: Ops, *shape: int) -> Any:
    """Return an uninitialized contiguous float32 array of the device; valid as long as other scratch memory."""
    size = math.prod(shape)
    return ops.scratch_vector(1 << (max(size, SMALLEST) - 1).bit_length())[:size].reshape(*shape)


def scratch_doubles(ops: Ops, *shape: int) -> Any:
    """Return an uninitialized contiguous float64 array of the device; valid as long as other scratch memory."""
    return scratch_floats(ops, 2 * math.prod(shape)).view(np.float64).reshape(*shape)


LIMIT = 30.0                 # outputs are clipped to +-this before exp
WIDEST_BLOCK = 32            # sequences that one thread computes at a time: their frames fit its cache
EXCESSIVE = 2.0              # sum of the checks' errors that is too much, in sequences
SUM_TOLERANCE, POSTERIOR_TOLERANCE = 0.001, 0.01

_PLACE = kaldi_place("BetaGeneralFrameDebug", "chain-denominator.cc", 363)


class Denominator(NamedTuple):
    """Log-probability of the denominator, summed over sequences; ``ok`` is false if it is numerically wrong."""

    log_prob: float
    ok: bool


class DenominatorComputation:
    """The forward-backward computation over a denominator graph; its memory is reused for each minibatch.

    ``ops``: the device's operations. ``graph``: see :class:`DenominatorGraph`. ``leaky``: the leaky-HMM coefficient,
    between 0 and 1.
    """

    def __init__(self, ops: Ops, graph: DenominatorGraph, leaky: float) -> None:
        self.ops, self.graph, self.leaky = ops, graph, leaky
        self._memory: list[Any] = []       # a block for each thread
        self._pool: ThreadPoolExecutor | None = None
        upload = ops.upload
        self._initial = upload(graph.initial)
        entry_pdfs = upload(graph.entry_pdfs)
        self._forward = (upload(graph.into.probs), upload(graph.into.starts), upload(graph.into.others),
                         upload(graph.state_entries), entry_pdfs)
        self._backward = (upload(graph.out_of.probs), upload(graph.out_of.starts), upload(graph.out_of.others),
                          upload(graph.pdf_starts), upload(graph.pdf_entries), entry_pdfs, upload(graph.entry_states))

    def compute(self, output: DeviceArray, num_sequences: int, deriv: DeviceArray | None = None,
                scale: float = -1.0) -> Denominator:
        """Compute the denominator of a minibatch.

        Parameters
        ----------
        output : device matrix (rows, pdfs) of pseudo-log-likelihoods; row t S + s is frame t of sequence s
        num_sequences : S
        deriv : device matrix (rows, pdfs) to which ``scale`` times the posteriors are added, or None
        scale : factor of the posteriors, usually minus the supervision's weight

        Raises ShapeError for columns other than the graph's pdfs, or rows that are not a multiple of ``num_sequences``.
        """
        self._check(output, num_sequences)
        results = scratch_doubles(self.ops, 3, num_sequences)
        self.queue(results, output, num_sequences, deriv, scale)
        return self.result(self.ops.copy_out(results), deriv is not None)

    def _check(self, output: DeviceArray, num_sequences: int) -> int:
        """Check an output against the graph, and return its number of rows."""
        rows, cols = output.shape
        if cols != self.graph.num_pdfs:
            raise ShapeError(f"the network's output has the dimension {cols}, but the denominator graph was made for "
                             f"{self.graph.num_pdfs} pdfs")
        if num_sequences < 1 or rows % num_sequences:
            raise ShapeError(f"the network's output has {rows} rows for {num_sequences} sequences, expected equally "
                             "many for each sequence")
        return int(rows)

    def queue(self, results: DeviceArray, output: DeviceArray, num_sequences: int, deriv: DeviceArray | None,
              scale: float) -> None:
        """Start the computation, which writes float64 (3, sequences) to ``results``, the argument of :meth:`result`."""
        rows = self._check(output, num_sequences)
        num_workers = threads.num_threads() if self.ops.device == "cpu" else 1
        blocks = _blocks(num_sequences, num_workers, WIDEST_BLOCK if self.ops.device == "cpu" else num_sequences)
        num_workers = min(num_workers, len(blocks))
        self._prepare(num_workers, rows // num_sequences, max(width for _, width in blocks))

        def work(worker: int) -> None:
            for first, width in blocks[worker::num_workers]:
                self._block(self._memory[worker], results, output, num_sequences, first, width, deriv, scale)

        if num_workers == 1:
            work(0)
        else:
            assert self._pool is not None
            list(self._pool.map(work, range(num_workers)))

    def result(self, results: np.ndarray, with_derivative: bool) -> Denominator:
        """Return the denominator from a host copy of the results of :meth:`queue`; warn of numerical errors."""
        return Denominator(float(results[0].sum()), not with_derivative or _is_sound(results))

    def _block(self, memory: DeviceArray, results: DeviceArray, output: DeviceArray, num_sequences: int, first: int,
               width: int, deriv: DeviceArray | None, scale: float) -> None:
        """Compute sequences ``first`` to ``first + width``: log-probabilities, and sums at frame 0 that should be 1."""
        ops, graph, leaky = self.ops, self.graph, np.float32(self.leaky)
        num_frames = output.shape[0] // num_sequences
        heights = _heights(graph, num_frames)
        starts = np.concatenate(([0], np.cumsum(heights))) * width
        y, arriving, sums, states = (memory[begin:begin + height * width].reshape(height, width)
                                     for begin, height in zip(starts[:-1].tolist(), heights, strict=True))
        mine = results[:, first:first + width]
        ops.chain_exp(y, output, LIMIT, first, num_sequences)
        ops.chain_forward(sums, states, arriving, y, self._initial, *self._forward, leaky)
        ops.chain_log_probs(mine, sums, self._initial, leaky)
        if deriv is not None:
            ops.chain_backward(y, arriving, states, sums, self._initial, *self._backward, leaky)
            ops.chain_add_posteriors(deriv, y, first, num_sequences, scale)
            ops.chain_checks(mine, states, y, sums, self._initial, graph.num_pdfs, leaky)

    def _prepare(self, num_workers: int, num_frames: int, width: int) -> None:
        """Allocate memory for each thread, and start the threads."""
        size = sum(_heights(self.graph, num_frames)) * width
        if len(self._memory) < num_workers or self._memory[0].size < size:
            self._memory = []
            self._memory = [self.ops.new_vector(size) for _ in range(num_workers)]
        if num_workers > 1 and (self._pool is None or self._pool._max_workers < num_workers):
            self._pool = ThreadPoolExecutor(num_workers, thread_name_prefix="denominator")


def _heights(graph: DenominatorGraph, num_frames: int) -> tuple[int, int, int, int]:
    """Return the numbers of rows of four arrays: exponentials, sums by entry, sums by frame, and work space."""
    return (num_frames * graph.num_pdfs, num_frames * graph.num_entries, num_frames + 1,
            chain_work_rows(graph.num_states))


def _blocks(num_sequences: int, num_workers: int, widest: int) -> list[tuple[int, int]]:
    """Divide the sequences into nearly equal blocks, at least one for each worker: first sequence, number of sequences.
    """
    count = max(-(-num_sequences // widest), min(num_workers, num_sequences))
    count = min(-(-count // num_workers) * num_workers, num_sequences)
    bounds = [num_sequences * b // count for b in range(count + 1)]
    return [(begin, end - begin) for begin, end in zip(bounds[:-1], bounds[1:], strict=True)]


def _is_sound(results: np.ndarray) -> bool:
    """Return false if the sums of frame 0, which should be 1 for each sequence, are far off; warn of smaller errors."""
    ok, num_sequences = True, results.shape[1]
    for total, tolerance, what in ((float(results[1].sum()), SUM_TOLERANCE, "alpha-beta product"),
                                   (float(results[2].sum()), POSTERIOR_TOLERANCE, "log-prob-deriv sum")):
        if math.isclose(total, num_sequences, rel_tol=2 * tolerance):
            continue
        logger.warning(f"On time 0, {what} {total:.6g} != {num_sequences}", extra=_PLACE)
        if abs(total - num_sequences) > EXCESSIVE:
            logger.warning("Excessive error detected, will abandon this minibatch", extra=_PLACE)
            ok = False
    return ok
