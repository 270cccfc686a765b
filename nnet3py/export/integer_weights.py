"""Weights that an ONNX file keeps as integers of 8 or 16 bits, in the standard operators of opset 13.

The products stay those of float32: a runtime makes float32 of the weights, onnxruntime once, when it loads the file.
Products of integers, whose other factor is rounded to 8 bits as well, are faster where a processor has instructions for
them, but cost more than ten times the accuracy: they are not made.

Small blocks with scales that are rounded themselves: Dettmers, Pagnoni, Holtzman and Zettlemoyer, "QLoRA: Efficient
finetuning of quantized LLMs", NeurIPS 2023, double quantization.
"""
from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

import numpy as np

from nnet3py.export.onnx_graph import import_onnx

BLOCK = 8                    # rows of a column that share a scale
DTYPES: dict[str, type[np.signedinteger]] = {"int8": np.int8, "int16": np.int16}
_MOST = 255                  # of the scale of a block
SMALL = 2048                 # bytes of a matrix that stays as it is: operators and names take room, too


class Rounded(NamedTuple):
    """A matrix as integers: a number is the integer times the scale of its column times that of its block.

    Attributes
    ----------
    integers : int8 or int16 (..., rows, columns)
    block_scales : uint8 (..., blocks, columns), 1 to 255
    scales : float32 (..., 1, columns)
    """

    integers: np.ndarray
    block_scales: np.ndarray
    scales: np.ndarray


def rounded(matrix: np.ndarray, dtype: type[np.signedinteger]) -> Rounded:
    """The nearest that there is to a float32 matrix (..., rows, columns)."""
    rows, most = matrix.shape[-2], np.float32(np.iinfo(dtype).max)
    largest = np.maximum.reduceat(np.abs(matrix), np.arange(0, rows, BLOCK), axis=-2)
    scales = largest.max(axis=-2, keepdims=True) / (most * _MOST)
    scales = np.where(scales > 0, scales, np.float32(1.0))
    of_blocks = np.clip(np.ceil(largest / (most * scales)), 1, _MOST).astype(np.uint8)
    steps = np.repeat(of_blocks * scales, BLOCK, axis=-2)[..., :rows, :]
    return Rounded(np.round(matrix / steps).astype(dtype), of_blocks, scales)


def keep_as_integers(model: Any, kind: str) -> None:
    """Replace the matrices of an ONNX model, in place, by integers and operators that make float32 of them.

    Matrices of less than 2 KiB stay as they are. With ``int8``, those that the input is multiplied by are of 16 bits:
    its columns may differ in size by orders of magnitude, and products of them, as in an LDA, may nearly cancel.

    Parameters
    ----------
    kind : "int8" or "int16"
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
    """Those of the matrices between which and the input there is no other."""
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
    """What the graphs inside an operator, such as a loop, read."""
    return {name for attribute in node.attribute if attribute.HasField("g") for inner in attribute.g.node
            for name in (*inner.input, *_read_inside(inner))}
