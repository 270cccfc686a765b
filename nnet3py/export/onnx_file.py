"""ONNX files: written, checked by onnx itself, and compared with what nnet3py computes."""
from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.models import graph_of
from nnet3py.export.onnx_graph import OnnxWriter, import_onnx
from nnet3py.export.onnx_session import session
from nnet3py.export.onnx_stream import CHUNK_OUTPUTS, OnnxStream
from nnet3py.export.operations import Graph
from nnet3py.io.specifiers import Medium, parse_wxfilename
from nnet3py.io.streams import open_output

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.network.nnet import Nnet

LARGEST_FILE = 2**31 - 2**20      # bytes in one file; weights of larger models are in a second one
SMALL_WEIGHT = 1024               # bytes; smaller weights stay in the first


def write_onnx(model: Nnet | AcousticModel | str | os.PathLike[str], path: str | os.PathLike[str],
               options: ExportOptions) -> Graph:
    """Write a model as an ONNX file; the graph that was written. Raises Nnet3Error: what cannot be exported."""
    graph = graph_of(model, options)
    write_model(onnx_model(graph), path)
    return graph


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an ONNX model as one file, or, if that would be too large, as two, with the weights beside the graph."""
    if _weight_bytes(model) > LARGEST_FILE:
        _write_in_two(import_onnx(), model, os.fspath(path))
        return
    with open_output(path) as file:
        file.write(model.SerializeToString())


def weights_beside(path: str) -> list[str]:
    """The separate files that hold weights of an ONNX file; none if it holds all itself."""
    onnx = import_onnx()
    names = {entry.value for each in onnx.load(path, load_external_data=False).graph.initializer
             for entry in each.external_data if entry.key == "location"}
    return [os.path.join(os.path.dirname(path), name) for name in sorted(names)]


def _weight_bytes(model: Any) -> int:
    return sum(len(each.raw_data) for each in model.graph.initializer)


def _write_in_two(onnx: Any, model: Any, path: str) -> None:
    """Write the graph as one file, and its weights as another beside it."""
    folder, name = os.path.split(path)
    if parse_wxfilename(path).medium is not Medium.FILE or not os.path.isdir(folder or "."):
        raise UsageError(f"the model's weights have {_weight_bytes(model)} bytes, too many for a single ONNX file; "
                         f"they would lie beside it, and '{path}' is not a file in a folder", "give the path of a file")
    weights = f"{name}.weights"
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder or ".") as unfinished:
            graph = os.path.join(unfinished, name)
            for tensor in model.graph.initializer:
                if len(tensor.raw_data) >= SMALL_WEIGHT:
                    onnx.external_data_helper.set_external_data(tensor, weights)
            onnx.save_model(model, graph)
            onnx.checker.check_model(graph, full_check=True)
            shutil.copymode(graph, os.path.join(unfinished, weights))
            os.replace(os.path.join(unfinished, weights), os.path.join(folder, weights))
            os.replace(graph, path)
    except OSError as error:
        raise Nnet3Error(f"cannot write {path}: {error.strerror or error}") from error


def onnx_model(graph: Graph) -> Any:
    """The ONNX model of a graph, checked."""
    onnx = import_onnx()
    model = OnnxWriter(graph).model()
    if _weight_bytes(model) <= LARGEST_FILE:
        onnx.checker.check_model(model, full_check=True)
    return model


def run(running: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    """Outputs of a session, float32 (N, frames, dim), for inputs in the order of the model's, float32 as well."""
    names = [given.name for given in running.get_inputs()]
    return list(running.run(None, dict(zip(names, inputs, strict=True))))


def utterance_output(running: Any, given: dict[str, np.ndarray], chunk_outputs: int = CHUNK_OUTPUTS) -> np.ndarray:
    """The first output of a session for whole utterances, float32 (N, rows, dim), also of a model for streams.

    Parameters
    ----------
    chunk_outputs : rows of output of the chunks of streams, if these may have any number
    given : name of an input -> float32 (N, frames, dim) or (N, dim), without context frames or states
    """
    metadata = running.get_modelmeta().custom_metadata_map
    if metadata.get("streaming") == "1":
        stream = OnnxStream(running, chunk_outputs)
        rows = [stream.accept(given["input"], given.get("ivector")), stream.finish(given.get("ivector"))]
        return np.concatenate([each for each in rows if each.size], axis=1)
    if metadata.get("edges") == "given":
        context = int(metadata["left_context"]), int(metadata["right_context"])
        given = given | {"input": np.pad(given["input"], ((0, 0), context, (0, 0)), mode="edge")}
    return run(running, *[given[each.name] for each in running.get_inputs()])[0]


def difference_from_compute(model: Nnet | AcousticModel | str | os.PathLike[str], path: str | os.PathLike[str],
                            graph: Graph, options: ExportOptions, frames: int = 40) -> float:
    """The largest difference of an exported model from nnet3py.compute, or for streams from looped computation.

    It is relative to the largest value, on random input. Priors, log-softmax and exponential are not compared.
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
    return float(np.abs(computed - expected).max() / max(np.abs(expected).max(), np.finfo(np.float32).tiny))
