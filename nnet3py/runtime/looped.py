"""Computing a network's output over a stream of frames, a chunk at a time, as they arrive.

What later chunks need of earlier ones is kept, so no frame is computed twice, a recurrence goes on where it was, and
memory does not grow. Kaldi: ``DecodableNnetSimpleLooped``, ``DecodableNnetLoopedOnline``.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnet3py.compiler.context import compute_simple_nnet_context
from nnet3py.compiler.looped import compile_looped, looped_chunk_size, looped_requests, with_ivector_period
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.inference import for_inference
from nnet3py.network.model_file import subsampling_beside
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer
from nnet3py.runtime.network_io import NetworkIo

DEFAULT_FRAMES_PER_CHUNK = 20


class LoopedComputer:
    """A network compiled for streams. Compiles once; each stream has its own state.

    Parameters
    ----------
    nnet : a simple network; it stays as it is, a copy is put in test mode
        (:func:`nnet3py.network.inference.for_inference`)
    frames_per_chunk : frames of input after which there is output; rounded up to what the network can repeat
    extra_left_context_initial : copies of the first frame that a stream begins with, beyond the network's context
    frame_subsampling_factor : frames of input for each row of output; None: what the file of that name in the folder
        that the network was read from says, else 1
    acoustic_scale : what outputs are multiplied with
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    optimize : what the optimiser may do
    device : "cpu" or "cuda"
    debug : log every command as it runs
    training_mode : compute with ``nnet`` itself, with batch norm and dropout as they are set

    Attributes
    ----------
    frames_per_chunk : as it was rounded
    left_context, right_context : frames of input before the first output of a stream, and after a chunk's last frame

    Raises
    ------
    UsageError : a number that makes no sense
    Nnet3Error : the network is not simple, or its chunks never become alike
    """

    def __init__(self, nnet: Nnet, frames_per_chunk: int = DEFAULT_FRAMES_PER_CHUNK, *,
                 extra_left_context_initial: int = 0, frame_subsampling_factor: int | None = None,
                 acoustic_scale: float = 1.0, priors: np.ndarray | None = None,
                 optimize: OptimizeOptions | None = None, device: str = "cpu", debug: bool = False,
                 training_mode: bool = False) -> None:
        if extra_left_context_initial < 0:
            raise UsageError(f"--extra-left-context-initial={extra_left_context_initial} must be 0 or more")
        if frame_subsampling_factor is None:
            frame_subsampling_factor = subsampling_beside(nnet.path)
        nnet = for_inference(nnet, training_mode)
        left, self.right_context = compute_simple_nnet_context(nnet)
        self.left_context = left + extra_left_context_initial
        self.frame_subsampling_factor = frame_subsampling_factor
        self.frames_per_chunk = looped_chunk_size(nnet, frames_per_chunk, frame_subsampling_factor)
        self.io = NetworkIo(nnet, priors, acoustic_scale)
        self.nnet = with_ivector_period(nnet, self.frames_per_chunk) if self.io.ivector_dim else nnet
        requests = looped_requests(self.nnet, self.frames_per_chunk, self.left_context, self.right_context,
                                   frame_subsampling_factor)
        self.computation = compile_looped(self.nnet, requests, optimize)
        self.device, self.debug = device, debug
        self._stream: LoopedStream | None = None

    def stream(self) -> LoopedStream:
        """A new stream, at its start."""
        return LoopedStream(self)

    def compute(self, feats: np.ndarray, ivector: np.ndarray | None = None, online_ivectors: np.ndarray | None = None,
                online_ivector_period: int = 0) -> np.ndarray:
        """Output of one whole utterance, by the same chunks.

        Parameters
        ----------
        feats : float (frames, input dim)
        ivector : float (ivector dim,), the same for the whole utterance
        online_ivectors : float (count, ivector dim), one every ``online_ivector_period`` frames; each chunk takes the
            one of the frame after its last input, or the last there is

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


