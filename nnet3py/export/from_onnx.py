"""``nnet3py.from_onnx``: ONNX files as networks, both files of nnet3py, which contain the network, and others.

:func:`set_from_onnx` puts the weights of a file of nnet3py, perhaps trained further elsewhere, back into its network.
"""
from __future__ import annotations

import logging
import os
from typing import Any, overload

import numpy as np

from nnet3py.acoustic_model import AcousticModel, acoustic_model
from nnet3py.errors import FormatError, Nnet3Error, ShapeError, UsageError
from nnet3py.export.export_options import ALL_OUTPUTS, ExportOptions
from nnet3py.export.models import graph_of
from nnet3py.export.onnx_graph import NETWORK, linear_name, linear_weight
from nnet3py.export.onnx_import import PADDING, ForeignNetwork, OnnxFile, foreign_network, read_onnx
from nnet3py.export.operations import Graph, Op, all_ops
from nnet3py.export.plain_weights import all_components, batch_norm_arrays, named_arrays, network_of_text, set_arrays
from nnet3py.network.nnet import Nnet

logger = logging.getLogger("nnet3py.export")

# metadata of operations that the export added after the network
_AFTER = {"use_priors": "subtracts the logs of priors", "log_softmax": "ends with a log-softmax",
          "apply_exp": "ends with an exponential"}


@overload
def from_onnx(path: str | os.PathLike[str], like: None = None, *, padding: str = "zeros") -> Nnet: ...
@overload
def from_onnx(path: str | os.PathLike[str], like: AcousticModel | str | os.PathLike[str], *,
              padding: str = "zeros") -> AcousticModel: ...
def from_onnx(path: str | os.PathLike[str], like: AcousticModel | str | os.PathLike[str] | None = None, *,
              padding: str = "zeros") -> Nnet | AcousticModel:
    """Make a network from an ONNX file of nnet3py or of another program such as PyTorch.

    A file of :func:`export_onnx` becomes the exported network with the weights in the file: in the form for inference,
    or, with ``collapse=False``, exactly as it was. What the export added after the network (priors, log-softmax,
    exponential) is not part of the result.

    The graph of another file must compute columns for each frame, from an input of frames and perhaps a vector for each
    sequence, which becomes ``ivector``; docs/export.md lists the operators. The output is called ``output``; further
    outputs keep their names. If the graph reduces the number of frames, there is an output for every second, third, ...
    frame (``frame_subsampling_factor``). The logger ``nnet3py.export`` reports which rows of the graph are which
    frames.

    Parameters
    ----------
    path : the file; weights may be in another file beside it
    like : acoustic model, its file or its folder, whose transition model and priors the result gets
    padding : treatment of the zeros that convolutions of another program's file read beyond the ends: "zeros", as in
        the graph, with outputs that depend on where chunks end (``frames_per_chunk``); or "replicate", a network with
        context, whose outputs differ from the graph's at both ends, where the first and last frames are repeated

    Returns
    -------
    A network, or an acoustic model if ``like`` is given

    Raises
    ------
    FormatError : a file that is not ONNX, or a file of nnet3py in which another program changed the form of the weights
    ShapeError : an output whose dimension is not the number of pdfs of ``like``
    Nnet3Error : an operator without counterpart, with its node; the package onnx is not installed
    """
    if padding not in PADDING:
        raise UsageError(f"padding={padding!r}: expected {' or '.join(map(repr, PADDING))}")
    nnet = imported(read_onnx(path), padding)[0]
    return nnet if like is None else acoustic_model(like).with_network(nnet)


def imported(file: OnnxFile, padding: str = PADDING[0]) -> tuple[Nnet, ForeignNetwork | None]:
    """Return the network of a file; and, for a file of another program, how its frames correspond to the graph's.

    The second result is None for a file of nnet3py. Raises as :func:`from_onnx`.
    """
    if file.is_own and NETWORK in file.metadata:
        return _own_network(file), None
    foreign = foreign_network(file, padding)
    _log(file, foreign, padding)
    return foreign.nnet, foreign


