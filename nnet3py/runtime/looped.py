"""Outputs of a network for a stream of frames, computed chunk by chunk as frames arrive.

The rows that later chunks need are kept, so no frame is computed twice, a recurrence continues where it was, and memory
does not grow. Streams that are ready at the same time can be computed together (``compute_chunks``). Kaldi:
``DecodableNnetSimpleLooped``, ``DecodableNnetLoopedOnline``.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nnet3py.advice import Advising, elsewhere
from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse import fuse
from nnet3py.compiler.looped import (
    carried_state,
    find_looped,
    looped_chunk_size,
    looped_requests,
    num_sequences,
    with_ivector_period,
)
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.shortcut import expand_computation
from nnet3py.errors import CompileError, Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.network.inference import for_inference
from nnet3py.network.model_file import AnyModelOrFile, network_or_file
from nnet3py.network.model_place import subsampling_beside
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import Arena
from nnet3py.runtime.chunk_batch import ChunkBatch, StreamState, StreamStates, WaitingLine
from nnet3py.runtime.cutting import NetworkIo
from nnet3py.runtime.frame_buffer import FrameBuffer
from nnet3py.runtime.stage_runners import RecordingOps

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

DEFAULT_FRAMES_PER_CHUNK = 20
DEFAULT_MAX_BATCH = 8                           # streams
BATCH_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)      # streams of compiled computations; a batch may have gaps


class Chunk(NamedTuple):
    """The next chunk of a stream, ready to be computed.

    Attributes
    ----------
    state : the stream's state
    feats : float (frames, input dim), the frames that :meth:`LoopedComputer.frames_of_chunk` returns
    ivector : float (ivector dim,); None: zero, or the network has no such input
    result : where to store the stream's state after the chunk, so that ``state`` is not changed and the stream can be
        continued in several ways; None: ``state`` is changed
    """

    state: StreamState
    feats: np.ndarray
    ivector: np.ndarray | None = None
    result: StreamState | None = None


class LoopedComputer(Advising):
    """A computer of streams, which compiles a network once; each stream has its own state.

    Parameters
    ----------
    nnet : a simple network, or an acoustic model (whose priors are not used); left unchanged: a copy is put in
        test mode (:func:`nnet3py.network.inference.for_inference`)
    frames_per_chunk : frames of input in a chunk, which are computed together; rounded up so that chunks can be equal
    extra_left_context_initial : copies of the first frame before a stream, in addition to the network's left context
    frame_subsampling_factor : frames of input for each row of output; None: the factor in the folder of the network's
        file, else 1
    acoustic_scale : the factor of outputs
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    optimize : options of the optimizer
    device : "cpu" or "cuda"
    debug : whether to log every command as it runs
    training_mode : whether to compute with ``nnet`` itself, with batch norm and dropout as they are set
    cache_dir : a folder where the compiled computation is kept for other processes; None: the folder that the
        environment variable NNET3PY_COMPUTATION_CACHE names; "": no folder
    max_batch : the largest number of streams that are computed together

    Attributes
    ----------
    computation : the computation for a single stream
    frames_per_chunk : frames of input in a chunk, after rounding
    left_context, right_context : frames of input before the first output of a stream, and after a chunk's last frame

    Raises
    ------
    UsageError : an invalid number
    Nnet3Error : the network is not simple, or no two of its chunks are computed alike, so that there is no loop
    """

    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{
        "accept take push feed forward step finish": "stream = looped.stream(); stream.accept(feats), stream.finish()"})

    def __init__(self, nnet: AnyModelOrFile, frames_per_chunk: int = DEFAULT_FRAMES_PER_CHUNK, *,
                 extra_left_context_initial: int = 0, frame_subsampling_factor: int | None = None,
                 acoustic_scale: float = 1.0, priors: np.ndarray | None = None,
                 optimize: OptimizeOptions | None = None, device: str = "cpu", debug: bool = False,
                 training_mode: bool = False, cache_dir: str | os.PathLike[str] | None = None,
                 max_batch: int = DEFAULT_MAX_BATCH) -> None:
        nnet = network_or_file(nnet)
        if extra_left_context_initial < 0:
            raise UsageError(f"--extra-left-context-initial={extra_left_context_initial} must be 0 or more")
        if not 1 <= max_batch <= BATCH_SIZES[-1]:
            raise UsageError(f"max_batch={max_batch} must be from 1 to {BATCH_SIZES[-1]}")
        if frame_subsampling_factor is None:
            frame_subsampling_factor = subsampling_beside(nnet.path)
        nnet = for_inference(nnet, training_mode)
        left, self.right_context = compute_simple_nnet_context(nnet)
        self.left_context = left + extra_left_context_initial
        self.frame_subsampling_factor = frame_subsampling_factor
        self.frames_per_chunk = looped_chunk_size(nnet, frames_per_chunk, frame_subsampling_factor)
        self.io = NetworkIo(nnet, priors, acoustic_scale)
        self.nnet = with_ivector_period(nnet, self.frames_per_chunk) if self.io.ivector_dim else nnet
        self._options, self._cache_dir, self._debug = optimize or OptimizeOptions(), cache_dir, debug
        self._ops = get_ops(device)
        if device == "cpu" and not training_mode and not debug:
            self._ops = cast("Ops", RecordingOps())             # the network does not change
        self._arena = Arena(self._ops)
        self._plain = self._compiled()
        self.max_batch = max_batch if num_sequences(self._plain) > 1 else 1
        self._carried = carried_state(self._plain, self.nnet)
        self._states = StreamStates(self._ops, self._carried.width)
        self._batches: dict[int, ChunkBatch] = {}
        self._num_batches = 0
        self._no_ivector = np.zeros(self.io.ivector_dim, np.float32)
        self._line: WaitingLine[Chunk, np.ndarray | NumericError] = WaitingLine(self._compute)
        self.computation = self._batch(1).computation
        self._stream: LoopedStream | None = None

    def __repr__(self) -> str:
        every = f", a row for {self.frame_subsampling_factor}" if self.frame_subsampling_factor > 1 else ""
        return (f"<LoopedComputer: chunks of {self.frames_per_chunk} frames{every}; context {self.left_context} frames "
                f"left, {self.right_context} right>")

    def _compiled(self) -> Computation:
        """Return a computation for two sequences, to be extended to any number; or for one, if that is impossible."""
        try:
            computation = self._find(2)
            expand_computation(computation, self.nnet, 1)
        except CompileError:
            return self._find(1)
        return computation

    def _find(self, count: int) -> Computation:
        requests = looped_requests(self.nnet, self.frames_per_chunk, self.left_context, self.right_context,
                                   self.frame_subsampling_factor, num_sequences=count)
        return find_looped(self.nnet, requests, self._options, self._cache_dir)

    def _batch(self, size: int) -> ChunkBatch:
        """Return the computer for chunks of ``size`` streams, made at its first use."""
        if size not in self._batches:
            computation = self._plain
            if size != num_sequences(computation):
                computation = expand_computation(computation, self.nnet, size)
            computation = fuse(computation, self.nnet, self._options)
            self._batches[size] = ChunkBatch(computation, self._carried, self.nnet, self._ops, self._arena,
                                             self._states, self._debug)
            computation.invalidate_caches()
        return self._batches[size]

    def __call__(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> NDArray[np.float32]:
        """Compute a whole utterance, see :meth:`compute`: float (frames, dim) -> float32 (rows, output dim)."""
        return self.compute(feats, ivector)

    def stream(self) -> LoopedStream:
        """Return a new stream."""
        return LoopedStream(self)

    def new_state(self) -> StreamState:
        """Return the state of a new stream, for :meth:`compute_chunks`."""
        return StreamState(self._states)

    def frames_of_chunk(self, number: int) -> tuple[int, int]:
        """Return the first input frame of chunk ``number`` of a stream, and the frame after the last one.

        Frames below 0 are copies of frame 0, and those after a stream's last frame copies of that.
        """
        first = number * self.frames_per_chunk + self.right_context
        return -self.left_context if number == 0 else first, first + self.frames_per_chunk

    def compute_chunks(self, chunks: Sequence[Chunk]) -> list[np.ndarray | NumericError]:
        """Compute the next chunk of each of several streams, as many at once as possible.

        May be called from any thread. Chunks that are given while a batch is computed become the next batch. Streams
        can be computed together if all are at the same chunk of the loop; they differ only near their beginnings.

        Returns
        -------
        list : for each chunk float32 (rows, output dim), a row for each ``frame_subsampling_factor`` frames; or the
            error if the network's output has NaN

        Raises
        ------
        ShapeError, NumericError : a chunk has the wrong number of frames, or frames or an i-vector of another dimension
            than the network's, or NaN or infinity in them; then none is computed
        """
        for chunk in chunks:
            self._check(chunk)
        return self._line.wait_for(chunks)

    def _check(self, chunk: Chunk) -> None:
        self.io.check_features(chunk.feats)
        if chunk.ivector is not None:
            self.io.check_ivectors(chunk.ivector, None, 0)
        first, end = self.frames_of_chunk(chunk.state.num_chunks)
        if len(chunk.feats) != end - first:
            raise ShapeError(f"the next chunk takes {end - first} frames, found {len(chunk.feats)}")

    def _compute(self, chunks: Sequence[Chunk]) -> list[np.ndarray | NumericError]:
        """Return the results of :meth:`compute_chunks`; only one thread at a time calls it."""
        outputs: dict[int, np.ndarray | NumericError] = {}
        groups: dict[int, list[int]] = {}
        for i, chunk in enumerate(chunks):
            groups.setdefault(self._carried.number_of(chunk.state.num_chunks), []).append(i)
        for number, group in groups.items():
            for begin in range(0, len(group), self.max_batch):
                part = group[begin:begin + self.max_batch]
                for i, rows in zip(part, self._run(number, [chunks[i] for i in part]), strict=True):
                    outputs[i] = self._finished(rows)
        return [outputs[i] for i in range(len(chunks))]

    def _run(self, number: int, chunks: Sequence[Chunk]) -> list[np.ndarray]:
        """Return the network's output for each chunk, float32 (rows, output dim)."""
        self._ops.random.begin_minibatch(0, self._num_batches)
        self._num_batches += 1
        inputs = {"input": [chunk.feats for chunk in chunks]}
        if self.io.ivector_dim:
            inputs["ivector"] = [self._no_ivector if chunk.ivector is None else chunk.ivector for chunk in chunks]
        size = min(next(size for size in BATCH_SIZES if size >= len(chunks)), self.max_batch)
        results = [chunk.result or chunk.state for chunk in chunks]
        output = self._batch(size).run(number, [chunk.state.slot for chunk in chunks], inputs,
                                       [result.slot for result in results])
        for chunk, result in zip(chunks, results, strict=True):
            result.num_chunks = chunk.state.num_chunks + 1
        return output

    def _finished(self, rows: np.ndarray) -> np.ndarray | NumericError:
        try:
            return self.io.finish(rows)
        except NumericError as error:
            return error

    def warm_up(self) -> None:
        """Compile and bind for all numbers of streams up to ``max_batch`` now, instead of at the first use of each."""
        first, end = self.frames_of_chunk(0)
        frames = np.zeros((end - first, self.io.input_dim), np.float32)
        for size in {min(size, self.max_batch) for size in BATCH_SIZES}:
            self.compute_chunks([Chunk(self.new_state(), frames) for _ in range(size)])

    def compute(self, feats: np.ndarray, ivector: np.ndarray | None = None, online_ivectors: np.ndarray | None = None,
                online_ivector_period: int = 0) -> NDArray[np.float32]:
        """Compute the output of a whole utterance, chunk by chunk.

        Parameters
        ----------
        feats : float (frames, input dim)
        ivector : float (ivector dim,), the same for the whole utterance
        online_ivectors : float (count, ivector dim), one every ``online_ivector_period`` frames; each chunk uses that
            of the frame after its last input frame, or the last one

        Returns
        -------
        float32 (ceil(frames / frame_subsampling_factor), output dim)

        Raises
        ------
        ShapeError, NumericError : as :meth:`LoopedStream.accept`
        """
        self.io.check_ivectors(ivector, online_ivectors, online_ivector_period)
        if self._stream is None:
            self._stream = self.stream()
        stream = self._stream
        stream.restart()
        if online_ivectors is not None:
            count = len(online_ivectors)
            stream._ivector_at = lambda t: (online_ivectors[min(t // online_ivector_period, count - 1)] if count
                                            else None)
        return np.concatenate((stream.accept(feats, ivector), stream.finish()))


class LoopedStream(Advising):
    """A stream of frames through a :class:`LoopedComputer`: accept frames as they arrive, return output when ready.

    >>> stream = nnet3py.LoopedComputer(nnet).stream()
    >>> rows = [stream.accept(feats[:35]), stream.accept(feats[35:]), stream.finish()]

    ``accept`` and ``finish`` compute. To compute several streams together, call ``take`` and ``end`` instead, pass each
    stream's ``pending_chunk`` to :meth:`LoopedComputer.compute_chunks`, and the result to its ``accept_output``.

    Parameters
    ----------
    looped : the computer, which streams share

    Attributes
    ----------
    num_frames : the number of frames accepted so far
    """

    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{
        "push feed forward step compute write accept_waveform": "stream.accept(feats)",
        "flush close": "stream.finish()", "reset": "stream.restart()"})

    def __init__(self, looped: LoopedComputer) -> None:
        self._looped = looped
        self._state = looped.new_state()
        self._waiting = FrameBuffer(looped.io.input_dim)    # frames that no chunk has taken yet
        self.restart()

    def __repr__(self) -> str:
        ended = ", ended" if self._is_finished else ""
        return f"<LoopedStream: {self.num_frames} frames, {self.num_outputs} rows of output{ended}>"

    def restart(self) -> None:
        """Discard all frames and the state, to begin another utterance."""
        self._state.restart()
        self._waiting.forget(self._waiting.end)
        self._last = np.zeros((0, self._looped.io.input_dim), np.float32)
        self._ivector: np.ndarray | None = None
        self._ivector_at: Callable[[int], np.ndarray | None] | None = None      # by the frame after a chunk's end
        self.num_frames = 0
        self._is_finished = False

    @property
    def num_outputs(self) -> int:
        """The number of rows of output so far."""
        every = self._looped.frame_subsampling_factor
        ready = self._state.num_chunks * (self._looped.frames_per_chunk // every)
        return min(ready, -(-self.num_frames // every)) if self._is_finished else ready

    def __call__(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> NDArray[np.float32]:
        """Accept more frames, see :meth:`accept`: float (frames, dim) -> float32 (rows, output dim)."""
        return self.accept(feats, ivector)

    def accept(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> NDArray[np.float32]:
        """Accept more frames; returns the output that has become ready.

        Parameters
        ----------
        feats : float (frames, input dim), any number of frames
        ivector : float (ivector dim,), for the following chunks; None: that of the last call, or zero at first

        Returns
        -------
        float32 (rows, output dim), a whole number of chunks, often none

        Raises
        ------
        ShapeError : another dimension than the network's
        NumericError : NaN or infinity in the input, or NaN in the network's output
        Nnet3Error : the stream is finished
        """
        self.take(feats, ivector)
        return self._computed()

    def finish(self) -> NDArray[np.float32]:
        """End the stream; returns the rest of the output, float32 (rows, output dim).

        Frames after the last one are copies of it. In all there is one row for every frame, or for every
        ``frame_subsampling_factor`` frames.
        """
        self.end()
        return self._computed()

    def take(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> None:
        """Accept more frames, without computing.

        ``feats`` float (frames, input dim), ``ivector`` float (ivector dim,) or None; errors as for :meth:`accept`.
        """
        if self._is_finished:
            raise Nnet3Error("the stream is finished and takes no more frames", "restart() it, or begin another one")
        feats = np.asarray(feats)
        self._looped.io.check_features(feats)
        if ivector is not None:
            ivector = np.asarray(ivector)
            self._looped.io.check_ivectors(ivector, None, 0)
            self._ivector = ivector
        if len(feats):
            if not self.num_frames:
                self._append_copies(feats[:1], self._looped.left_context)
            self.num_frames += len(feats)
            self._last = np.array(feats[-1:], np.float32)
            self._waiting.append(feats)

    def end(self) -> None:
        """End the stream, without computing."""
        if self._is_finished:
            return
        num_chunks = self._state.num_chunks
        while self._looped.frames_of_chunk(num_chunks)[1] <= self.num_frames:      # chunks that wait to be computed
            num_chunks += 1
        self._is_finished = True
        per_chunk = self._looped.frames_per_chunk // self._looped.frame_subsampling_factor
        num_chunks = max(num_chunks, -(-self._num_rows // per_chunk))
        if num_chunks:
            self._append_copies(self._last, self._looped.frames_of_chunk(num_chunks - 1)[1] - self.num_frames)

    def _append_copies(self, frame: np.ndarray, count: int) -> None:
        """Append ``count`` copies of a frame (1, input dim)."""
        self._waiting.append(np.broadcast_to(frame, (count, frame.shape[1])))

    def pending_chunk(self) -> Chunk | None:
        """Return the next chunk, None if its frames have not arrived; its frames are valid until more are accepted."""
        first, end = self._looped.frames_of_chunk(self._state.num_chunks)
        waiting, count = self._waiting, end - first
        if waiting.end - waiting.first < count or (self._is_finished and self.num_outputs >= self._num_rows):
            return None
        ivector = self._ivector if self._ivector_at is None else self._ivector_at(end)
        return Chunk(self._state, waiting.between(waiting.first, waiting.first + count), ivector)

    def accept_output(self, chunk: Chunk, output: np.ndarray | NumericError) -> np.ndarray:
        """Accept the result for the pending chunk; returns the rows of it that belong to the stream's output.

        Both are float32 (rows, output dim). If ``output`` is a NumericError, it is raised.
        """
        self._waiting.forget(self._waiting.first + len(chunk.feats))
        if isinstance(output, NumericError):
            raise output
        if not self._is_finished:
            return output
        before = (self._state.num_chunks - 1) * len(output)
        return output[:max(self._num_rows - before, 0)]

    @property
    def _num_rows(self) -> int:
        """The number of output rows for all frames accepted so far."""
        return -(-self.num_frames // self._looped.frame_subsampling_factor)

    def compute_chunk(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> np.ndarray:
        """Return all output of the next chunk, float32 (rows, output dim), for callers that cut streams themselves.

        ``feats`` is float (frames, input dim): for the first chunk with left and right context, for later chunks the
        frames that follow. ``ivector`` and errors as :meth:`accept`.
        """
        if self._looped.io.ivector_dim and ivector is None:        # a given i-vector is checked with the features
            self._looped.io.check_ivectors(None, None, 0)
        output, = self._looped.compute_chunks([Chunk(self._state, feats, ivector)])
        if isinstance(output, NumericError):
            raise output
        return output

    def _computed(self) -> np.ndarray:
        """Compute all chunks whose frames have arrived; returns their output, joined."""
        outputs = [np.zeros((0, self._looped.io.output_dim), np.float32)]
        while (chunk := self.pending_chunk()) is not None:
            outputs.append(self.accept_output(chunk, self._looped.compute_chunks([chunk])[0]))
        return np.concatenate(outputs)
