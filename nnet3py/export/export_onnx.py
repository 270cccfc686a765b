"""``nnet3py.export_onnx``, and comparisons of ONNX files with what nnet3py computes."""
from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.advice import arguments_elsewhere
from nnet3py.export import quantize as quantizing
from nnet3py.export.export_options import ExportOptions, ExportSettings
from nnet3py.export.models import graph_of
from nnet3py.export.onnx_graph import LARGEST_FILE, OnnxWriter, import_onnx, weight_bytes, write_model
from nnet3py.export.onnx_stream import CHUNK_OUTPUTS, session, utterance_output
from nnet3py.export.operations import Graph

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.export.onnx_import import ForeignNetwork
    from nnet3py.export.quantize import Utterance
    from nnet3py.network.nnet import Nnet

logger = logging.getLogger("nnet3py.export")


@arguments_elsewhere(
    ExportOptions, opset_or_opset_version="the opset is 17",
    dynamic_axes_or_dynamic_shapes="nothing is to be done: the file takes any number of sequences and frames",
    input_names_or_output_names="they are input, ivector and output; output= chooses the node",
    args_or_dummy_input="none is needed: export_onnx(model, path)")
def export_onnx(model: Nnet | AcousticModel | str | os.PathLike[str], path: str | os.PathLike[str],
                options: ExportOptions | None = None, *, quantize: str = "",
                quantize_on: Utterance | Sequence[Utterance] = (), **settings: Unpack[ExportSettings]) -> Graph:
    """Write a model as an ONNX file of standard operators (opset 17), with any number of sequences and frames.

    Inputs are ``input``, float32 (N, T, dim), and ``ivector``, float32 (N, dim), for networks with i-vectors; the
    output is ``output``, float32 (N, ceil(T / frame_subsampling_factor), dim), equal to that of :func:`nnet3py.compute`
    with one chunk. The metadata contain context, subsampling factor and so on.

    Parameters
    ----------
    model : network, acoustic model, file of one, or model folder; not changed
    path : the file to write
    options, settings : see :class:`~nnet3py.export.export_options.ExportOptions`; or its attributes by name
    quantize : "int8", "int16" or "float16" for smaller numbers, see :func:`nnet3py.export.quantize.quantize`; the
        logger ``nnet3py.export`` reports the loss of accuracy
    quantize_on : utterances on which the loss is measured, about half a minute of speech: features, float (frames,
        dim), a pair of features and an i-vector, as ``nnet3py.front_end`` returns them, or several; by default random
        numbers

    Returns
    -------
    The operations in the file.

    Raises
    ------
    Nnet3Error : a network that cannot be exported (nothing is written then); the package onnx is not installed
    """
    options = options or ExportOptions(**settings)
    if quantize:
        quantizing.check_kind(quantize)
    graph = write_onnx(model, path, options)
    if quantize:
        loss = quantizing.quantize(path, path, quantize, quantize_on)
        logger.info("Quantized %s to %s: %s", path, quantize, loss.text())
    return graph


# -- writing, and comparing with nnet3py -------------------------------------------------------------------------------


def write_onnx(model: Nnet | AcousticModel | str | os.PathLike[str], path: str | os.PathLike[str],
               options: ExportOptions) -> Graph:
    """Write a model as an ONNX file; return its operations. Raises Nnet3Error for a network that cannot be exported."""
    graph = graph_of(model, options)
    write_model(onnx_model(graph), path)
    return graph


def onnx_model(graph: Graph) -> Any:
    """Convert a graph to an onnx ``ModelProto``, and check it with ``onnx.checker``."""
    onnx = import_onnx()
    model = OnnxWriter(graph).model()
    if weight_bytes(model) <= LARGEST_FILE:
        onnx.checker.check_model(model, full_check=True)
    return model


