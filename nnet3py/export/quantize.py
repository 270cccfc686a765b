"""ONNX files with smaller numbers, and the loss of accuracy.

Weights are stored as integers of 8 or 16 bits, in the standard operators of opset 13. Products stay those of float32:
onnxruntime converts the weights once, when it loads the file. Products of integers, with inputs rounded to 8 bits, are
faster on processors with instructions for them, but lose more than ten times the accuracy, and are not made.

Small blocks with rounded scales: Dettmers, Pagnoni, Holtzman and Zettlemoyer, "QLoRA: Efficient finetuning of quantized
LLMs", NeurIPS 2023, double quantization.
"""
from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.export.onnx_graph import import_onnx, weights_beside, write_model
from nnet3py.export.onnx_stream import session, utterance_output
from nnet3py.extras import install_command

BLOCK = 8                    # rows of a column that share a scale
DTYPES: dict[str, type[np.signedinteger]] = {"int8": np.int8, "int16": np.int16}
_MOST = 255                  # largest scale of a block
SMALL = 2048                 # bytes of a matrix below which integers save nothing, as operators and names need room


class Rounded(NamedTuple):
    """Matrix as integers; an element is integer times scale of its column times scale of its block."""

    integers: np.ndarray        # int8 or int16 (..., rows, columns)
    block_scales: np.ndarray    # uint8 (..., blocks, columns), 1 to 255
    scales: np.ndarray          # float32 (..., 1, columns)


def rounded(matrix: np.ndarray, dtype: type[np.signedinteger]) -> Rounded:
    """Round a float32 matrix (..., rows, columns) to integers and scales."""
    rows, most = matrix.shape[-2], np.float32(np.iinfo(dtype).max)
    largest = np.maximum.reduceat(np.abs(matrix), np.arange(0, rows, BLOCK), axis=-2)
    scales = largest.max(axis=-2, keepdims=True) / (most * _MOST)
    scales = np.where(scales > 0, scales, np.float32(1.0))
    of_blocks = np.clip(np.ceil(largest / (most * scales)), 1, _MOST).astype(np.uint8)
    steps = np.repeat(of_blocks * scales, BLOCK, axis=-2)[..., :rows, :]
    return Rounded(np.round(matrix / steps).astype(dtype), of_blocks, scales)


