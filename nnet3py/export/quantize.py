"""ONNX files with smaller numbers, and the loss of accuracy."""
from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.export.integer_weights import DTYPES, keep_as_integers
from nnet3py.export.onnx_file import session, utterance_output, weights_beside, write_model
from nnet3py.export.onnx_graph import import_onnx
from nnet3py.extras import install_command

KINDS = (*DTYPES, "float16")
RANDOM_FRAMES = 200

Utterance: TypeAlias = "np.ndarray | tuple[np.ndarray, np.ndarray | None]"     # features, perhaps with an i-vector


class Loss(NamedTuple):
    """How far outputs are from those of float32.

    Attributes
    ----------
    relative : the root mean square of the difference, relative to the standard deviation of the outputs
    largest : the largest difference
    same_best : the share of the rows whose largest column is the same
    bytes_before, bytes_after : sizes of the files
    is_real : whether this was measured on what the model will be given, and not on random numbers
    """

    relative: float
    largest: float
    same_best: float
    bytes_before: int = 0
    bytes_after: int = 0
    is_real: bool = True

    def text(self) -> str:
        """For a log line."""
        on = "" if self.is_real else "on random numbers, which say little of real input: "
        return (f"{on}rms difference {100 * self.relative:.2f} % of the outputs' standard deviation, largest "
                f"{self.largest:.3g}, same best column in {100 * self.same_best:.1f} % of the rows; "
                f"{self.bytes_before} bytes became {self.bytes_after}")


def check_kind(kind: str) -> None:
    """Raise UsageError for a kind that there is not."""
    if kind not in KINDS:
        raise UsageError(f"--quantize={kind}: expected one of {', '.join(KINDS)}")


def quantize(path: str | os.PathLike[str], target: str | os.PathLike[str], kind: str = "int16",
             inputs: Utterance | Sequence[Utterance | dict[str, np.ndarray]] = ()) -> Loss:
    """Write an ONNX file with smaller numbers, and measure the loss of accuracy.

    Inputs, outputs and the states of streams stay float32.

    Parameters
    ----------
    path, target : the float32 file, and the one that is written
    kind : ``int16``, with which recognized words stay, or ``int8``, smaller: the file keeps weights as integers, and a
        runtime computes with them as float32 (:func:`nnet3py.export.integer_weights.keep_as_integers`);
        ``float16``: everything is computed in float16
    inputs : utterances on which the loss is measured: features, float (frames, dim), or a pair of these and an
        i-vector, float (dim,), or several of them; or all inputs by name, float32 (1, frames, dim) or (1, dim). Without
        context frames, even for models that take them, and for streams. None: random numbers, which say little

    Returns
    -------
    Loss : how far the outputs are from those of float32; ``print(loss.text())``

    Raises
    ------
    UsageError : another kind; a model with other inputs than features and i-vectors, if they are not given by name
    ShapeError : features of another dimension than the model's
    Nnet3Error : onnxruntime is not installed, or its tools fail
    """
    check_kind(kind)
    path, given = os.fspath(path), _several(inputs)
    by_name = [each for each in given if isinstance(each, dict)]
    plain = [each for each in given if not isinstance(each, dict)]
    if plain or not by_name:
        by_name += _inputs_of(path, kind, plain)
    return _quantized(path, target, kind, by_name, is_real=bool(given))


def _several(inputs: Utterance | Sequence[Utterance | dict[str, np.ndarray]]
             ) -> list[Utterance | dict[str, np.ndarray]]:
    """Utterances, of which there may be one alone: features, or these and an i-vector."""
    is_pair = isinstance(inputs, tuple) and len(inputs) == 2 and getattr(inputs[1], "ndim", 0) < 2
    return cast("list[Utterance | dict[str, np.ndarray]]",
                [inputs] if isinstance(inputs, np.ndarray) or is_pair else list(inputs))


