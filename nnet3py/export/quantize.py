"""ONNX files with smaller numbers, made by onnxruntime's own tools, and the loss of accuracy."""
from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.export.onnx_file import session, utterance_output, weights_beside, write_model
from nnet3py.export.onnx_graph import import_onnx
from nnet3py.extras import install_command

KINDS = ("int8", "float16")


class Loss(NamedTuple):
    """How far outputs are from those of float32.

    Attributes
    ----------
    relative : the root mean square of the difference, relative to the standard deviation of the outputs
    largest : the largest difference
    same_best : the share of the rows whose largest column is the same
    bytes_before, bytes_after : sizes of the files
    """

    relative: float
    largest: float
    same_best: float
    bytes_before: int
    bytes_after: int

    def text(self) -> str:
        """For a log line."""
        return (f"rms difference {100 * self.relative:.2f} % of the outputs' standard deviation, largest "
                f"{self.largest:.3g}, same best column in {100 * self.same_best:.1f} % of the rows; "
                f"{self.bytes_before} bytes became {self.bytes_after}")


def quantize(path: str | os.PathLike[str], target: str | os.PathLike[str], kind: str,
             inputs: Sequence[dict[str, np.ndarray]], calibrate: bool = False) -> Loss:
    """Write an ONNX file with weights in ``int8``, or all numbers in ``float16``.

    Inputs, outputs and the states of streams stay float32. With int8, so do the weights inside a recurrence's loop,
    which onnxruntime's tools do not look into.

    Parameters
    ----------
    path, target : the float32 file, and the one that is written
    inputs : utterances on which the loss is measured: name of an input -> float32 (1, frames, dim) or (1, dim);
        without context frames, even for models that take them, and for streams
    calibrate : with int8, fix the ranges of all values as found on ``inputs``; else they are found at run time

    Raises
    ------
    Nnet3Error : onnxruntime is not installed, or its tools fail
    """
    if kind not in KINDS:
        raise UsageError(f"--quantize={kind}: expected one of {', '.join(KINDS)}")
    path = os.fspath(path)
    with tempfile.TemporaryDirectory() as folder, _quiet():
        quantized = os.path.join(folder, "quantized.onnx")
        try:
            _convert(path, quantized, kind, inputs if calibrate else [])
        except ImportError as error:
            raise Nnet3Error(f"quantizing needs onnxruntime's tools ({error})", install_command("onnx")) from error
        except Exception as error:
            raise Nnet3Error(f"onnxruntime cannot quantize the model: {error}") from error
        loss = _loss(path, quantized, inputs)
        replaced = weights_beside(path) if os.path.abspath(path) == os.path.abspath(target) else []
        write_model(import_onnx().load(quantized), target)
        for file in set(replaced) - set(weights_beside(os.fspath(target)) if replaced else []):
            os.remove(file)
    return loss


def _convert(path: str, quantized_path: str, kind: str, calibration: Sequence[dict[str, np.ndarray]]) -> None:
    is_large = bool(weights_beside(path))
    if kind == "float16":
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx = import_onnx()
        half = convert_float_to_float16(onnx.load(path), keep_io_types=True)
        given = {each.name for each in half.graph.input}
        # the tool appends the casts of inputs, and operators must come after what they read
        in_order = sorted(half.graph.node, key=lambda node: not (node.op_type == "Cast" and node.input[0] in given))
        del half.graph.node[:]
        half.graph.node.extend(in_order)
        onnx.save_model(half, quantized_path, save_as_external_data=is_large)
        return
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static

    if not calibration:
        quantize_dynamic(path, quantized_path, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"],
                         use_external_data_format=is_large)
        return

    class Reader(CalibrationDataReader):       # type: ignore[misc]
        """Returns one utterance, or one chunk of it, after the other."""

        def __init__(self) -> None:
            self._left = iter(_given_to(session(path), calibration))

        def get_next(self) -> dict[str, np.ndarray] | None:
            """The next, or None."""
            return next(self._left, None)

    quantize_static(path, quantized_path, Reader(), weight_type=QuantType.QInt8, per_channel=True,
                    op_types_to_quantize=["MatMul"], use_external_data_format=is_large)


def _loss(path: str, quantized_path: str, inputs: Sequence[dict[str, np.ndarray]]) -> Loss:
    exact, quantized = session(path), session(quantized_path)
    first, second = ([_output(each, given) for given in inputs] for each in (exact, quantized))
    a, b = np.concatenate(first), np.concatenate(second)
    return Loss(float(np.sqrt(((a - b) ** 2).mean()) / max(float(a.std()), 1e-30)), float(np.abs(a - b).max()),
                float((a.argmax(axis=1) == b.argmax(axis=1)).mean()), _bytes(path), _bytes(quantized_path))


def _bytes(path: str) -> int:
    """The size of a file together with those of its weights."""
    return sum(map(os.path.getsize, [path, *weights_beside(path)]))


def _output(running: Any, given: dict[str, np.ndarray]) -> np.ndarray:
    """The first output, (rows, columns)."""
    return np.asarray(utterance_output(running, given)[0], np.float64)


class _Recorder:
    """A session that records what it is given."""

    def __init__(self, running: Any) -> None:
        self._running = running
        self.given: list[dict[str, np.ndarray]] = []

    def run(self, outputs: Any, given: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The session's outputs."""
        self.given.append(given)
        return list(self._running.run(outputs, given))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._running, name)


def _given_to(running: Any, inputs: Sequence[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """The inputs of a model when it runs through utterances: chunks with their states, if it is for streams."""
    recorder = _Recorder(running)
    for given in inputs:
        utterance_output(recorder, given)
    return recorder.given


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the tools, which log unsuitable advice on the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def utterances_for(running_inputs: Sequence[Any], feats: Sequence[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The ``inputs`` of :func:`quantize`, from features (frames, dim); i-vectors are zero.

    Parameters
    ----------
    running_inputs : the inputs of an onnxruntime session
    """
    zeros = {each.name: np.zeros((1, each.shape[-1]), np.float32) for each in running_inputs if each.name == "ivector"}
    return [{"input": np.asarray(utterance, np.float32)[None], **zeros} for utterance in feats]
