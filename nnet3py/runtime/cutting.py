"""Cutting of utterances into chunks: as in Kaldi or, if the output does not depend on it, into fewer chunks.

Chunks are shifted to start at t = 0, so that chunks of one shape share one compiled computation and run as one
minibatch. Frames before an utterance's first and after its last are copies of these.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.formats.general import check_finite
from nnet3py.network.nnet import Nnet
from nnet3py.network.recurrence import is_local, is_recurrent, lookahead_is_at_most
from nnet3py.runtime.options import BatchOptions, ComputeOptions

logger = logging.getLogger(__name__)

LONG_CHUNK = 256          # frames; the longest chunk, where it does not matter how an utterance is cut
CPU_ROWS = 2048           # input rows of a minibatch of a network without recurrence; more would not fit CPU caches
RECURRENT_CHUNKS = 64     # chunks of a minibatch with recurrence: products of fewer rows are slow
LENGTHS_PER_OCTAVE = 8    # lengths of chunks that may be lengthened, between one power of two and the next
RECURRENT_LENGTHS = 4     # lengths of such chunks in all for a network with recurrence, so that minibatches are full


class Utterance(NamedTuple):
    """An utterance to be computed.

    Attributes
    ----------
    key : the name of the utterance
    feats : float (frames, input dim)
    ivector : float (ivector dim,), if the network has an input ``ivector``; or ``online_ivectors``
    online_ivectors : float (count, ivector dim)
    error : None, or an error that is returned in place of the output
    """

    key: str
    feats: np.ndarray
    ivector: np.ndarray | None = None
    online_ivectors: np.ndarray | None = None
    error: Nnet3Error | None = None


class Shape(NamedTuple):
    """The properties that all chunks of a minibatch share.

    Times are in frames, relative to the first output's.
    """

    first_t: int             # time of the first input frame
    num_inputs: int
    num_outputs: int
    has_ivector: bool
    full_size: int           # chunks in a full minibatch


class Chunk(NamedTuple):
    """The outputs from ``begin`` on, of which ``first_used`` to ``end_used`` are used, in subsampled frames."""

    shape: Shape
    begin: int
    first_used: int
    end_used: int
    ivector: np.ndarray | None


class Cutter:
    """Base of classes that cut utterances; each defines ``spans`` for one of Kaldi's ways.

    Parameters
    ----------
    nnet : a network with ``input``, ``output`` and perhaps ``ivector``
    options : see :class:`ComputeOptions`
    device : "cpu" or "cuda"
    """

    IVECTOR_TOLERANCE = 0    # frames that an utterance may go on after its last online i-vector

    def __init__(self, nnet: Nnet, options: ComputeOptions, device: str) -> None:
        self.options, self.device = options, device
        options.check()
        self.left_context, self.right_context = compute_simple_nnet_context(nnet)
        self.outputs_per_chunk = _rounded_frames_per_chunk(nnet, options) // options.frame_subsampling_factor
        # chunks begin at multiples of this many outputs
        self.unit = math.lcm(options.frame_subsampling_factor, nnet.modulus()) // options.frame_subsampling_factor
        self.is_local, self.is_recurrent = is_local(nnet), is_recurrent(nnet)
        self.may_lengthen = lookahead_is_at_most(nnet, self.right_context)

    def chunks(self, utterance: Utterance, period: int) -> Iterator[Chunk]:
        """Yield the chunks of an utterance; ``period`` is the number of frames between online i-vectors.

        Raises Nnet3Error: the utterance has too many frames after its last online i-vector.
        """
        factor = self.options.frame_subsampling_factor
        num_outputs = -(-len(utterance.feats) // factor)
        is_free = self.is_local and utterance.online_ivectors is None
        has_ivector = utterance.ivector is not None or utterance.online_ivectors is not None
        for begin, end, first_used, end_used in self.free_spans(num_outputs) if is_free else self.spans(num_outputs):
            extra = (0, 0) if is_free else self.options.extra_context(begin == 0, end >= num_outputs)
            left, right = self.left_context + extra[0], self.right_context + extra[1]
            ivector = self._ivector(utterance, period, begin * factor, end * factor)
            size = end - begin if is_free or not self.may_lengthen else max(end - begin, self._lengthened(end - begin))
            num_inputs = left + (size - 1) * factor + 1 + right
            is_usual = is_free or extra == (self.options.extra_left_context, self.options.extra_right_context)
            full_size = self.full_size(num_inputs, is_free, is_usual)
            yield Chunk(Shape(-left, num_inputs, size, has_ivector, full_size), begin, first_used, end_used, ivector)

    def spans(self, num_outputs: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (first output, end, first used output, end of the used outputs) of each chunk of an utterance."""
        raise NotImplementedError

    def free_spans(self, num_outputs: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the same as ``spans``, but few chunks of equal length: for outputs that do not depend on the cutting.

        Every chunk needs extra frames of context, so few chunks are faster.
        """
        longest = max(self.outputs_per_chunk, LONG_CHUNK // self.options.frame_subsampling_factor)
        num_chunks = -(-num_outputs // longest)
        size = self._rounded(-(-num_outputs // num_chunks)) if num_chunks else 1
        for begin in range(0, num_outputs, size):
            yield begin, begin + size, begin, min(begin + size, num_outputs)

    def _rounded(self, num_outputs: int) -> int:
        """Round a number of outputs up, so that few different lengths (to be compiled) occur."""
        units = -(-num_outputs // self.unit)
        step = 1 << max(units.bit_length() - LENGTHS_PER_OCTAVE.bit_length(), 0)
        return -(-units // step) * step * self.unit

    def _lengthened(self, num_outputs: int) -> int:
        if not self.is_recurrent:
            return min(self._rounded(num_outputs), self.outputs_per_chunk)
        step = -(-self.outputs_per_chunk // (RECURRENT_LENGTHS * self.unit)) * self.unit
        return min(-(-num_outputs // step) * step, self.outputs_per_chunk)

    def full_size(self, num_inputs: int, is_free: bool, is_usual: bool) -> int:
        """Return the number of chunks in a full minibatch, for chunks of ``num_inputs`` rows."""
        raise NotImplementedError

    def size_for(self, count: int, full_size: int) -> int:
        """Return the size of the minibatch for ``count`` chunks: one of few sizes, since each has to be compiled."""
        raise NotImplementedError

    def _ivector(self, utterance: Utterance, period: int, begin: int, end: int) -> np.ndarray | None:
        """Return the i-vector for frames begin..end-1: that of the utterance, or the online one at their middle."""
        online = utterance.online_ivectors
        if online is None:
            return utterance.ivector
        middle, last_frame = self.middle(begin, end, len(utterance.feats))
        last_row = len(online) - 1
        if last_row < 0 or (last_frame // period - last_row) * period > self.IVECTOR_TOLERANCE:
            raise Nnet3Error(f"Could not get iVector for frame {middle}: there are {last_row + 1} online i-vectors, "
                             f"one every {period} frames", "check --online-ivector-period")
        return np.asarray(online[min(middle // period, last_row)])

    def middle(self, begin: int, end: int, num_frames: int) -> tuple[int, int]:
        """Return the frame whose i-vector is used, and the one that may not be far beyond the last i-vector."""
        raise NotImplementedError


class ChunkAfterChunk(Cutter):
    """Cutter into consecutive chunks of one size; the last may be shorter. Kaldi: DecodableNnetSimple."""

    IVECTOR_TOLERANCE = 50

    def spans(self, num_outputs: int) -> Iterator[tuple[int, int, int, int]]:
        for begin in range(0, num_outputs, self.outputs_per_chunk):
            end = min(begin + self.outputs_per_chunk, num_outputs)
            yield begin, end, begin, end

    def full_size(self, num_inputs: int, is_free: bool, is_usual: bool) -> int:
        if self.is_recurrent or self.device != "cpu":
            return RECURRENT_CHUNKS
        return max(1, min(RECURRENT_CHUNKS, CPU_ROWS // num_inputs))

    def size_for(self, count: int, full_size: int) -> int:
        step = 1 << max(count.bit_length() - 3, 0)          # up to 8 all; then 10, 12, 14, 16, 20, …
        return min(-(-count // step) * step, full_size)

    def middle(self, begin: int, end: int, num_frames: int) -> tuple[int, int]:
        frame = begin + (end - self.options.frame_subsampling_factor - begin) // 2
        return frame, frame


class EqualChunks(Cutter):
    """Cutter into chunks of one size: the last ends where the utterance ends, and overlaps the one before.

    An utterance shorter than a chunk is padded with copies of its last frame. Kaldi: NnetBatchComputer.
    """

    IVECTOR_TOLERANCE = 20

    def __init__(self, nnet: Nnet, options: ComputeOptions, batch: BatchOptions, device: str) -> None:
        super().__init__(nnet, options, device)
        batch.check()
        self.batch = batch
        self.may_lengthen = False      # as --ensure-exact-final-context requires

    def spans(self, num_outputs: int) -> Iterator[tuple[int, int, int, int]]:
        size = self.outputs_per_chunk
        if num_outputs <= size:
            yield 0, num_outputs if self.batch.ensure_exact_final_context else size, 0, num_outputs
            return
        for begin in range(0, num_outputs, size):
            end = min(begin + size, num_outputs)
            first = -(-(end - size) // self.unit) * self.unit
            yield first, first + size, begin, end

    def full_size(self, num_inputs: int, is_free: bool, is_usual: bool) -> int:
        size = self.batch.minibatch_size if is_usual else self.batch.edge_minibatch_size
        return max(1, min(size, CPU_ROWS // num_inputs)) if is_free and self.device == "cpu" else size

    def size_for(self, count: int, full_size: int) -> int:
        size, factor = full_size, self.batch.partial_minibatch_factor
        while count <= int(size * factor):
            size = int(size * factor)
        return size

    def middle(self, begin: int, end: int, num_frames: int) -> tuple[int, int]:
        factor = self.options.frame_subsampling_factor
        frame = (begin // factor + (end - begin) // factor // 2) * factor
        return frame, min(frame, num_frames - 1)      # in the padding of a short utterance, its last frame counts


def _rounded_frames_per_chunk(nnet: Nnet, options: ComputeOptions) -> int:
    """Return ``frames_per_chunk``, rounded up so that all chunks have equal shapes; logs the change."""
    factor, modulus = options.frame_subsampling_factor, nnet.modulus()
    unit = math.lcm(factor, modulus)
    wanted = options.frames_per_chunk
    rounded = -(-wanted // unit) * unit
    if rounded != wanted:
        reason = (f"--frame-subsampling-factor={factor}" if modulus == 1 else
                  f"nnet shift-invariance modulus = {modulus} and --frame-subsampling-factor={factor}")
        logger.info(f"Increasing --frames-per-chunk from {wanted} to {rounded} to make it a multiple of {reason}")
    return rounded


# -- inputs and outputs of a network -----------------------------------------------------------------------------------


class NetworkIo:
    """The dimensions of a simple network, checks of its inputs, and the scaling of its outputs.

    Parameters
    ----------
    nnet : a network with ``input``, ``output`` and perhaps ``ivector``
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    acoustic_scale : the factor of outputs

    Raises
    ------
    ShapeError : the numbers of priors and of the network's outputs differ
    """

    def __init__(self, nnet: Nnet, priors: np.ndarray | None = None, acoustic_scale: float = 1.0) -> None:
        self.input_dim, self.output_dim = nnet.input_dim("input"), nnet.output_dim("output")
        self.ivector_dim = max(nnet.input_dim("ivector"), 0)
        self._acoustic_scale = np.float32(acoustic_scale)
        self._log_priors = None
        if priors is not None and len(priors):
            if len(priors) != self.output_dim:
                raise ShapeError(f"the model has {len(priors)} priors for {self.output_dim} outputs")
            self._log_priors = np.log(np.asarray(priors, dtype=np.float32))

    def check_features(self, feats: np.ndarray) -> None:
        """Raise ShapeError or NumericError unless the features are finite, (frames, input dim)."""
        if feats.ndim != 2 or feats.shape[1] != self.input_dim:
            width = feats.shape[1] if feats.ndim == 2 else f"{feats.ndim}-dimensional"
            raise ShapeError(f"Neural net expects 'input' features with dimension {self.input_dim} but you provided "
                             f"{width}", None if feats.ndim == 2 else "give a matrix (frames, dim), or several ones")
        check_finite(feats, "the feature matrix")

    def check_ivectors(self, ivector: np.ndarray | None, online_ivectors: np.ndarray | None, period: int) -> None:
        """Raise an error unless the i-vectors that the network needs are given, finite and of its dimension.

        Parameters
        ----------
        ivector : float (ivector dim,), or None
        online_ivectors : float (count, ivector dim), one every ``period`` frames, or None; not both
        """
        if ivector is not None and online_ivectors is not None:
            raise UsageError("a constant i-vector and online i-vectors cannot both be given")
        if online_ivectors is not None and period <= 0:
            raise UsageError(f"--online-ivector-period={period} must be 1 or more")
        given, num_axes = (ivector, 1) if ivector is not None else (online_ivectors, 2)
        dim = 0 if given is None else given.shape[-1] if given.ndim == num_axes else f"{given.ndim}-dimensional"
        if dim != self.ivector_dim:
            raise ShapeError(f"Neural net expects 'ivector' features with dimension {self.ivector_dim} but you "
                             f"provided {dim}", "give or leave out ivector= (or --ivectors, --online-ivectors)")
        if given is not None:
            check_finite(np.atleast_2d(given), "the i-vector")

    def finish(self, output: np.ndarray) -> np.ndarray:
        """Subtract the log priors from the network's output (frames, output dim), scale it, in place, and return it.

        Raises NumericError: naN in the output.
        """
        if np.isnan(output).any():
            raise NumericError("the network's output has NaN", "has its training diverged?")
        if self._log_priors is not None:
            output -= self._log_priors
        if self._acoustic_scale != 1.0:
            output *= self._acoustic_scale
        return output