def _inputs_of(path: str, kind: str, utterances: Sequence[Utterance]) -> list[dict[str, np.ndarray]]:
    """Utterances as inputs of a file, by name; random numbers if there are none."""
    running = session(path)
    inputs = running.get_inputs()
    dims = {each.name: each.shape[-1] for each in inputs}
    states = running.get_modelmeta().custom_metadata_map.get("state_names", "").split(",")
    if dims.keys() - {"ivector", *states} != {"input"}:
        raise UsageError(f"--quantize={kind}: the model's inputs are {', '.join(dims)}; the loss of accuracy is "
                         "measured with 'input' and, where there is one, 'ivector' alone")
    noise = np.random.default_rng(0).standard_normal((RANDOM_FRAMES, dims["input"])).astype(np.float32)
    return utterances_for(inputs, utterances or [noise])


def _quantized(path: str, target: str | os.PathLike[str], kind: str, inputs: Sequence[dict[str, np.ndarray]],
               is_real: bool) -> Loss:
    onnx = import_onnx()
    model = onnx.load(path)
    if kind == "float16":
        model = _in_float16(model)
    else:
        keep_as_integers(model, kind)
    with tempfile.TemporaryDirectory() as folder:
        quantized = os.path.join(folder, "quantized.onnx")
        write_model(model, quantized)
        loss = loss_of_rows(_outputs(path, inputs), _outputs(quantized, inputs))._replace(
            bytes_before=_bytes(path), bytes_after=_bytes(quantized), is_real=is_real)
        replaced = weights_beside(path) if os.path.abspath(path) == os.path.abspath(target) else []
        write_model(onnx.load(quantized), target)
        for file in set(replaced) - set(weights_beside(os.fspath(target)) if replaced else []):
            os.remove(file)
    return loss


def _in_float16(model: Any) -> Any:
    try:
        from onnxruntime.transformers.float16 import convert_float_to_float16

        with _quiet():
            half = convert_float_to_float16(model, keep_io_types=True)
    except ImportError as error:
        raise Nnet3Error(f"quantizing needs onnxruntime's tools ({error})", install_command("onnx")) from error
    except Exception as error:
        raise Nnet3Error(f"onnxruntime cannot quantize the model: {error}") from error
    given = {each.name for each in half.graph.input}
    # the tool appends the casts of inputs, and operators must come after what they read
    in_order = sorted(half.graph.node, key=lambda node: not (node.op_type == "Cast" and node.input[0] in given))
    del half.graph.node[:]
    half.graph.node.extend(in_order)
    return half


def loss_of_rows(a: np.ndarray, b: np.ndarray) -> Loss:
    """How far the outputs ``b``, (rows, columns), are from ``a``."""
    return Loss(float(np.sqrt(((a - b) ** 2).mean()) / max(float(a.std()), 1e-30)), float(np.abs(a - b).max()),
                float((a.argmax(axis=1) == b.argmax(axis=1)).mean()))


def _bytes(path: str) -> int:
    """The size of a file together with those of its weights."""
    return sum(map(os.path.getsize, [path, *weights_beside(path)]))


def _outputs(path: str, inputs: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
    """The first output of a file for utterances, one after the other: (rows, columns)."""
    running = session(path)
    return np.concatenate([np.asarray(utterance_output(running, given)[0], np.float64) for given in inputs])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the tools, which log unsuitable advice on the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def utterances_for(running_inputs: Sequence[Any], utterances: Sequence[Utterance]) -> list[dict[str, np.ndarray]]:
    """The ``inputs`` of :func:`quantize`.

    Parameters
    ----------
    running_inputs : the inputs of an onnxruntime session
    utterances : features (frames, dim), or pairs of these and an i-vector (dim,), without which it is zero
    """
    dims = {each.name: each.shape[-1] for each in running_inputs}
    inputs = []
    for utterance in utterances:
        feats, ivector = utterance[:2] if isinstance(utterance, tuple) else (utterance, None)
        if feats.ndim != 2 or feats.shape[1] != dims["input"]:
            raise ShapeError(f"features to measure on have shape {feats.shape}, expected (frames, {dims['input']})")
        given = {"input": np.asarray(feats, np.float32)[None]}
        if "ivector" in dims:
            given["ivector"] = np.zeros((1, dims["ivector"]), np.float32) if ivector is None else np.asarray(
                ivector, np.float32).reshape(1, -1)
        inputs.append(given)
    return inputs
