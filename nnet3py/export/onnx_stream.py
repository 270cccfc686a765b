"""Running an ONNX file that was exported for streams: chunk after chunk, with its states."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

CHUNK_OUTPUTS = 7        # rows of output for each run by default


class OnnxStream:
    """One stream, or several side by side, through a model exported with ``streaming``.

    Frames before the first are copies of it, and :meth:`finish` makes copies of the last: like nnet3py.LoopedComputer.

    Parameters
    ----------
    session : of onnxruntime
    chunk_outputs : rows of output for each run of the model, rounded up to the network's modulus; a model with fixed
        chunks has a number of its own
    """

    def __init__(self, session: Any, chunk_outputs: int = CHUNK_OUTPUTS) -> None:
        metadata = session.get_modelmeta().custom_metadata_map
        self._is_fixed = metadata.get("fixed_chunks") == "1"
        self._discarded = int(metadata.get("discarded_outputs", 0))    # rows of output that are still to be thrown away
        self._session = session
        self._left, self._right, self._factor = (int(metadata[key]) for key in (
            "left_context", "right_context", "frame_subsampling_factor"))
        unit = math.lcm(int(metadata["modulus"]), self._factor) // self._factor
        self._chunk_outputs = chunk_outputs + -chunk_outputs % unit
        if self._is_fixed:
            self._chunk_outputs = int(metadata["chunk_shift"]) // self._factor
        self._names = metadata["state_names"].split(",")
        frames, dims = (list(map(int, metadata[key].split(","))) for key in ("state_frames", "state_dims"))
        self._starts = list(zip(frames, dims, strict=True))
        self._outputs = [each.name for each in session.get_outputs()]
        self._waiting: np.ndarray | None = None
        self._states: list[np.ndarray] | None = None
        self._last = np.zeros((0, 0, 0), np.float32)
        self._num_frames = self._num_outputs = 0

    def accept(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> np.ndarray:
        """Take frames, float32 (N, frames, dim), and an i-vector (N, dim); returns the output that is ready."""
        if self._waiting is None and feats.shape[1]:
            self._waiting = np.repeat(feats[:, :1], self._left, axis=1)
        if self._waiting is not None:
            self._waiting = np.concatenate((self._waiting, feats), axis=1)
        if feats.shape[1]:
            self._last = feats[:, -1:]
        self._num_frames += feats.shape[1]
        return self._run_chunks(ivector)

    def finish(self, ivector: np.ndarray | None = None) -> np.ndarray:
        """End the stream; returns the rest of the output."""
        missing = -(-self._num_frames // self._factor) - self._num_outputs
        if self._waiting is None or missing <= 0:
            return np.zeros((0, 0, 0), np.float32)
        chunks = -(-(missing + self._discarded) // self._chunk_outputs)
        padding = self._next_size() + (chunks - 1) * self._shift - self._waiting.shape[1]
        self._waiting = np.concatenate((self._waiting, np.repeat(self._last, padding, axis=1)), axis=1)
        return self._run_chunks(ivector)[:, :missing]

    @property
    def _shift(self) -> int:
        return self._chunk_outputs * self._factor

    def _next_size(self) -> int:
        """Frames of the next chunk."""
        if self._states or self._is_fixed:
            return self._shift
        return self._left + self._right + self._shift - self._factor + 1

    def _run_chunks(self, ivector: np.ndarray | None) -> np.ndarray:
        outputs = []
        while self._waiting is not None and self._waiting.shape[1] >= self._next_size():
            size = self._next_size()
            output = self._run(self._waiting[:, :size], ivector)[:, self._discarded:]
            self._discarded = max(self._discarded - self._chunk_outputs, 0)
            self._waiting = self._waiting[:, size:]
            self._num_outputs += output.shape[1]
            outputs.append(output)
        return np.concatenate(outputs, axis=1) if outputs else np.zeros((0, 0, 0), np.float32)

    def _run(self, feats: np.ndarray, ivector: np.ndarray | None) -> np.ndarray:
        states = self._states or [np.zeros((len(feats), frames, dim), np.float32) for frames, dim in self._starts]
        given = {"input": feats, **dict(zip(self._names, states, strict=True))}
        if ivector is not None:
            given["ivector"] = ivector
        output, *rest = self._session.run(None, given)
        self._states = rest[len(rest) - len(states):]
        return np.asarray(output)
