"""Computing a network's output over many utterances at once: chunks of different utterances run as one minibatch.

Chunks have few sizes, so that few compiled computations serve them all. Where it matters to the output how an utterance
is cut (recurrence, say), it is cut as Kaldi does: all chunks have one size, the last one ends where the utterance ends
and overlaps the one before, and an utterance shorter than a chunk is continued with copies of its last frame. Where it
does not, chunks are long, and equally long within an utterance, since context is computed for each anew; the output is
then that of chunk after chunk (:mod:`nnet3py.runtime.compute`), up to rounding. Kaldi: ``NnetBatchComputer``.
"""
from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.context import compute_simple_nnet_context
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error, NumericError, UsageError, within
from nnet3py.index import sequence_indexes
from nnet3py.network.locality import is_local
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.compute import ComputeOptions, rounded_frames_per_chunk
from nnet3py.runtime.computer_cache import ComputerCache
from nnet3py.runtime.network_io import NetworkIo

IVECTOR_TOLERANCE = 20               # frames that an utterance may go on after its last online i-vector
LONG_CHUNK = 256                     # frames; the longest chunk, where it does not matter how an utterance is cut
CPU_ROWS = 2048                      # input rows of a minibatch; with more of them the CPU's caches are too small
DEFAULT_MAX_PENDING = 64 * 2**20     # float32 numbers of features and outputs that wait for a minibatch to be full


@dataclass
class BatchOptions:
    """How chunks are gathered; names and defaults are those of ``nnet3-compute-batch``."""

    minibatch_size: int = 128
    edge_minibatch_size: int = 32                # of chunks that have other context because they are first or last
    ensure_exact_final_context: bool = False     # a short utterance is a chunk of its own length
    partial_minibatch_factor: float = 0.5        # a minibatch that is not full has this times the size, or its square…
    max_pending: int = DEFAULT_MAX_PENDING       # then minibatches are run though they are not full

    def check(self) -> None:
        """Raise UsageError for values that make no sense."""
        for name, size in (("minibatch-size", self.minibatch_size), ("edge-minibatch-size", self.edge_minibatch_size)):
            if size < 1:
                raise UsageError(f"--{name}={size} must be 1 or more")
        if not 0.0 <= self.partial_minibatch_factor < 1.0:
            raise UsageError(f"--partial-minibatch-factor={self.partial_minibatch_factor:g} must be 0 or more, and "
                             "less than 1")


class Utterance(NamedTuple):
    """What is computed for: a name, float features (frames, input dim), and i-vectors where the network wants them.

    Either ``ivector``, float (ivector dim,), or ``online_ivectors``, float (count, ivector dim).
    """

    key: str
    feats: np.ndarray
    ivector: np.ndarray | None = None
    online_ivectors: np.ndarray | None = None


class _Shape(NamedTuple):
    """What chunks of one minibatch have in common. Times are relative to the first output's."""

    first_t: int             # of the input
    num_inputs: int
    num_outputs: int
    has_ivector: bool
    full_size: int           # chunks in a full minibatch


@dataclass
class _Pending:
    """An utterance some of whose chunks have not been computed."""

    key: str
    feats: np.ndarray
    output: np.ndarray
    num_waiting: int = 0
    error: NumericError | None = None


class _Chunk(NamedTuple):
    utterance: _Pending
    begin: int               # the first output, numbered in subsampled frames
    first_used: int          # the first output that is taken
    end_used: int
    ivector: np.ndarray | None


