"""Outputs of a network for many utterances at once: chunks of one shape run as one minibatch.

A :class:`~nnet3py.runtime.cutting.Cutter` cuts the utterances. Here chunks wait until a minibatch is full, or until too
many wait. :class:`BatchComputer` cuts as ``nnet3-compute-batch`` does. Kaldi: ``NnetBatchComputer``.
"""
from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error, NumericError, within
from nnet3py.index import sequence_indexes
from nnet3py.network.inference import for_inference
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import ComputerCache
from nnet3py.runtime.cutting import Chunk, Cutter, EqualChunks, NetworkIo, Shape, Utterance
from nnet3py.runtime.options import BatchOptions, ComputeOptions

__all__ = ["BatchComputer", "BatchOptions", "MinibatchComputer", "Utterance"]

Result = np.ndarray | Nnet3Error


@dataclass
class PendingUtterance:
    """An utterance with chunks that have not been computed, which will fill or be added to ``output``."""

    key: str
    feats: np.ndarray
    output: np.ndarray
    num_waiting: int = 0
    error: Nnet3Error | None = None

    @property
    def size(self) -> int:
        return self.feats.size + self.output.size


class UtteranceQueue:
    """The utterances that have not been returned yet, in order; subclasses compute their chunks.

    Parameters
    ----------
    io : the scaling of outputs
    """

    def __init__(self, io: NetworkIo) -> None:
        self._io = io
        self._pending: deque[PendingUtterance] = deque()
        self._num_pending = 0      # elements of features and outputs

    def _clear(self) -> None:
        self._pending.clear()
        self._num_pending = 0

    def _append(self, pending: PendingUtterance) -> None:
        self._pending.append(pending)
        self._num_pending += pending.size

    def _finished(self) -> Iterator[tuple[str, Result]]:
        """Yield the utterances at the front of the queue that are complete."""
        while self._pending and not self._pending[0].num_waiting:
            utterance = self._pending.popleft()
            self._num_pending -= utterance.size
            yield utterance.key, utterance.error or self._finish(utterance.output)

    def _finish(self, output: np.ndarray) -> Result:
        try:
            return self._io.finish(output)
        except NumericError as error:
            return error


