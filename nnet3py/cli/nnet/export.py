"""nnet3-export and nnet3-import: models as ONNX, torch, npz or safetensors, and back."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import UsageError
from nnet3py.export.export_options import ALL_OUTPUTS, ExportOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.acoustic_model import AcousticModel

FORMATS = ("onnx", "torch", "npz", "safetensors")
ONNX_TOLERANCE = 2e-4        # relative to the largest value: float32 sums are formed in another order


@kaldi_command("nnet3-export", "Models", "Write a model as ONNX, torch, npz or safetensors.", """
Write a model in a format of other programs. onnx: a graph of standard operators for any number of sequences and frames,
whose output is that of nnet3-compute; torch: a TorchScript file with all components as they are; npz, safetensors: only
the arrays of parameters.

Usage:  nnet3-export [options] <model-in> <file-out>

e.g.:
 nnet3-export final.mdl final.onnx
 nnet3-export --use-priors=true --edges=given final.mdl final.onnx
 nnet3-export --quantize=int16 --quantize-feats=scp:feats.scp final.mdl final.onnx
 nnet3-export --format=npz final.raw final.npz
""", arguments=(2, 2), options=[
    option("format", str, "onnx", "onnx, torch, npz or safetensors", choices=FORMATS),
    *declared(settings_of(ExportOptions)),
    option("frame-subsampling-factor", int, 0, "Frames of input for each row of output; 0: the factor in the model's "
           "folder, else 1"),
    option("quantize", str, "", "onnx: int16 (half the size, the same words), int8 (less than a third of the size, "
           "nearly the same words) or float16 (half the size, computed in float16); the loss of accuracy is measured"),
    option("quantize-feats", str, "", "Features (rspecifier) on which the loss is measured, some 30 s of speech; "
           "without them it is measured on random numbers, which says little about speech"),
    option("quantize-ivectors", str, "", "I-vectors (rspecifier) of the utterances of --quantize-feats; empty: zero"),
    option("check", bool, True, "Compare the outputs of onnxruntime, if it is installed, with those of nnet3py"),
])
def export(args: list[str], options: Options) -> int:
    source, target = args
    if options.format == "onnx":
        return _export_onnx(source, target, options)
    if options.format == "torch":
        from nnet3py.export.torch_module import write_torch

        write_torch(source, target, _export_options(options))
        log.log(f"Wrote {source} to {target}")
        return 0
    from nnet3py.export.plain_weights import write_weights
    from nnet3py.network.model_file import read_nnet

    write_weights(read_nnet(source), target, options.format)
    log.log(f"Wrote the numbers of {source} to {target}")
    return 0


@kaldi_command("nnet3-import", "Models",
               "Make a model from an ONNX file, or put weights of other formats into one.", """
Put weights that another program changed into the model that was exported to that program. Weights that did not change
keep their bytes. Learning rates and other settings of components stay as they are, as do the transition model and
priors of an acoustic model. torch: a TorchScript file, or a state_dict that torch.save wrote.

Without <model-in>, an ONNX file becomes a network. A file that nnet3-export wrote contains the network; other files are
converted operator by operator, and an operator without counterpart in nnet3 is an error.

Usage:  nnet3-import [options] <model-in> <file-in> <model-out>
  or:   nnet3-import [options] <onnx-in> <model-out>

e.g.:
 nnet3-import --format=torch final.mdl tuned.pt tuned.mdl
 nnet3-import --like=final.mdl net.onnx net.mdl
""", arguments=(2, 3), options=[
    option("format", str, "onnx", "onnx, torch, npz or safetensors", choices=FORMATS),
    option("like", str, "", "Acoustic model whose transition model and priors are put into the result"),
    option("raw", bool, False, "Write only the network, even if <model-in> is an acoustic model"),
    option("padding", str, "zeros", "Without <model-in>: zeros, as in the graph; or replicate, which repeats the first "
           "and last frames where the graph's convolutions have zeros", choices=("zeros", "replicate")),
    option("check", bool, True, "Compare a converted network with onnxruntime's outputs, if onnxruntime is installed"),
    option("binary", bool, True, "Write the model in binary"),
])
def import_weights(args: list[str], options: Options) -> int:
    from nnet3py.acoustic_model import acoustic_model

    if options.raw and options.like:
        raise UsageError("--raw and --like cannot both be given: --raw writes a network without transition model",
                         "leave out one of the two")
    like = acoustic_model(options.like) if options.like else None
    if len(args) == 2:
        return _import_network(args[0], args[1], options, like)
    _set_weights(args, options, like)
    return 0


def _import_network(source: str, target: str, options: Options, like: AcousticModel | None) -> int:
    """Write the network of an ONNX file; return 1, without writing, if its outputs differ from onnxruntime's."""
    from nnet3py.export.from_onnx import imported
    from nnet3py.export.onnx_import import read_onnx

    if options.format != "onnx":
        raise UsageError(f"--format={options.format}: such files contain weights only, so a model is needed",
                         f"give the model that was exported: nnet3-import MODEL-IN {source} {target}")
    nnet, foreign = imported(read_onnx(source), options.padding)
    model = nnet if like is None else like.with_network(nnet)
    if foreign is not None and options.check and _has_runtime():
        from nnet3py.export.export_onnx import difference_from_onnx

        if foreign.has_zeros and options.padding != "zeros":
            log.log("The network is not compared with onnxruntime: it repeats frames where the graph has zeros")
        else:
            difference = difference_from_onnx(foreign, source)
            log.log(f"onnxruntime and nnet3py differ by {difference:.1e} of the largest value")
            if difference > ONNX_TOLERANCE:
                log.error(f"the imported network differs by more than {ONNX_TOLERANCE:g}; it was not written")
                return 1
    model.write(target, binary=options.binary)
    log.log(f"Wrote {target}: the network of {source}, {nnet.num_parameters()} parameters")
    return 0