class LoopedStream:
    """One stream of frames through a :class:`LoopedComputer`: accept frames as they come, get output as it is ready."""

    def __init__(self, looped: LoopedComputer) -> None:
        self._looped = looped
        self._computer = Computer(looped.computation, looped.nnet, device=looped.device, debug=looped.debug)
        self.restart()

    def restart(self) -> None:
        """Forget everything, to begin another utterance."""
        self._computer.restart()
        self._waiting = np.zeros((0, self._looped.io.input_dim), np.float32)    # frames that no chunk has taken yet
        self._last = self._waiting
        self._ivector: np.ndarray | None = None
        self._ivector_at: Callable[[int], np.ndarray | None] = lambda t: self._ivector
        self._num_chunks = 0
        self.num_frames = 0
        self._is_finished = False

    @property
    def num_outputs(self) -> int:
        """How many rows of output there have been."""
        every = self._looped.frame_subsampling_factor
        ready = self._num_chunks * (self._looped.frames_per_chunk // every)
        return min(ready, -(-self.num_frames // every)) if self._is_finished else ready

    def accept(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> np.ndarray:
        """Take more frames; returns the output that is ready now and was not before.

        Parameters
        ----------
        feats : float (frames, input dim), any number of frames
        ivector : float (ivector dim,), for the chunks from now on; None: the last one, or zero if there was none

        Returns
        -------
        float32 (rows, output dim), a whole number of chunks, often none

        Raises
        ------
        ShapeError : another dimension than the network asks for
        NumericError : NaN or infinity in what is given, or NaN in what the network makes of it
        Nnet3Error : the stream is finished
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
                feats = np.concatenate((np.repeat(feats[:1], self._looped.left_context, axis=0), feats))
                self.num_frames -= self._looped.left_context
            self.num_frames += len(feats)
            self._last = feats[-1:]
            self._waiting = np.concatenate((self._waiting, feats))
        return self._looped.io.finish(self._run_chunks())

    def finish(self) -> np.ndarray:
        """There are no more frames; returns the rest of the output, float32 (rows, output dim).

        Frames after the last one are copies of it. In all there is one row for every frame, or for every
        ``frame_subsampling_factor`` frames.
        """
        if self._is_finished:
            return np.zeros((0, self._looped.io.output_dim), np.float32)
        before = self.num_outputs
        missing = -(-self.num_frames // self._looped.frame_subsampling_factor) - before
        self._is_finished = True
        if missing <= 0:
            return np.zeros((0, self._looped.io.output_dim), np.float32)
        chunk = self._looped.frames_per_chunk
        num_chunks = -(-missing // (chunk // self._looped.frame_subsampling_factor))
        padding = self._next_size() + (num_chunks - 1) * chunk - len(self._waiting)
        self._waiting = np.concatenate((self._waiting, np.repeat(self._last, padding, axis=0)))
        return self._looped.io.finish(self._run_chunks()[:missing])

    def _next_size(self) -> int:
        """How many frames the next chunk takes."""
        looped = self._looped
        return looped.frames_per_chunk + (0 if self._num_chunks else looped.left_context + looped.right_context)

    def _run_chunks(self) -> np.ndarray:
        """The output of all chunks whose frames are there."""
        outputs, at = [np.zeros((0, self._looped.io.output_dim), np.float32)], 0
        while len(self._waiting) - at >= self._next_size():
            size = self._next_size()
            outputs.append(self._run(self._waiting[at:at + size]))
            at += size
        self._waiting = self._waiting[at:].copy()
        return np.concatenate(outputs)

    def _run(self, feats: np.ndarray) -> np.ndarray:
        looped, computer = self._looped, self._computer
        computer.accept_input("input", feats)
        self._num_chunks += 1
        if looped.io.ivector_dim:
            ivector = self._ivector_at(self._num_chunks * looped.frames_per_chunk + looped.right_context)
            rows = len(computer.input_view("ivector"))
            given = np.zeros(looped.io.ivector_dim, np.float32) if ivector is None else ivector
            computer.accept_input("ivector", np.repeat(given[None], rows, axis=0))
        computer.run()
        return computer.output("output")
