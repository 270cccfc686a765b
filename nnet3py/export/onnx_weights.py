"""Putting the weights of an ONNX file made here, perhaps trained further elsewhere, back into the network."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.models import graph_of
from nnet3py.export.onnx_graph import linear_name, linear_weight
from nnet3py.export.onnx_reading import OnnxFile, read_onnx
from nnet3py.export.operations import Graph, Op, all_ops
from nnet3py.export.plain_weights import all_components, batch_norm_arrays, named_arrays, set_arrays
from nnet3py.network.nnet import Nnet

STATISTICS = 1e-5        # relative: model files hold mean and variance as float32; scale and offset are rounded anew


def set_from_onnx(nnet: Nnet, path: str | os.PathLike[str]) -> list[str]:
    """Put the weights of an ONNX file of :func:`export_onnx` into its network, in place; returns what changed.

    Weights that equal what the network would export keep every byte.

    Batch normalization gets the mean and variance that its scales and offsets in the file stand for.

    Raises
    ------
    FormatError : a file that is not ONNX, or was not made here
    ShapeError : weights of another shape
    Nnet3Error : changed numbers that combine several parameters, such as those of merged components
    """
    file = read_onnx(path)
    if not file.is_own:
        raise FormatError("the ONNX file was not made by nnet3py", path=file.path,
                          hint="nnet3-import FILE.onnx NNET-OUT makes a network of its graph, if there is one")
    return set_weights(nnet, file, _options_of(file.metadata, file.path))


def set_weights(nnet: Nnet, file: OnnxFile, options: ExportOptions) -> list[str]:
    """The same of a file that has been read; ``options`` are those with which the network would be exported like it."""
    graph, initializers = graph_of(nnet, options), file.arrays
    arrays = named_arrays(nnet)
    given: dict[str, np.ndarray] = {}
    for op in all_ops(graph):
        if op.kind == "linear":
            _take_linear(graph, op, initializers, arrays, given)
    taken = {op.settings["weight"] for op in all_ops(graph) if op.kind == "linear"}
    for op in all_ops(graph):
        if op.kind == "batch_norm":
            taken |= {op.settings["scale"], op.settings["offset"]}
            given |= _batch_norm(graph, op, initializers, all_components(nnet)[op.settings["component"]])
    for weight in graph.weights.values():
        if weight.name in taken:
            continue
        array = initializers.get(weight.name)
        if array is None or not weight.component or _same(array, weight.array):
            continue
        if weight.name not in arrays or not weight.is_parameter:
            raise _not_one(weight.name)
        given[weight.name] = array
    return set_arrays(nnet, given, file.path)


def _take_linear(graph: Graph, op: Op, initializers: dict[str, np.ndarray], arrays: dict[str, np.ndarray],
                 given: dict[str, np.ndarray]) -> None:
    """The matrix of an affine component, or some columns of it."""
    name, target = linear_name(op.settings), op.settings["weight"]
    expected = linear_weight(graph, op.settings)
    if name not in initializers:
        raise ShapeError(f"the file has no '{name}'", "was the file quantized, or changed by another program?")
    array = initializers[name]
    if array.shape != expected.shape:
        raise ShapeError(f"'{name}' has shape {array.shape}, expected {expected.shape}")
    if _same(array, expected):
        return
    if target not in arrays:
        raise _not_one(target)
    matrix = given.setdefault(target, arrays[target].copy())
    begin = 0
    for first, end in op.settings["columns"] or ((0, matrix.shape[1]),):
        matrix[:, first:end] = array[begin:begin + end - first].T
        begin += end - first


def _batch_norm(graph: Graph, op: Op, initializers: dict[str, np.ndarray], component: Any) -> dict[str, np.ndarray]:
    """The statistics of a batch normalization whose scales and offsets in the file are others; else nothing."""
    names = op.settings["scale"], op.settings["offset"]
    expected = [graph.weights[name].array for name in names]
    arrays = [initializers.get(name, array) for name, array in zip(names, expected, strict=True)]
    if [array.shape for array in arrays] != [array.shape for array in expected]:
        raise ShapeError(f"'{names[0]}' has shape {arrays[0].shape}, expected {expected[0].shape}")
    if all(np.allclose(array, own, STATISTICS, 0.0) for array, own in zip(arrays, expected, strict=True)):
        return {}
    scale, offset = (array.astype(np.float64) for array in arrays)
    epsilon, rms = float(component.epsilon), float(component.target_rms)
    largest = rms / np.sqrt(epsilon)
    if not ((scale > 0.0) & (scale <= largest * (1.0 + STATISTICS))).all():
        raise Nnet3Error(f"'{names[0]}' was changed to what batch normalization cannot compute: its scales are above 0 "
                         f"and at most {largest:g}", "keep it as it is, and add what changes it as a layer")
    variance = np.maximum((rms / scale)**2 - epsilon, 0.0)
    return batch_norm_arrays(op.settings["component"], component, -offset / scale, variance)


def _same(array: np.ndarray, expected: np.ndarray) -> bool:
    return array.shape == expected.shape and np.array_equal(array, expected)


def _not_one(name: str) -> Nnet3Error:
    return Nnet3Error(f"'{name}' was changed, but it is made from several parameters of the network",
                      "export with --collapse=false to train in the other program")


def _options_of(metadata: dict[str, str], path: str) -> ExportOptions:
    """The options with which the file was exported, as far as its weights depend on them."""
    try:
        is_stream = metadata["streaming"] == "1"
        return ExportOptions(
            output=metadata["exported_output"], frame_subsampling_factor=int(metadata["frame_subsampling_factor"]),
            collapse=metadata["collapsed"] == "1", streaming=is_stream,
            edges="given" if is_stream else metadata["edges"])
    except (KeyError, ValueError) as error:
        raise FormatError(f"the metadata of the ONNX file are damaged: {error}", path=path) from error