def _set_weights(args: list[str], options: Options, like: AcousticModel | None) -> None:
    """Write the model ``args[0]``, with the weights in the file ``args[1]``, to ``args[2]``."""
    from nnet3py.acoustic_model import read_network_or_model
    from nnet3py.network.model_file import network_of

    place, source, target = args
    model = read_network_or_model(place)
    nnet = network_of(model)
    if options.format == "onnx":
        from nnet3py.export.from_onnx import set_from_onnx

        changed = set_from_onnx(nnet, source)
    elif options.format == "torch":
        from nnet3py.export.torch_module import read_state, set_state

        changed = set_state(nnet, read_state(source))
    else:
        from nnet3py.export.plain_weights import read_weights, set_arrays

        changed = set_arrays(nnet, read_weights(source, options.format), source)
    if like is not None:
        model = like.with_network(nnet)
    (nnet if options.raw else model).write(target, binary=options.binary)
    log.log(f"Wrote {target}: {len(changed)} of the arrays of {place} changed")


def _export_options(options: Options) -> ExportOptions:
    factor = options.frame_subsampling_factor or None
    return fields_from(options, ExportOptions(frame_subsampling_factor=factor))


def _export_onnx(source: str, target: str, options: Options) -> int:
    from nnet3py.export.export_onnx import difference_from_compute, write_onnx

    wanted = _export_options(options)
    if options.quantize:
        from nnet3py.export.quantize import check_kind

        check_kind(options.quantize)
    graph = write_onnx(source, target, wanted)
    log.log(f"Wrote {source} to {target}: outputs {graph.metadata['outputs']}, {len(graph.ops)} operations, left "
            f"context {graph.metadata['left_context']}, right context {graph.metadata['right_context']}")
    if graph.metadata.get("chunk_dependent"):
        log.warning("The output depends on where chunks end, as in looped computation: these nodes read later frames "
                    f"only up to the end of their chunk: {graph.metadata['chunk_dependent']}")
    if options.quantize:
        return _quantize(target, options)
    changed = wanted.use_priors or wanted.log_softmax or wanted.apply_exp
    # With fixed chunks, the left context of the first chunk ends chunks that looped computation does not have.
    is_other = graph.edges == "none" or wanted.fixed_chunks and graph.metadata["chunk_dependent"]
    is_other = is_other or not {spec.name for spec in graph.inputs} <= {"input", "ivector"}
    if not options.check or changed or is_other or wanted.output == ALL_OUTPUTS or not _has_runtime():
        return 0
    difference = difference_from_compute(source, target, graph, wanted)
    log.log(f"onnxruntime and nnet3py differ by {difference:.1e} of the largest value")
    if difference > ONNX_TOLERANCE:
        log.error(f"the exported model differs by more than {ONNX_TOLERANCE:g}")
        return 1
    return 0


def _quantize(target: str, options: Options) -> int:
    """Replace an ONNX file by a quantized one, log the loss of accuracy, and return 0."""
    from nnet3py.export.quantize import quantize

    loss = quantize(target, target, options.quantize, _utterances(options) if options.quantize_feats else [])
    log.log(f"Quantized {target} to {options.quantize}: {loss.text()}")
    return 0


def _utterances(options: Options) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Read the features and i-vectors (None if there are none) with which the loss of accuracy is measured."""
    from nnet3py.formats.holders import read_matrices

    by_key = dict(read_matrices(options.quantize_feats))
    if not by_key:
        raise UsageError(f"there are no features in {options.quantize_feats}")
    ivectors = _ivectors(options.quantize_ivectors) if options.quantize_ivectors else {}
    missing = [key for key in by_key if ivectors and key not in ivectors]
    if missing:
        raise UsageError(f"there is no i-vector of {missing[0]} in {options.quantize_ivectors}")
    return [(feats, ivectors.get(key)) for key, feats in by_key.items()]


def _ivectors(rspecifier: str) -> dict[str, np.ndarray]:
    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.io.tables import SequentialReader

    with SequentialReader(rspecifier, FLOAT_VECTOR) as reader:
        return dict(reader)


def _has_runtime() -> bool:
    from importlib.util import find_spec

    return find_spec("onnxruntime") is not None
