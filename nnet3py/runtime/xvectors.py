"""X-vectors: one vector for each utterance, from a network with a layer of statistics pooling.

Long utterances are cut into chunks, whose vectors are averaged. Kaldi: nnet3-xvector-compute,
nnet3-xvector-compute-batched.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext

import numpy as np

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.compiler.cache import CachingCompiler, CompilerOptions, OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.statistics_pooling import StatisticsPoolingComponent
from nnet3py.errors import Nnet3Error, NumericError, UsageError, within
from nnet3py.index import sequence_indexes
from nnet3py.network.inference import for_inference
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.batch import PendingUtterance, UtteranceQueue
from nnet3py.runtime.computer import ComputerCache
from nnet3py.runtime.cutting import CPU_ROWS, NetworkIo, Utterance
from nnet3py.runtime.options import BatchedXvectorOptions, XvectorOptions

MAX_PENDING = 256      # utterances that may wait for a minibatch of full chunks


class _ChunkComputer:
    """A computer of the vectors of chunks with equal lengths, several at a time."""

    def __init__(self, nnet: Nnet, compiler: CachingCompiler, device: str, debug: bool) -> None:
        self.io = NetworkIo(nnet)
        self._computers = ComputerCache(nnet, compiler, device=device, capacity=compiler.capacity, debug=debug)

    def compute(self, chunks: np.ndarray) -> np.ndarray:
        """Return the vectors, float32 (chunks, output dim), of chunks, float (chunks, frames, input dim)."""
        count, num_frames = chunks.shape[:2]
        request = ComputationRequest([IoSpecification("input", sequence_indexes(count, np.arange(num_frames)))],
                                     [IoSpecification("output", sequence_indexes(count, np.zeros(1)))])
        computer = self._computers.computer(request)
        computer.accept_input("input", chunks.reshape(-1, chunks.shape[2]))
        computer.run()
        return computer.output("output")


def _pending(key: str, io: NetworkIo, num_chunks: int) -> PendingUtterance:
    """Return an utterance whose vector will be the sum of those of its chunks, weighted; its features are not kept."""
    return PendingUtterance(key, np.zeros(0), np.zeros(io.output_dim, np.float32), num_chunks)


class XvectorComputer(UtteranceQueue):
    """A computer of utterances' x-vectors; chunks of full length, of one or many utterances, are computed together.

    Parameters
    ----------
    nnet : the network, left unchanged: a copy is put in test mode (:func:`nnet3py.network.inference.for_inference`)
    options : see :class:`XvectorOptions`
    optimize, compiler : options of the compiler
    device : "cpu" or "cuda"
    debug : whether to log every command as it runs
    training_mode : whether to compute with ``nnet`` itself, with batch norm and dropout as they are set
    """

    def __init__(self, nnet: Nnet, options: XvectorOptions | None = None, optimize: OptimizeOptions | None = None,
                 compiler: CompilerOptions | None = None, device: str = "cpu", debug: bool = False,
                 training_mode: bool = False) -> None:
        self.options, nnet = options or XvectorOptions(), for_inference(nnet, training_mode)
        self.options.check()
        self.compiler = CachingCompiler.with_options(nnet, optimize, compiler)
        self._chunks = _ChunkComputer(nnet, self.compiler, device, debug)
        super().__init__(self._chunks.io)
        # Full chunks that wait, and their weights.
        self._full: list[tuple[PendingUtterance, np.ndarray, np.float32]] = []

    def compute(self, feats: np.ndarray) -> np.ndarray:
        """Compute the vector of one utterance: the mean of those of its chunks, weighted by their lengths.

        Parameters
        ----------
        feats : float (frames, input dim), one frame or more

        Returns
        -------
        float32 (output dim,)

        Raises
        ------
        ShapeError : features of another dimension than the network's
        NumericError : NaN or infinity in them, or NaN in the network's output
        UsageError : the utterance is shorter than the least chunk, and chunks are not padded
        """
        (_, result), = self.compute_all([Utterance("", feats)])
        if isinstance(result, np.ndarray):
            return result
        raise result

    def compute_all(self, utterances: Iterable[Utterance]) -> Iterator[tuple[str, np.ndarray | Nnet3Error]]:
        """Yield (key, vector) in the order of ``utterances``; i-vectors are not used.

        For an utterance with an ``error``, or with one of the errors of :meth:`compute` except ShapeError, the error is
        yielded in place of the vector. Other errors are raised, after the utterances before were yielded.
        """
        self._full.clear()
        self._clear()
        source, failure = iter(utterances), None
        while failure is None:
            try:
                utterance = next(source)
                with within(f"utterance {utterance.key}") if utterance.key else nullcontext():
                    self._accept(utterance)
            except StopIteration:
                break
            except Nnet3Error as error:
                failure = error
            if len(self._pending) > MAX_PENDING:
                self._run_full_chunks()
            yield from self._finished()
        self._run_full_chunks()
        yield from self._finished()
        if failure is not None:
            raise failure

    def _accept(self, utterance: Utterance) -> None:
        """Compute the short chunks of an utterance; keep full ones until several can be computed together."""
        error, chunks = utterance.error, []
        if error is None:
            try:
                self._io.check_features(utterance.feats)
                chunks = self._cut(utterance.feats)
                if not chunks:
                    error = UsageError(f"the utterance has {len(utterance.feats)} frames, less than --min-chunk-size="
                                       f"{self.options.min_chunk_size}", "use --pad-input=true")
            except NumericError as found:
                error = found
        pending = _pending(utterance.key, self._io, len(chunks))
        pending.error = error
        self._append(pending)
        total = sum(map(len, chunks))
        for chunk in chunks:
            weight = np.float32(len(chunk)) / np.float32(total)
            if len(chunk) == self.options.chunk_size:
                self._full.append((pending, self._padded(chunk), weight))
                if len(self._full) >= max(1, CPU_ROWS // len(self._full[-1][1])):
                    self._run_full_chunks()
            else:
                self._run([(pending, self._padded(chunk), weight)])

    def _run_full_chunks(self) -> None:
        if self._full:
            self._run(self._full)
            self._full.clear()

    def _run(self, chunks: list[tuple[PendingUtterance, np.ndarray, np.float32]]) -> None:
        """Compute chunks of equal length, and add their weighted vectors to those of their utterances."""
        vectors = self._chunks.compute(np.stack([chunk for _, chunk, _ in chunks]))
        for (pending, _, weight), vector in zip(chunks, vectors, strict=True):
            pending.output += weight * vector
            pending.num_waiting -= 1

    def _cut(self, feats: np.ndarray) -> list[np.ndarray]:
        """Return the chunks of an utterance; the last may be shorter. Chunks that are too short are left out."""
        size = self.options.chunk_size
        size = len(feats) if size == -1 else min(size, len(feats))
        chunks = [feats[begin:begin + size] for begin in range(0, len(feats), size)]
        return [chunk for chunk in chunks if self.options.pad_input or len(chunk) >= self.options.min_chunk_size]

    def _padded(self, chunk: np.ndarray) -> np.ndarray:
        """Return the chunk, padded to the least length with copies of its first and last frames."""
        missing = max(0, self.options.min_chunk_size - len(chunk))
        frames = np.arange(-(missing // 2), len(chunk) + missing - missing // 2)
        return chunk[np.clip(frames, 0, len(chunk) - 1)]


def pooling_context(nnet: Nnet) -> tuple[int, int]:
    """Return the left and right context of the layers before statistics pooling, in frames.

    Kaldi measures it with ``SetRequireDirectInput``.
    """
    measured = nnet.copy()
    for name in measured.component_names:
        component = measured.component(name)
        if isinstance(component, StatisticsPoolingComponent):
            component.left_context = component.right_context = 0
    return compute_simple_nnet_context(measured)


class BatchedXvectorComputer(UtteranceQueue):
    """A computer of utterances' x-vectors from chunks of one length, with chunks of many utterances in a batch.

    Parameters
    ----------
    nnet : the network, left unchanged: a copy is put in test mode (:func:`nnet3py.network.inference.for_inference`)
    options : see :class:`BatchedXvectorOptions`
    device : "cpu" or "cuda"
    training_mode : whether to compute with ``nnet`` itself, with batch norm and dropout as they are set

    Raises
    ------
    UsageError : chunks that are not longer than the network's own context
    """

    def __init__(self, nnet: Nnet, options: BatchedXvectorOptions | None = None, device: str = "cpu",
                 training_mode: bool = False) -> None:
        self.options, nnet = options or BatchedXvectorOptions(), for_inference(nnet, training_mode)
        self.options.check()
        self.left_context, self.right_context = pooling_context(nnet)
        self._context = self.left_context + self.right_context
        if self.options.chunk_size <= self._context:
            raise UsageError(f"--chunk-size={self.options.chunk_size} must be more than the network's context, "
                             f"{self.left_context} + {self.right_context} frames")
        self.compiler = CachingCompiler.with_options(nnet, self.options.optimize, self.options.compiler)
        self._chunks = _ChunkComputer(nnet, self.compiler, device, self.options.debug)
        super().__init__(self._chunks.io)
        self._batch = np.zeros((self.options.batch_size, self.options.chunk_size, self._io.input_dim),
                               dtype=np.float32)
        self._in_batch: list[tuple[PendingUtterance, np.float32]] = []      # utterances, and their chunks' weights

    def compute(self, utterances: Iterable[tuple[str, np.ndarray]]) -> Iterator[tuple[str, np.ndarray | Nnet3Error]]:
        """Yield (key, vector) in the order of ``utterances``: (key, float (frames, input dim)), not empty.

        The vector, float32 (output dim,), is the mean of those of the utterance's chunks. Utterances shorter than a
        chunk are left out if they are not padded. For an utterance with NaN or infinity, or whose vector has NaN, the
        NumericError is yielded. Raises ShapeError as :class:`XvectorComputer` does.
        """
        self._clear()
        self._in_batch.clear()
        for key, feats in utterances:
            with within(f"utterance {key}"):
                self._accept(key, feats)
            yield from self._finished()
        if self._in_batch:
            self._run()
        yield from self._finished()

    def _accept(self, key: str, feats: np.ndarray) -> None:
        starts = chunk_starts(len(feats), self.options.chunk_size, self._context, self.options.pad_input)
        if not starts:
            return
        pending = _pending(key, self._io, len(starts))
        self._append(pending)
        try:
            self._io.check_features(feats)
        except NumericError as error:
            pending.error, pending.num_waiting = error, 0
            return
        for start in starts:
            frames = np.minimum(start + np.arange(self.options.chunk_size), len(feats) - 1)
            self._batch[len(self._in_batch)] = feats[frames]
            self._in_batch.append((pending, np.float32(1.0 / len(starts))))
            if len(self._in_batch) == self.options.batch_size:
                self._run()

    def _run(self) -> None:
        """Compute the chunks of the batch, which may not be full."""
        for (pending, weight), vector in zip(self._in_batch, self._chunks.compute(self._batch), strict=False):
            pending.output += vector * weight
            pending.num_waiting -= 1
        self._in_batch.clear()


def chunk_starts(num_frames: int, chunk_size: int, context: int, pad_input: bool = True) -> list[int]:
    """Return the first frame of each chunk of an utterance; [] for one that is too short and not padded.

    A chunk pools ``chunk_size - context`` frames. If these do not add up to the utterance's length, chunks overlap or
    have gaps between them, whichever weights all frames more evenly. Kaldi: SplitUtteranceIntoChunks.
    """
    if num_frames <= chunk_size:
        return [0] if num_frames == chunk_size or pad_input else []
    pooled, size = num_frames - context, chunk_size - context
    fewer = pooled // size
    overlap = (fewer + 1) * size - pooled
    once = pooled - overlap
    variance_of_fewer = np.float32(1.0 / (fewer * size))
    variance_of_more = np.float32((once + 4.0 * overlap) / (once + 2.0 * overlap) ** 2)
    if variance_of_fewer <= variance_of_more:
        gaps = _even_pieces(pooled - fewer * size, fewer + 1)[:-1]
    else:
        gaps = [0, *(-piece for piece in _even_pieces(overlap, fewer))]
    return [int(start) for start in np.cumsum(gaps) + size * np.arange(len(gaps))]


def _even_pieces(total: int, count: int) -> list[int]:
    """Return ``count`` numbers that add up to ``total`` and differ by one at most, the smaller ones first."""
    each, more = divmod(total, count)
    return [each] * (count - more) + [each + 1] * more