def _own_network(file: OnnxFile) -> Nnet:
    """Return the network of a file of nnet3py."""
    nnet = network_of_text(file.metadata[NETWORK], sum(array.nbytes for array in file.arrays.values()), file.path)
    factor, edges = file.metadata.get("frame_subsampling_factor", ""), file.metadata.get("edges", "")
    if not factor.isdecimal() or factor == "0":
        raise FormatError(f"the metadata of the ONNX file are damaged: frame_subsampling_factor={factor}",
                          path=file.path)
    set_weights(nnet, file, ExportOptions(output=ALL_OUTPUTS, collapse=False, frame_subsampling_factor=int(factor),
                                          edges="none" if edges == "none" else "given"))
    for name, array in named_arrays(nnet).items():
        if np.isnan(array).any():
            raise FormatError(f"the file has no '{name}', or NaN in it", path=file.path,
                              hint="was the file quantized, or changed by another program?")
    for key, what in _AFTER.items():
        if file.metadata.get(key) == "1":
            logger.warning("%s %s after the network; the imported network does not", file.path, what)
    if int(factor) > 1:
        logger.info("%s has a row of output for every %s frames: frame_subsampling_factor", file.path, factor)
    return nnet


def _log(file: OnnxFile, foreign: ForeignNetwork, padding: str) -> None:
    rows = f"{foreign.step} r" if foreign.step > 1 else "r"
    logger.info("Row r of the output of %s is the network's output for frame %s%s", file.path, rows,
                f" + {foreign.first}" if foreign.first else "")
    if foreign.step > 1:
        logger.info("%s has a row of output for every %d frames: frame_subsampling_factor", file.path, foreign.step)
    if foreign.has_zeros and padding == "zeros":
        logger.warning("%s pads with zeros, so outputs depend on where chunks end: compute utterances as a whole "
                       "(frames_per_chunk), or import it with padding='replicate'", file.path)
    elif foreign.is_recurrent:
        logger.info("%s is recurrent: its outputs are those of whole utterances (frames_per_chunk)", file.path)


# -- weights of files of nnet3py ---------------------------------------------------------------------------------------

STATISTICS = 1e-5        # relative tolerance: scale and offset are rounded from mean and variance in float32


def set_from_onnx(nnet: Nnet, path: str | os.PathLike[str]) -> list[str]:
    """Put the weights of an ONNX file of :func:`export_onnx` into its network, in place; return the changed names.

    Weights equal to those that the network would export keep every byte. Batch normalization gets the mean and variance
    that correspond to its scales and offsets in the file.

    Raises
    ------
    FormatError : a file that is not ONNX, or not of nnet3py
    ShapeError : weights of another shape
    Nnet3Error : changed numbers that combine several parameters, such as those of merged components
    """
    file = read_onnx(path)
    if not file.is_own:
        raise FormatError("the ONNX file was not made by nnet3py", path=file.path,
                          hint="nnet3-import FILE.onnx NNET-OUT makes a network of its graph, if there is one")
    return set_weights(nnet, file, _options_of(file.metadata, file.path))


def set_weights(nnet: Nnet, file: OnnxFile, options: ExportOptions) -> list[str]:
    """Put the weights of a file that was read into a network, as :func:`set_from_onnx`.

    ``options`` : the options with which the file was exported
    """
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
    """Store the matrix of an affine component, or some of its columns, in ``given`` if the file has other values."""
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
    """Return the statistics of batch normalization if the file has other scales or offsets, else an empty dict."""
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
        raise Nnet3Error(f"'{names[0]}' was changed to scales that batch normalization cannot have: they are above 0 "
                         f"and at most {largest:g}", "keep it unchanged, and add a layer for other scales")
    variance = np.maximum((rms / scale)**2 - epsilon, 0.0)
    return batch_norm_arrays(op.settings["component"], component, -offset / scale, variance)


def _same(array: np.ndarray, expected: np.ndarray) -> bool:
    return array.shape == expected.shape and np.array_equal(array, expected)


def _not_one(name: str) -> Nnet3Error:
    return Nnet3Error(f"'{name}' was changed, but it is made from several parameters of the network",
                      "export with --collapse=false to train in the other program")


def _options_of(metadata: dict[str, str], path: str) -> ExportOptions:
    """Return those of the options of the export on which the weights in the file depend."""
    try:
        is_stream = metadata["streaming"] == "1"
        return ExportOptions(
            output=metadata["exported_output"], frame_subsampling_factor=int(metadata["frame_subsampling_factor"]),
            collapse=metadata["collapsed"] == "1", streaming=is_stream,
            edges="given" if is_stream else metadata["edges"])
    except (KeyError, ValueError) as error:
        raise FormatError(f"the metadata of the ONNX file are damaged: {error}", path=path) from error
