"""ONNX files in onnxruntime: sessions, whole utterances, and streams, chunk by chunk with their states."""
from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.extras import load


class OnnxSession(Protocol):
    """Methods of ``onnxruntime.InferenceSession`` that this module calls."""

    def get_modelmeta(self) -> Any: ...
    def get_inputs(self) -> Sequence[Any]: ...
    def run(self, output_names: Sequence[str] | None, input_feed: dict[str, np.ndarray], /) -> Sequence[Any]: ...


def session(path_or_bytes: str | bytes, threads: int = 1) -> Any:
    """Open an onnxruntime session on the CPU. Raises Nnet3Error if it is not installed, or cannot read the file."""
    onnxruntime = load("onnxruntime", "running ONNX files needs", "onnx")
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = threads, 3
    try:
        return onnxruntime.InferenceSession(path_or_bytes, settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise Nnet3Error(f"onnxruntime cannot load the model: {error}") from error


# -- streams -----------------------------------------------------------------------------------------------------------

CHUNK_OUTPUTS = 7        # default rows of output of each run


class OnnxStream:
    """Stream, or several side by side, through a model exported with ``streaming``.

    Frames before the first are copies of the first, those after :meth:`finish` copies of the last. Outputs equal those
    of :class:`nnet3py.LoopedComputer`.

    >>> nnet3py.export_onnx(nnet, "stream.onnx", streaming=True)
    >>> stream = nnet3py.OnnxStream("stream.onnx")
    >>> rows = [stream.accept(feats[:35]), stream.accept(feats[35:]), stream.finish()]

    Parameters
    ----------
    model : the file, or an ``onnxruntime.InferenceSession`` of it, which several streams may share
    chunk_outputs : rows of output for each run of the model, rounded up to the network's modulus; ignored for a model
        with fixed chunks

    Raises
    ------
    UsageError : a model that was not exported with ``streaming``
    Nnet3Error : a file that cannot be read, or onnxruntime is not installed
    """

    def __init__(self, model: str | os.PathLike[str] | OnnxSession, chunk_outputs: int = CHUNK_OUTPUTS) -> None:
        running: OnnxSession = session(os.fspath(model)) if isinstance(model, str | os.PathLike) else model
        metadata = running.get_modelmeta().custom_metadata_map
        if metadata.get("streaming") != "1":
            raise UsageError("the model takes whole utterances, it was not exported for streams",
                             "export it with streaming=True; or run it by onnxruntime.InferenceSession")
        self._is_fixed = metadata.get("fixed_chunks") == "1"
        self._discarded = int(metadata.get("discarded_outputs", 0))    # rows of output still to be discarded
        self._session = running
        self._left, self._right, self._factor = (int(metadata[key]) for key in (
            "left_context", "right_context", "frame_subsampling_factor"))
        unit = math.lcm(int(metadata["modulus"]), self._factor) // self._factor
        self._chunk_outputs = chunk_outputs + -chunk_outputs % unit
        if self._is_fixed:
            self._chunk_outputs = int(metadata["chunk_shift"]) // self._factor
        self._input_dim, self._output_dim = int(metadata["input_dim"]), int(metadata["output_dim"])
        self._names = metadata["state_names"].split(",") if "state_names" in metadata else []
        frames, dims = ([int(number) for number in metadata.get(key, "").split(",") if number]
                        for key in ("state_frames", "state_dims"))
        self._starts = list(zip(frames, dims, strict=True))
        self._waiting: np.ndarray | None = None
        self._is_single = False                           # whether the caller's arrays lack the axis of sequences
        self._states: list[np.ndarray] | None = None
        self._last = np.zeros((0, 0, 0), np.float32)
        self._num_frames = self._num_outputs = 0
        self._is_finished = False

    def __repr__(self) -> str:
        ended = ", ended" if self._is_finished else ""
        return f"<OnnxStream: {self._num_frames} frames, {self._num_outputs} rows of output{ended}>"

    def accept(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> NDArray[np.float32]:
        """Accept frames; return the output that has become ready.

        Parameters
        ----------
        feats : float (frames, input dim) of one stream, or (N, frames, input dim) of N side by side; any number of
            frames
        ivector : float (ivector dim,), or (N, ivector dim), for the chunks that these frames complete

        Returns
        -------
        float32 (rows, output dim), or (N, rows, output dim); often without rows

        Raises
        ------
        ShapeError : other dimensions than the model's, or another number of streams than before
        Nnet3Error : the stream is finished
        """
        if self._is_finished:
            raise Nnet3Error("the stream is finished and takes no more frames", "begin another one")
        feats = np.asarray(feats, dtype=np.float32)
        if self._waiting is None:
            self._is_single = feats.ndim == 2
        if self._is_single and feats.ndim == 2:
            feats = feats[None]
        if feats.ndim != 3 or feats.shape[2] != self._input_dim or len(feats) != len(
                feats if self._waiting is None else self._waiting):
            streams = "N" if self._waiting is None else str(len(self._waiting))
            single = f"(frames, {self._input_dim}) or " if self._waiting is None or self._is_single else ""
            raise ShapeError(f"expected features {single}({streams}, frames, {self._input_dim}) of {streams} streams, "
                             f"found an array of shape {feats.shape}")
        if self._waiting is None or not self._num_frames:
            self._waiting = np.repeat(feats[:, :1], self._left, axis=1)
        self._waiting = np.concatenate((self._waiting, feats), axis=1)
        if feats.shape[1]:
            self._last = feats[:, -1:]
        self._num_frames += feats.shape[1]
        return self._run_chunks(ivector)

    def finish(self, ivector: np.ndarray | None = None) -> NDArray[np.float32]:
        """End the stream; return the rest of the output, float32 (rows, output dim) or (N, rows, output dim).

        In total there is one row for each frame, or for every ``frame_subsampling_factor`` frames. ``ivector`` is float
        (ivector dim,), as for :meth:`accept`.
        """
        self._is_finished = True
        missing = -(-self._num_frames // self._factor) - self._num_outputs
        if self._waiting is None or missing <= 0:
            return self._given_back([])
        chunks = -(-(missing + self._discarded) // self._chunk_outputs)
        padding = self._next_size() + (chunks - 1) * self._shift - self._waiting.shape[1]
        self._waiting = np.concatenate((self._waiting, np.repeat(self._last, padding, axis=1)), axis=1)
        return self._run_chunks(ivector)[..., :missing, :]

    @property
    def _shift(self) -> int:
        return self._chunk_outputs * self._factor

    def _next_size(self) -> int:
        """Return the number of frames of the next chunk."""
        if self._states is not None or self._is_fixed:
            return self._shift
        return self._left + self._right + self._shift - self._factor + 1

    def _run_chunks(self, ivector: np.ndarray | None) -> NDArray[np.float32]:
        outputs = []
        while self._waiting is not None and self._waiting.shape[1] >= self._next_size():
            size = self._next_size()
            output = self._run(self._waiting[:, :size], ivector)[:, self._discarded:]
            self._discarded = max(self._discarded - self._chunk_outputs, 0)
            self._waiting = self._waiting[:, size:]
            self._num_outputs += output.shape[1]
            outputs.append(output)
        return self._given_back(outputs)

    def _given_back(self, outputs: list[np.ndarray]) -> NDArray[np.float32]:
        """Concatenate the outputs of chunks, with an axis of sequences only if the caller's features have one."""
        num_streams = 1 if self._is_single else 0 if self._waiting is None else len(self._waiting)
        rows = np.concatenate([np.zeros((num_streams, 0, self._output_dim), np.float32), *outputs], axis=1)
        return rows[0] if self._is_single else rows

    def _run(self, feats: np.ndarray, ivector: np.ndarray | None) -> np.ndarray:
        states = self._states
        if states is None:
            states = [np.zeros((len(feats), frames, dim), np.float32) for frames, dim in self._starts]
        given = {"input": feats, **dict(zip(self._names, states, strict=True))}
        if ivector is not None:
            given["ivector"] = np.asarray(ivector, dtype=np.float32).reshape(len(feats), -1)
        output, *rest = self._session.run(None, given)
        self._states = rest[len(rest) - len(states):]
        return np.asarray(output)


# -- whole utterances --------------------------------------------------------------------------------------------------


def run(running: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of a session, float32 (N, frames, dim); inputs, float32, are in the model's order."""
    names = [given.name for given in running.get_inputs()]
    return list(running.run(None, dict(zip(names, inputs, strict=True))))


def utterance_output(running: Any, given: dict[str, np.ndarray], chunk_outputs: int = CHUNK_OUTPUTS) -> np.ndarray:
    """Return the first output of a session for whole utterances, float32 (N, rows, dim), also of a model for streams.

    Parameters
    ----------
    given : inputs by name, float32 (N, frames, dim) or (N, dim), without context frames and states
    chunk_outputs : rows of output of each chunk of a stream, if the model leaves them open
    """
    metadata = running.get_modelmeta().custom_metadata_map
    if metadata.get("streaming") == "1":
        stream = OnnxStream(running, chunk_outputs)
        rows = [stream.accept(given["input"], given.get("ivector")), stream.finish(given.get("ivector"))]
        return np.concatenate([each for each in rows if each.size], axis=1)
    if metadata.get("edges") == "given":
        context = int(metadata["left_context"]), int(metadata["right_context"])
        given = given | {"input": np.pad(given["input"], ((0, 0), context, (0, 0)), mode="edge")}
    return run(running, *[given[each.name] for each in running.get_inputs()])[0]
