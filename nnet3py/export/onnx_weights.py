"""Putting the weights of an ONNX file made here, perhaps trained further elsewhere, back into the network."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.models import graph_of
from nnet3py.export.onnx_graph import import_onnx, linear_name, linear_weight
from nnet3py.export.operations import Graph, Op, all_ops
from nnet3py.export.plain_weights import named_arrays, set_arrays
from nnet3py.network.nnet import Nnet


def set_from_onnx(nnet: Nnet, path: str | os.PathLike[str]) -> list[str]:
    """Put the weights of an ONNX file of :func:`export_onnx` into its network, in place; returns what changed.

    Weights that equal what the network would export keep every byte.

    Raises
    ------
    FormatError : a file that is not ONNX, or was not made here
    ShapeError : weights of another shape
    Nnet3Error : changed numbers that combine several parameters, such as those of merged components
    """
    initializers, metadata = _read(path)
    graph = graph_of(nnet, _options_of(metadata, path))
    arrays = named_arrays(nnet)
    given: dict[str, np.ndarray] = {}
    for op in all_ops(graph):
        if op.kind == "linear":
            _take_linear(graph, op, initializers, arrays, given)
    matrices = {op.settings["weight"] for op in all_ops(graph) if op.kind == "linear"}
    for weight in graph.weights.values():
        array = initializers.get(weight.name)
        if weight.name in matrices or not weight.component or array is None or _same(array, weight.array):
            continue
        if weight.name not in arrays or not weight.is_parameter:
            raise _not_one(weight.name)
        given[weight.name] = array
    return set_arrays(nnet, given, os.fspath(path))


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


def _same(array: np.ndarray, expected: np.ndarray) -> bool:
    return array.shape == expected.shape and np.array_equal(array, expected)


def _not_one(name: str) -> Nnet3Error:
    return Nnet3Error(f"'{name}' was changed, but it is made from several parameters of the network",
                      "export with --collapse=false to train in the other program; batch normalisation stays as it is")


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    onnx = import_onnx()
    try:
        model: Any = onnx.load(os.fspath(path))
        arrays = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    except OSError as error:
        raise Nnet3Error(f"{os.fspath(path)}: {error.strerror}") from error
    except Exception as error:                   # protobuf's exceptions for bad bytes have no common base
        raise FormatError(f"this is no ONNX file: {error}", path=os.fspath(path)) from error
    metadata = {each.key: each.value for each in model.metadata_props}
    if metadata.get("producer") != "nnet3py":
        raise FormatError("the ONNX file was not made by nnet3py", path=os.fspath(path))
    return arrays, metadata


def _options_of(metadata: dict[str, str], path: str | os.PathLike[str]) -> ExportOptions:
    """The options with which the file was exported, as far as its weights depend on them."""
    try:
        is_stream = metadata["streaming"] == "1"
        return ExportOptions(
            output=metadata["exported_output"], frame_subsampling_factor=int(metadata["frame_subsampling_factor"]),
            collapse=metadata["collapsed"] == "1", streaming=is_stream,
            edges="given" if is_stream else metadata["edges"])
    except (KeyError, ValueError) as error:
        raise FormatError(f"the metadata of the ONNX file are damaged: {error}", path=os.fspath(path)) from error
