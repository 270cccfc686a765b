"""ONNX files with smaller numbers, and the loss of accuracy."""
from __future__ import annotations

import contextlib
import logging
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.export import int8
from nnet3py.export.onnx_file import session, utterance_output, weights_beside, write_model
from nnet3py.export.onnx_graph import import_onnx
from nnet3py.extras import install_command

KINDS = ("int8", "float16")
RANDOM_FRAMES = 200
SAME_BEST = 0.95       # of the rows should have the same best column: others are near ties, and words rarely change

Utterance: TypeAlias = "np.ndarray | tuple[np.ndarray, np.ndarray | None]"     # features, perhaps with an i-vector


class Layer(NamedTuple):
    """A product with constant weights, and what became of it.

    Attributes
    ----------
    name : of the operator in the file
    shape : rows and columns of its weights
    form : "integers", "weights" (of 8 bits, multiplied as float32) or "float"
    as_integers, as_weights : the relative loss (see :class:`Loss`) if it alone had that form; NaN: not measured
    """

    name: str
    shape: tuple[int, int]
    form: str
    as_integers: float
    as_weights: float


class Loss(NamedTuple):
    """How far outputs are from those of float32.

    Attributes
    ----------
    relative : the root mean square of the difference, relative to the standard deviation of the outputs
    largest : the largest difference
    same_best : the share of the rows whose largest column is the same
    bytes_before, bytes_after : sizes of the files
    layers : with int8, what became of each product
    is_real : whether this was measured on what the model will be given, and not on random numbers
    """

    relative: float
    largest: float
    same_best: float
    bytes_before: int = 0
    bytes_after: int = 0
    layers: tuple[Layer, ...] = ()
    is_real: bool = True

    def text(self) -> str:
        """For a log line."""
        on = "" if self.is_real else "on random numbers, which say little of real input: "
        return (f"{on}rms difference {100 * self.relative:.2f} % of the outputs' standard deviation, largest "
                f"{self.largest:.3g}, same best column in {100 * self.same_best:.1f} % of the rows; "
                f"{self.bytes_before} bytes became {self.bytes_after}")

    def table(self) -> str:
        """A line for each product, the most harmful first: its weights, and what its forms cost alone, in percent."""
        if not self.layers:
            return ""
        width = max(len(layer.name) for layer in self.layers)
        lines = [f"{'product':{width}}  {'weights':>11}  integers   weights  form"]
        for layer in sorted(self.layers, key=lambda layer: -layer.as_integers if self.is_real else 0):
            costs = "  ".join(f"{100 * cost:6.2f} %" if cost == cost else f"{'-':>8}"
                              for cost in (layer.as_integers, layer.as_weights))
            lines.append(f"{layer.name:{width}}  {layer.shape[0]:5} x {layer.shape[1]:4}  {costs}  {layer.form}")
        return "\n".join(lines)


def quantize(path: str | os.PathLike[str], target: str | os.PathLike[str], kind: str,
             inputs: Sequence[Utterance | dict[str, np.ndarray]], is_real: bool = True,
             least_same_best: float = SAME_BEST) -> Loss:
    """Write an ONNX file with weights in ``int8``, or all numbers in ``float16``, and measure the loss of accuracy.

    Inputs, outputs and the states of streams stay float32. With int8, so do the weights inside a recurrence's loop;
    each other product with constant weights becomes one of three things: a product of integers (weights of 8 bits, a
    scale for each column; values rounded to 8 bits as they come), the same product as before of weights kept in 8 bits,
    or it stays as it is. Which one is found by measuring each layer alone on ``inputs``: the least accurate layers are
    given more until enough rows have the same best column (:mod:`nnet3py.export.int8`).

    Parameters
    ----------
    path, target : the float32 file, and the one that is written
    kind : "int8" or "float16"
    inputs : utterances on which the loss is measured: features, float (frames, dim), or pairs of these and an i-vector,
        float (dim,); or all inputs by name, float32 (1, frames, dim) or (1, dim). Without context frames, even for
        models that take them, and for streams
    is_real : whether these are what the model will be given. If not, nothing is known of its values: they are not
        rounded, and products of inputs stay as they are
    least_same_best : the share of rows whose largest column is to stay the same, with int8 and real inputs

    Returns
    -------
    Loss : how far the outputs are from those of float32; ``print(loss.text())``

    Raises
    ------
    UsageError : another kind, or no utterances
    ShapeError : features of another dimension than the model's
    Nnet3Error : onnxruntime is not installed, or its tools fail
    """
    if kind not in KINDS:
        raise UsageError(f"--quantize={kind}: expected one of {', '.join(KINDS)}")
    path = os.fspath(path)
    if not len(inputs):
        raise UsageError("there are no utterances to measure the loss of accuracy on",
                         "give features (frames, dim) of half a minute of speech, in a list")
    plain = [given for given in inputs if not isinstance(given, dict)]
    given_by_name = [given for given in inputs if isinstance(given, dict)]
    if plain:
        given_by_name += utterances_for(session(path).get_inputs(), plain)
    return _quantized(path, target, kind, given_by_name, is_real, least_same_best)