def keep_as_integers(model: Any, kind: str) -> None:
    """Replace the matrices of an ONNX model, in place, by integers and operators that convert them to float32.

    Matrices of less than 2 KiB stay as they are. With ``int8``, matrices that multiply the input have 16 bits: its
    columns may differ in size by orders of magnitude, and sums of their products, as in an LDA, may nearly cancel.
    ``kind`` : "int8" or "int16".
    """
    onnx, graph = import_onnx(), model.graph
    matrices = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer
                if each.data_type == onnx.TensorProto.FLOAT and len(each.dims) >= 2}
    matrices = {name: array for name, array in matrices.items() if array.nbytes >= SMALL}
    first = _first_multiplied(graph, matrices.keys())
    arrays = {each.name: each for each in graph.initializer if each.name not in matrices}
    nodes: list[Any] = []

    def add(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(onnx.helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def store(array: np.ndarray, name: str) -> str:
        arrays[name] = onnx.numpy_helper.from_array(array, name)
        return name

    for name, array in matrices.items():
        parts = rounded(array, np.int16 if name in first else DTYPES[kind])
        integers, of_blocks, scales = (store(part, f"{name}.{what}") for what, part in parts._asdict().items())
        blocks = store(np.arange(array.shape[-2], dtype=np.int32) // BLOCK, f"blocks.{array.shape[-2]}")
        factors = add("Cast", [of_blocks], f"{of_blocks}.float", to=onnx.TensorProto.FLOAT)
        steps = add("Mul", [factors, scales], f"{name}.block_steps")
        steps = add("Gather", [steps, blocks], f"{name}.steps", axis=array.ndim - 2)
        add("Mul", [add("Cast", [integers], f"{integers}.float", to=onnx.TensorProto.FLOAT), steps], name)
    nodes += graph.node
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(arrays.values())


def _first_multiplied(graph: Any, matrices: Set[str]) -> set[str]:
    """Return those of ``matrices`` that are the first on a path from the model's input."""
    first: set[str] = set()
    later: set[str] = set()
    for node in graph.node:
        read = {*node.input, *_read_inside(node)}
        is_later = not later.isdisjoint(read)
        if not is_later:
            first |= read & matrices
        if is_later or read & matrices:
            later.update(node.output)
    return first


def _read_inside(node: Any) -> set[str]:
    """Return the names of the values that the subgraphs of an operator, such as a loop, read."""
    return {name for attribute in node.attribute if attribute.HasField("g") for inner in attribute.g.node
            for name in (*inner.input, *_read_inside(inner))}


# -- files, and the loss of accuracy -----------------------------------------------------------------------------------

KINDS = (*DTYPES, "float16")
RANDOM_FRAMES = 200

Utterance: TypeAlias = "np.ndarray | tuple[np.ndarray, np.ndarray | None]"     # features, perhaps with an i-vector


class Loss(NamedTuple):
    """Difference of outputs from those of float32.

    Attributes
    ----------
    relative : root mean square of the difference, relative to the standard deviation of the outputs
    largest : largest absolute difference
    same_best : fraction of rows whose largest column is the same
    bytes_before, bytes_after : sizes of the files
    is_real : whether the difference was measured on given utterances, not on random numbers
    """

    relative: float
    largest: float
    same_best: float
    bytes_before: int = 0
    bytes_after: int = 0
    is_real: bool = True

    def text(self) -> str:
        """Format the loss as a log line."""
        on = "" if self.is_real else "on random numbers, which say little of real input: "
        return (f"{on}rms difference {100 * self.relative:.2f} % of the outputs' standard deviation, largest "
                f"{self.largest:.3g}, same best column in {100 * self.same_best:.1f} % of the rows; "
                f"{self.bytes_before} bytes became {self.bytes_after}")


def check_kind(kind: str) -> None:
    """Raise UsageError for an unknown kind."""
    if kind not in KINDS:
        raise UsageError(f"--quantize={kind}: expected one of {', '.join(KINDS)}")


def quantize(path: str | os.PathLike[str], target: str | os.PathLike[str], kind: str = "int16",
             inputs: Utterance | Sequence[Utterance | dict[str, np.ndarray]] = ()) -> Loss:
    """Write an ONNX file with smaller numbers, and measure the loss of accuracy.

    Inputs, outputs and the states of streams stay float32.

    Parameters
    ----------
    path, target : the float32 file, and the file to write
    kind : ``int16``, with which recognized words stay the same, or ``int8``, which is smaller: weights are stored as
        integers and computed with as float32 (:func:`keep_as_integers`); ``float16``: everything is computed in float16
    inputs : utterances on which the loss is measured: features, float (frames, dim), or a pair of features and an
        i-vector, float (dim,), or several; or all inputs by name, float32 (1, frames, dim) or (1, dim). Without context
        frames, even for models that read them, and for streams. By default random numbers, for which the loss is
        not typical

    Returns
    -------
    Loss : difference of the outputs from those of float32; ``print(loss.text())``

    Raises
    ------
    UsageError : another kind; a model with other inputs than features and i-vectors, unless they are given by name
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
    """Return a list of utterances, with one element if ``inputs`` is a single utterance."""
    is_pair = isinstance(inputs, tuple) and len(inputs) == 2 and getattr(inputs[1], "ndim", 0) < 2
    return cast("list[Utterance | dict[str, np.ndarray]]",
                [inputs] if isinstance(inputs, np.ndarray) or is_pair else list(inputs))


def _inputs_of(path: str, kind: str, utterances: Sequence[Utterance]) -> list[dict[str, np.ndarray]]:
    """Return, for each utterance, the model's inputs by name; without utterances, one of random features.

    Raises UsageError for a model with other inputs than features and i-vectors.
    """
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
    """Return the difference of outputs ``b``, (rows, columns), from ``a``."""
    return Loss(float(np.sqrt(((a - b) ** 2).mean()) / max(float(a.std()), 1e-30)), float(np.abs(a - b).max()),
                float((a.argmax(axis=1) == b.argmax(axis=1)).mean()))


def _bytes(path: str) -> int:
    """Return the size of a file together with its separate weights."""
    return sum(map(os.path.getsize, [path, *weights_beside(path)]))


def _outputs(path: str, inputs: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
    """Return the first output of a file for utterances, concatenated: (rows, columns)."""
    running = session(path)
    return np.concatenate([np.asarray(utterance_output(running, given)[0], np.float64) for given in inputs])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings that onnxruntime's tools log on the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def utterances_for(running_inputs: Sequence[Any], utterances: Sequence[Utterance]) -> list[dict[str, np.ndarray]]:
    """Return utterances as ``inputs`` of :func:`quantize`, by name.

    ``running_inputs`` : inputs of an onnxruntime session; ``utterances`` : features (frames, dim), or pairs of features
    and an i-vector (dim,), which is zero by default.
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