def difference_from_compute(model: Nnet | AcousticModel | str | os.PathLike[str], path: str | os.PathLike[str],
                            graph: Graph, options: ExportOptions, frames: int = 40) -> float:
    """Return the largest difference of an exported model from nnet3py.compute; for streams, from LoopedComputer.

    The difference is relative to the largest value, on random input. Priors, log-softmax and exponential are not
    compared.
    """
    from nnet3py.export.models import read, select_outputs
    from nnet3py.runtime.compute import compute
    from nnet3py.runtime.looped import LoopedComputer

    rng, (nnet, _) = np.random.default_rng(0), read(model)
    given = [rng.standard_normal((1, frames, spec.dim) if spec.has_time else (1, spec.dim)).astype(np.float32)
             for spec in graph.inputs]
    by_name = {spec.name: array for spec, array in zip(graph.inputs, given, strict=True)}
    running = session(os.fspath(path))
    ivector = by_name["ivector"][0] if "ivector" in by_name else None
    if ivector is None and nnet.input_dim("ivector") > 0:         # an input that this output does not need
        ivector = np.zeros(nnet.input_dim("ivector"), np.float32)
    factor, feats = graph.frame_subsampling_factor, by_name["input"][0]
    if graph.edges == "stream":
        chunk_outputs = options.chunk_outputs or CHUNK_OUTPUTS
        looped = LoopedComputer(select_outputs(nnet, options.output), chunk_outputs * factor,
                                frame_subsampling_factor=factor)
        expected = looped.compute(feats, ivector)
        computed = utterance_output(running, by_name, looped.frames_per_chunk // factor)[0]
    else:
        computed = utterance_output(running, by_name)[0]
        expected = compute(nnet, feats, ivector, frames_per_chunk=frames, output=options.output,
                           frame_subsampling_factor=factor)
    return _relative_difference(computed, expected)


def _relative_difference(computed: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(computed - expected).max() / max(np.abs(expected).max(), np.finfo(np.float32).tiny))


# -- comparing imported networks with onnxruntime ----------------------------------------------------------------------

_FRAMES = 101


def difference_from_onnx(foreign: ForeignNetwork, path: str, frames: int = _FRAMES) -> float:
    """Return the largest difference of an imported network from onnxruntime's first output for its file.

    The difference is relative to the largest value, on random input of ``frames`` frames, unless the graph has a fixed
    number. The network gets the graph's frames without any around them. Raises Nnet3Error if onnxruntime is not
    installed or cannot run the file.
    """
    running = session(path)
    rng, letters = np.random.default_rng(0), foreign.layout
    sizes = [size if size > 0 else 2 if letter == "n" else frames
             for letter, size in zip(letters, foreign.sizes, strict=True)]
    given: dict[str, np.ndarray] = {}
    for each in running.get_inputs():
        shape = sizes if len(each.shape) == len(letters) and len(given) == 0 or len(each.shape) > 2 else [
            sizes[letters.index("n")] if "n" in letters else 1, each.shape[1]]
        given[each.name] = rng.standard_normal(shape).astype(np.float32)
    expected = running.run(None, given)[0]
    main = next(array for array in given.values() if list(array.shape) == sizes)
    vectors = [array for array in given.values() if array is not main]
    return _difference(foreign, _by_frames(main, letters), vectors[0] if vectors else None,
                       _by_frames(expected, foreign.output_axes))


def _by_frames(array: np.ndarray, letters: str) -> np.ndarray:
    """Return an array with axes ``letters`` (n, t, c) as (sequences, frames, columns)."""
    order = [i for letter in "ntc" for i, axis in enumerate(letters) if axis == letter]
    array = array.transpose(order)
    num = array.shape[0] if "n" in letters else 1
    return array.reshape(num, -1, int(np.prod(array.shape[len(letters) - letters.count("c"):])))


def _difference(foreign: ForeignNetwork, feats: np.ndarray, vectors: np.ndarray | None, expected: np.ndarray) -> float:
    from nnet3py.compiler import compile
    from nnet3py.compiler.request import ComputationRequest, IoSpecification
    from nnet3py.network.inference import for_inference
    from nnet3py.runtime.computer import Computer

    num, rows = expected.shape[:2]
    before, after = foreign.repeated
    feats = np.pad(feats, ((0, 0), (before, after), (0, 0)), mode="edge")
    nnet = for_inference(foreign.nnet)

    def indexes(times: range) -> np.ndarray:
        return np.array([(n, t, 0) for n in range(num) for t in times], np.int32)

    inputs = {"input": (indexes(range(-before, feats.shape[1] - before)), feats.reshape(-1, feats.shape[2]))}
    if vectors is not None:
        inputs["ivector"] = indexes(range(1)), vectors
    times = range(foreign.first, foreign.first + rows * foreign.step, foreign.step)
    request = ComputationRequest([IoSpecification(name, where) for name, (where, _) in inputs.items()],
                                 [IoSpecification("output", indexes(times))])
    computer = Computer(compile(nnet, request), nnet)
    for name, (_, array) in inputs.items():
        computer.accept_input(name, np.ascontiguousarray(array))
    computer.run()
    return _relative_difference(computer.output("output").reshape(num, rows, -1), expected)