def _quantized(path: str, target: str | os.PathLike[str], kind: str, inputs: Sequence[dict[str, np.ndarray]],
               is_real: bool, least_same_best: float) -> Loss:
    onnx = import_onnx()
    with tempfile.TemporaryDirectory() as folder, _quiet():
        quantized, layers = os.path.join(folder, "quantized.onnx"), []
        exact = _outputs(path, inputs)
        if kind == "int8":
            layers = _choose(path, quantized, inputs, exact, is_real, least_same_best)
        else:
            _convert_to_float16(path, quantized)
        loss = _loss(exact, _outputs(quantized, inputs))._replace(
            bytes_before=_bytes(path), bytes_after=_bytes(quantized), layers=tuple(layers), is_real=is_real)
        replaced = weights_beside(path) if os.path.abspath(path) == os.path.abspath(target) else []
        write_model(onnx.load(quantized), target)
        for file in set(replaced) - set(weights_beside(os.fspath(target)) if replaced else []):
            os.remove(file)
    return loss


def quantize_file(path: str, kind: str, utterances: Sequence[Utterance]) -> Loss:
    """Replace an ONNX file by one with smaller numbers, as :func:`quantize` makes it.

    ``utterances`` are those of :func:`utterances_for`; if there are none, random numbers take their place.
    """
    inputs = session(path).get_inputs()
    dim = next(each.shape[-1] for each in inputs if each.name == "input")
    noise = np.random.default_rng(0).standard_normal((RANDOM_FRAMES, dim)).astype(np.float32)
    given = utterances_for(inputs, utterances if len(utterances) else [noise])
    return quantize(path, path, kind, given, is_real=bool(len(utterances)))


def _choose(path: str, quantized_path: str, inputs: Sequence[dict[str, np.ndarray]], exact: np.ndarray, is_real: bool,
            least_same_best: float) -> list[Layer]:
    """Write the int8 file; its layers. ``exact`` are the outputs of the float32 file."""
    onnx, is_large = import_onnx(), bool(weights_beside(path))
    model = onnx.load(path)

    def write(forms: dict[str, str]) -> None:
        onnx.save_model(int8.with_forms(model, forms), quantized_path, save_as_external_data=is_large,
                        location="quantized.weights")

    def measure(forms: dict[str, str]) -> Loss:
        write(forms)
        return _loss(exact, _outputs(quantized_path, inputs))

    products = int8.products_of(model)
    if not is_real:
        forms = {product.name: int8.FLOAT if product.reads_input else int8.WEIGHTS for product in products}
        write(forms)
        return [Layer(product.name, product.shape, forms[product.name], math.nan, math.nan) for product in products]
    alone = {product.name: (measure({product.name: int8.INTEGERS}).relative,
                            measure({product.name: int8.WEIGHTS}).relative) for product in products}
    steps = int8.steps(alone)
    # errors of layers add up like independent ones, so that each step is a better one, but for a few rows
    low, high = 0, len(steps) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if measure(steps[middle]).same_best >= least_same_best else (middle + 1, high)
    write(steps[low])
    return [Layer(product.name, product.shape, steps[low].get(product.name, int8.FLOAT), *alone[product.name])
            for product in products]


def _convert_to_float16(path: str, quantized_path: str) -> None:
    onnx, is_large = import_onnx(), bool(weights_beside(path))
    try:
        from onnxruntime.transformers.float16 import convert_float_to_float16

        half = convert_float_to_float16(onnx.load(path), keep_io_types=True)
    except ImportError as error:
        raise Nnet3Error(f"quantizing needs onnxruntime's tools ({error})", install_command("onnx")) from error
    except Exception as error:
        raise Nnet3Error(f"onnxruntime cannot quantize the model: {error}") from error
    given = {each.name for each in half.graph.input}
    # the tool appends the casts of inputs, and operators must come after what they read
    in_order = sorted(half.graph.node, key=lambda node: not (node.op_type == "Cast" and node.input[0] in given))
    del half.graph.node[:]
    half.graph.node.extend(in_order)
    onnx.save_model(half, quantized_path, save_as_external_data=is_large)


def _loss(a: np.ndarray, b: np.ndarray) -> Loss:
    """How far the rows ``b`` are from ``a``."""
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
