"""From a model to its list of operations: selection of outputs, form for inference, metadata."""
from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import with_children
from nnet3py.components.normalize import BatchNormComponent
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.export import limits
from nnet3py.export.export_options import ALL_OUTPUTS, ExportOptions
from nnet3py.export.operations import Graph, InputSpec
from nnet3py.export.plain_weights import as_it_is
from nnet3py.export.walk import GraphOptions, Walk
from nnet3py.network.inference import compute_only, prepare_for_test
from nnet3py.network.model_file import read_nnet
from nnet3py.network.model_place import subsampling_beside
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import orphan_nodes, remove_nodes, remove_orphan_components
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel

VERSION = "1"                  # version of the metadata


def read(model: Nnet | AcousticModel | str | os.PathLike[str],
         use_priors: bool = False) -> tuple[Nnet, np.ndarray | None]:
    """Return the network of a model, and its priors if requested.

    Raises Nnet3Error for a file that cannot be read, or missing priors.
    """
    from nnet3py.acoustic_model import AcousticModel, read_model

    if isinstance(model, str | os.PathLike):
        model = read_model(model) if use_priors else read_nnet(model)
    if not isinstance(model, AcousticModel):
        if use_priors:
            raise UsageError("priors are wanted, but a network has none", "give an acoustic model, final.mdl")
        return model, None
    if use_priors and not len(model.priors):
        raise Nnet3Error("the acoustic model has no priors", "set them with nnet3-am-adjust-priors")
    return model.nnet, model.priors if use_priors else None


def select_outputs(nnet: Nnet, output: str) -> Nnet:
    """Return a copy with one node as ``output``, or with all outputs, without nodes that are not needed."""
    nnet = nnet.copy()
    if output != ALL_OUTPUTS:
        compute_only(nnet, output)
        return nnet
    remove_nodes(nnet, [i for i in orphan_nodes(nnet) if not nnet.is_input(i)])
    remove_orphan_components(nnet)
    return nnet


def in_test_mode(nnet: Nnet, collapse: bool) -> Nnet:
    """Switch a network to test mode and, with ``collapse``, merge affine components, in place; return it."""
    if collapse:
        return prepare_for_test(nnet)
    set_batchnorm_test_mode(nnet, True)
    set_dropout_test_mode(nnet, True)
    return nnet


def begin_statistics(nnet: Nnet) -> None:
    """Set mean 0 and variance 1, as PyTorch does, in batch normalization without statistics, in place."""
    for component in with_children(nnet.components):
        if isinstance(component, BatchNormComponent) and component.count[0] == 0:
            component.count[:], component.sumsq[:] = 1, 1


def graph_of(model: Nnet | AcousticModel | str | os.PathLike[str], options: ExportOptions,
             needs_statistics: bool = True) -> Graph:
    """Return the operations of a model.

    ``needs_statistics`` : whether batch normalization without statistics is an error

    Raises Nnet3Error for a network that cannot be exported, with all reasons.
    """
    options.check()
    nnet, priors = read(model, options.use_priors)
    factor = options.frame_subsampling_factor
    if factor is None:
        factor = subsampling_beside(nnet.path)
    selected = select_outputs(nnet, options.output)
    if not needs_statistics:
        begin_statistics(selected)
    limits.check(selected)
    network = as_it_is(selected)
    prepared = in_test_mode(selected, options.collapse)
    if options.collapse:
        network = as_it_is(prepared)
    walk = Walk(prepared, GraphOptions(
        "stream" if options.streaming else options.edges, factor, priors, options.log_softmax, options.apply_exp,
        options.chunk_outputs if options.fixed_chunks else 0))
    _check_chunks(options.chunk_outputs, math.lcm(walk.nnet.modulus(), factor) // factor)
    graph = walk.graph()
    graph.network = network
    graph.metadata = {**_metadata(walk, graph, options), **options.more_metadata()}
    return graph


def _check_chunks(chunk_outputs: int, unit: int) -> None:
    if chunk_outputs % unit:
        raise UsageError(f"--chunk-outputs={chunk_outputs}: the network computes blocks of {unit} rows of output",
                         f"give a multiple, such as {chunk_outputs + -chunk_outputs % unit}")


def _chunk_metadata(graph: Graph, options: ExportOptions, spec: InputSpec) -> dict[str, str]:
    """Return the metadata about the sizes of a stream's chunks; sizes that are not fixed are left out."""
    factor = graph.frame_subsampling_factor
    shift = options.chunk_outputs * factor
    if graph.fixed:
        first_input = graph.fixed.first_time - factor + spec.right + 1
        return {**_chunk_sizes(shift, shift), "left_context": str(-first_input), "fixed_chunks": "1",
                "discarded_outputs": str(-graph.fixed.first_time // factor)}
    return _chunk_sizes(spec.left + spec.right + shift - factor + 1, shift) if shift else {}


def _chunk_sizes(length: int, shift: int) -> dict[str, str]:
    """Return the metadata from which sherpa-onnx reads the size of a chunk: ``length`` frames, ``shift`` of them new.

    The same sizes are repeated under each key that one of sherpa-onnx's model classes looks up.
    """
    return {**dict.fromkeys(("chunk_length", "window_size", "T"), str(length)),
            **dict.fromkeys(("chunk_shift", "decode_chunk_len"), str(shift))}


def _metadata(walk: Walk, graph: Graph, options: ExportOptions) -> dict[str, str]:
    dims = {spec.name: spec.dim for spec in graph.inputs}
    timed = [spec for spec in graph.inputs if spec.has_time]
    entries = {
        "producer": "nnet3py", "model_type": "nnet3", "version": VERSION, "modulus": str(walk.nnet.modulus()),
        "left_context": str(timed[0].left if timed else 0), "right_context": str(timed[0].right if timed else 0),
        **dict.fromkeys(("frame_subsampling_factor", "subsampling_factor"), str(graph.frame_subsampling_factor)),
        "edges": graph.edges,
        "input_dim": str(dims.get("input", 0)), "ivector_dim": str(dims.get("ivector", 0)),
        "output_dim": str(graph.outputs[0][1].dim), "vocab_size": str(graph.outputs[0][1].dim),
        "outputs": ",".join(name for name, _ in graph.outputs), "exported_output": options.output,
        "use_priors": str(int(options.use_priors)), "log_softmax": str(int(options.log_softmax)),
        "apply_exp": str(int(options.apply_exp)), "collapsed": str(int(options.collapse)),
        "streaming": str(int(options.streaming)),
    }
    if graph.states:
        entries["state_names"] = ",".join(state.name for state in graph.states)
        entries["state_frames"] = ",".join(str(state.frames_at_start) for state in graph.states)
        entries["state_dims"] = ",".join(str(state.dim) for state in graph.states)
        entries |= _chunk_metadata(graph, options, timed[0])
        entries["chunk_dependent"] = ",".join(limits.chunk_dependent(walk.nnet, walk.times))
    return {**entries, "comment": options.comment} if options.comment else entries