class BatchComputer:
    """Computes outputs of utterances with one network, many at a time.

    Parameters
    ----------
    nnet : the network, used as it is: put it in test mode before (:func:`nnet3py.network.collapse.prepare_for_test`)
    options : how utterances are cut and outputs scaled
    batch : how chunks are gathered
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    device : "cpu" or "cuda"
    """

    def __init__(self, nnet: Nnet, options: ComputeOptions | None = None, batch: BatchOptions | None = None,
                 priors: np.ndarray | None = None, device: str = "cpu") -> None:
        self.nnet, self.options, self.batch = nnet, options or ComputeOptions(), batch or BatchOptions()
        self.options.check()
        self.batch.check()
        self.left_context, self.right_context = compute_simple_nnet_context(nnet)
        self._io = NetworkIo(nnet, priors, self.options.acoustic_scale)
        self.compiler = self.options.compiler.compiler(nnet, self.options.optimize)
        self._computers = ComputerCache(nnet, self.compiler, device=device, debug=self.options.debug)
        factor = self.options.frame_subsampling_factor
        self._outputs_per_chunk = rounded_frames_per_chunk(nnet, self.options) // factor
        self._unit = math.lcm(factor, nnet.modulus()) // factor      # chunks begin at multiples of so many outputs
        self._is_local, self._device = is_local(nnet), device
        self._groups: OrderedDict[_Shape, list[_Chunk]] = OrderedDict()
        self._pending: deque[_Pending] = deque()
        self._num_pending = 0

    def compute(self, utterances: Iterable[Utterance],
                online_ivector_period: int = 0) -> Iterator[tuple[str, np.ndarray | NumericError]]:
        """Outputs of utterances, in their order: yields (key, float32 (ceil(frames / subsampling), output dim)).

        Reads ahead of what it yields, as far as minibatches need. An utterance that cannot be computed because of NaN
        or infinity yields the error.

        Raises
        ------
        ShapeError : features or i-vectors of another dimension than the network asks for
        Nnet3Error : an utterance goes on too long after its last online i-vector
        """
        self._groups.clear()
        self._pending.clear()
        self._num_pending = 0
        for utterance in utterances:
            with within(f"utterance {utterance.key}"):
                self._accept(utterance, online_ivector_period)
            while self._num_pending > self.batch.max_pending:
                self._run_what_is_waited_for()
                yield from self._finished()
            yield from self._finished()
        while self._groups:
            self._run_what_is_waited_for()
            yield from self._finished()

    # -- cutting utterances ----------------------------------------------------------------------------------------

    def _accept(self, utterance: Utterance, period: int) -> None:
        """Cut an utterance into chunks, and run the minibatches that this fills."""
        factor = self.options.frame_subsampling_factor
        num_outputs = -(-len(utterance.feats) // factor)
        pending = _Pending(utterance.key, np.asarray(utterance.feats),
                           np.empty((num_outputs, self._io.output_dim), dtype=np.float32))
        self._pending.append(pending)
        self._num_pending += self._size(pending)
        try:
            self._io.check_features(pending.feats)
            self._io.check_ivectors(utterance.ivector, utterance.online_ivectors, period)
        except NumericError as error:
            pending.error = error
            return
        is_free = self._is_local and utterance.online_ivectors is None
        for begin, end, first_used, end_used in self._free_spans(num_outputs) if is_free else self._spans(num_outputs):
            shape = self._shape(begin, end, num_outputs, utterance, is_free)
            ivector = self._chunk_ivector(utterance, period, (begin + (end - begin) // 2) * factor)
            chunks = self._groups.setdefault(shape, [])
            chunks.append(_Chunk(pending, begin, first_used, end_used, ivector))
            pending.num_waiting += 1
            if len(chunks) == shape.full_size:
                self._run(shape)

    def _spans(self, num_outputs: int) -> Iterator[tuple[int, int, int, int]]:
        """The chunks of an utterance: first output, end, first output that is used, end of those."""
        size = self._outputs_per_chunk
        if num_outputs <= size:
            end = num_outputs if self.batch.ensure_exact_final_context else size
            yield 0, end, 0, num_outputs
            return
        for begin in range(0, num_outputs, size):
            end = min(begin + size, num_outputs)
            first = -(-(end - size) // self._unit) * self._unit
            yield first, first + size, begin, end

    def _free_spans(self, num_outputs: int) -> Iterator[tuple[int, int, int, int]]:
        """The same, of equal lengths, of which there are four between one power of two and the next."""
        longest = max(self._outputs_per_chunk, LONG_CHUNK // self.options.frame_subsampling_factor)
        num_chunks = -(-num_outputs // longest)
        units = -(-num_outputs // (num_chunks * self._unit))
        step = 1 << max(units.bit_length() - 3, 0)
        size = -(-units // step) * step * self._unit
        for begin in range(0, num_outputs, size):
            yield begin, begin + size, begin, min(begin + size, num_outputs)

    def _shape(self, begin: int, end: int, num_outputs: int, utterance: Utterance, is_free: bool) -> _Shape:
        options, batch, factor = self.options, self.batch, self.options.frame_subsampling_factor
        usual = 0 if is_free else options.extra_left_context, 0 if is_free else options.extra_right_context
        extra_left, extra_right = usual if is_free else options.extra_context(begin == 0, end >= num_outputs)
        left, right = self.left_context + extra_left, self.right_context + extra_right
        num_inputs = left + (end - begin - 1) * factor + 1 + right
        has_ivector = utterance.ivector is not None or utterance.online_ivectors is not None
        full_size = batch.minibatch_size if (extra_left, extra_right) == usual else batch.edge_minibatch_size
        if is_free and self._device == "cpu":
            full_size = max(1, min(full_size, CPU_ROWS // num_inputs))
        return _Shape(-left, num_inputs, end - begin, has_ivector, full_size)

    @staticmethod
    def _chunk_ivector(utterance: Utterance, period: int, middle: int) -> np.ndarray | None:
        """The i-vector of a chunk: the constant one, or the online one of frame ``middle``."""
        online = utterance.online_ivectors
        if online is None:
            return utterance.ivector
        last_row = len(online) - 1
        # Where a short utterance is continued, its own last frame must not be too far behind.
        row_needed = min(middle, len(utterance.feats) - 1) // period
        if last_row < 0 or (row_needed - last_row) * period > IVECTOR_TOLERANCE:
            raise Nnet3Error(f"Could not get iVector for frame {middle}: there are {last_row + 1} online i-vectors, "
                             f"one every {period} frames", "check --online-ivector-period")
        return online[min(middle // period, last_row)]

    # -- running minibatches ---------------------------------------------------------------------------------------

    def _size_for(self, count: int, shape: _Shape) -> int:
        """The size of a minibatch of ``count`` chunks; few sizes occur, for each is compiled for."""
        factor, size = self.batch.partial_minibatch_factor, shape.full_size
        while count <= int(size * factor):
            size = int(size * factor)
        return size

    def _run_what_is_waited_for(self) -> None:
        """Run a minibatch with the first utterance that is waited for, full or not."""
        first = next(one for one in self._pending if one.num_waiting)
        shape = next(shape for shape, chunks in self._groups.items() if any(one.utterance is first for one in chunks))
        self._run(shape)

    def _run(self, shape: _Shape) -> None:
        """Run the minibatch of the chunks of one shape."""
        chunks = self._groups.pop(shape)
        size = self._size_for(len(chunks), shape)
        computer = self._computers.computer(self._request(shape, size))
        features = np.zeros((size, shape.num_inputs, self._io.input_dim), dtype=np.float32)
        factor = self.options.frame_subsampling_factor
        offsets = np.arange(shape.first_t, shape.first_t + shape.num_inputs)
        for row, chunk in enumerate(chunks):
            frames = np.clip(chunk.begin * factor + offsets, 0, len(chunk.utterance.feats) - 1)
            features[row] = chunk.utterance.feats[frames]
        computer.accept_input("input", features.reshape(-1, self._io.input_dim))
        if shape.has_ivector:
            ivectors = np.zeros((size, self._io.ivector_dim), dtype=np.float32)
            ivectors[:len(chunks)] = [chunk.ivector for chunk in chunks]
            computer.accept_input("ivector", ivectors)
        computer.run()
        output = computer.output("output").reshape(size, shape.num_outputs, self._io.output_dim)
        for row, chunk in enumerate(chunks):
            used = output[row, chunk.first_used - chunk.begin:chunk.end_used - chunk.begin]
            chunk.utterance.output[chunk.first_used:chunk.end_used] = used
            chunk.utterance.num_waiting -= 1

    def _request(self, shape: _Shape, size: int) -> ComputationRequest:
        """``size`` sequences, one after the other, of a chunk's input and output rows."""
        inputs = [IoSpecification("input", sequence_indexes(size, shape.first_t + np.arange(shape.num_inputs)))]
        if shape.has_ivector:
            inputs.append(IoSpecification("ivector", sequence_indexes(size, np.zeros(1))))
        output_t = np.arange(shape.num_outputs) * self.options.frame_subsampling_factor
        return ComputationRequest(inputs, [IoSpecification("output", sequence_indexes(size, output_t))])

    def _finished(self) -> Iterator[tuple[str, np.ndarray | NumericError]]:
        """Hand out the utterances at the front of the queue that wait for nothing more."""
        while self._pending and not self._pending[0].num_waiting:
            one = self._pending.popleft()
            self._num_pending -= self._size(one)
            yield one.key, one.error or self._finish(one.output)

    def _finish(self, output: np.ndarray) -> np.ndarray | NumericError:
        try:
            return self._io.finish(output)
        except NumericError as error:
            return error

    @staticmethod
    def _size(one: _Pending) -> int:
        return one.feats.size + one.output.size