class MinibatchComputer(UtteranceQueue):
    """A computer of a network's outputs for many utterances: chunks of equal shape run together.

    Parameters
    ----------
    nnet : the network, left unchanged: a copy is put in test mode (:func:`nnet3py.network.inference.for_inference`)
    options : options of cutting, scaling and compiling
    cutter : the way of cutting utterances
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    device : "cpu" or "cuda"
    max_pending : limit on waiting chunks: the number of float32 elements of their features and outputs
    training_mode : whether to compute with ``nnet`` itself, with batch norm and dropout as they are set
    """

    def __init__(self, nnet: Nnet, options: ComputeOptions, cutter: Cutter, priors: np.ndarray | None, device: str,
                 max_pending: int, training_mode: bool = False) -> None:
        self.nnet = nnet = for_inference(nnet, training_mode)
        self.options, self.cutter = options, cutter
        self.left_context, self.right_context = cutter.left_context, cutter.right_context
        super().__init__(NetworkIo(nnet, priors, options.acoustic_scale))
        self.compiler = CachingCompiler.with_options(nnet, options.optimize, options.compiler)
        self._computers = ComputerCache(nnet, self.compiler, device=device, debug=options.debug,
                                        capacity=options.compiler.cache_capacity)
        self._max_pending = max_pending
        self._groups: OrderedDict[Shape, list[tuple[PendingUtterance, Chunk]]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.nnet!r}>"

    def compute_all(self, utterances: Iterable[Utterance],
                    online_ivector_period: int = 0) -> Iterator[tuple[str, Result]]:
        """Yield the outputs of utterances in their order: (key, float32 (ceil(frames / subsampling), output dim)).

        Reads further utterances before it yields, to fill minibatches. For an utterance with NaN or infinity, or an
        ``error`` of its own, the error is yielded in place of the output.

        Raises, after yielding the utterances before
        ------
        ShapeError : features or i-vectors of another dimension than the network asks for
        Nnet3Error : an utterance has too many frames after its last online i-vector
        """
        self._groups.clear()
        self._clear()
        failure: Nnet3Error | None = None
        source = iter(utterances)
        while True:
            try:
                utterance = next(source)
                with within(f"utterance {utterance.key}") if utterance.key else nullcontext():
                    self._accept(utterance, online_ivector_period)
            except StopIteration:
                break
            except Nnet3Error as error:
                failure = error
                break
            for shape in [shape for shape, chunks in self._groups.items() if len(chunks) >= shape.full_size]:
                self._run(shape)
            yield from self._finished()
            while self._num_pending > self._max_pending:       # the first one waits: complete ones have been yielded
                self._run_first_waiting()
                yield from self._finished()
        while self._groups:
            self._run_first_waiting()
            yield from self._finished()
        yield from self._finished()
        if failure is not None:
            raise failure

    def _accept(self, utterance: Utterance, period: int) -> None:
        """Cut an utterance into chunks, and add them to the waiting ones of their shapes."""
        num_outputs = 0 if utterance.error else -(-len(utterance.feats) // self.options.frame_subsampling_factor)
        output = np.empty((num_outputs, self._io.output_dim), dtype=np.float32)
        pending = PendingUtterance(utterance.key, np.asarray(utterance.feats), output, error=utterance.error)
        chunks: list[Chunk] = []
        if pending.error is None:
            try:
                self._io.check_features(pending.feats)
                self._io.check_ivectors(utterance.ivector, utterance.online_ivectors, period)
                chunks = list(self.cutter.chunks(utterance, period))
            except NumericError as error:
                pending.error = error
        self._append(pending)
        pending.num_waiting = len(chunks)
        for chunk in chunks:
            self._groups.setdefault(chunk.shape, []).append((pending, chunk))

    def _run_first_waiting(self) -> None:
        """Run the chunks of the shape that the first waiting utterance needs, even if the minibatch is not full."""
        first = next(utterance for utterance in self._pending if utterance.num_waiting)
        self._run(next(shape for shape, chunks in self._groups.items()
                       if any(utterance is first for utterance, _ in chunks)))

    def _run(self, shape: Shape) -> None:
        """Run all waiting chunks of one shape, in as few minibatches as possible."""
        waiting = self._groups.pop(shape)
        for begin in range(0, len(waiting), shape.full_size):
            self._run_minibatch(shape, waiting[begin:begin + shape.full_size])

    def _run_minibatch(self, shape: Shape, chunks: list[tuple[PendingUtterance, Chunk]]) -> None:
        size = self.cutter.size_for(len(chunks), shape.full_size)
        computer = self._computers.computer(self.request(shape, size))
        features = np.zeros((size, shape.num_inputs, self._io.input_dim), dtype=np.float32)
        factor = self.options.frame_subsampling_factor
        offsets = np.arange(shape.first_t, shape.first_t + shape.num_inputs)
        for row, (utterance, chunk) in enumerate(chunks):
            features[row] = utterance.feats[np.clip(chunk.begin * factor + offsets, 0, len(utterance.feats) - 1)]
        computer.accept_input("input", features.reshape(-1, self._io.input_dim))
        if shape.has_ivector:
            ivectors = np.zeros((size, self._io.ivector_dim), dtype=np.float32)
            ivectors[:len(chunks)] = [chunk.ivector for _, chunk in chunks]
            computer.accept_input("ivector", ivectors)
        computer.run()
        output = computer.output("output", copy=False).reshape(size, shape.num_outputs, self._io.output_dim)
        for row, (utterance, chunk) in enumerate(chunks):
            used = output[row, chunk.first_used - chunk.begin:chunk.end_used - chunk.begin]
            utterance.output[chunk.first_used:chunk.end_used] = used
            utterance.num_waiting -= 1

    def request(self, shape: Shape, size: int) -> ComputationRequest:
        """Return the request for ``size`` sequences, one after the other, of a chunk's input and output rows."""
        inputs = [IoSpecification("input", sequence_indexes(size, shape.first_t + np.arange(shape.num_inputs)))]
        if shape.has_ivector:
            inputs.append(IoSpecification("ivector", sequence_indexes(size, np.zeros(1))))
        output_t = np.arange(shape.num_outputs) * self.options.frame_subsampling_factor
        return ComputationRequest(inputs, [IoSpecification("output", sequence_indexes(size, output_t))])


class BatchComputer(MinibatchComputer):
    """A computer of utterances' outputs with the chunks of ``nnet3-compute-batch``: see :class:`EqualChunks`.

    Parameters
    ----------
    nnet, options, priors, device, training_mode : as for :class:`MinibatchComputer`
    batch : sizes of minibatches, and how short utterances are cut
    """

    def __init__(self, nnet: Nnet, options: ComputeOptions | None = None, batch: BatchOptions | None = None,
                 priors: np.ndarray | None = None, device: str = "cpu", training_mode: bool = False) -> None:
        options, batch = options or ComputeOptions(), batch or BatchOptions()
        nnet = for_inference(nnet, training_mode)
        super().__init__(nnet, options, EqualChunks(nnet, options, batch, device), priors, device, batch.max_pending,
                         training_mode)

    def compute(self, utterances: Iterable[Utterance],
                online_ivector_period: int = 0) -> Iterator[tuple[str, Result]]:
        """Yield outputs: see :meth:`MinibatchComputer.compute_all`."""
        return self.compute_all(utterances, online_ivector_period)
