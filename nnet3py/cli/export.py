"""nnet3-export and nnet3-import: models as ONNX, torch, npz or safetensors, and back."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import Options, declared, option
from nnet3py.errors import UsageError
from nnet3py.export.export_options import ALL_OUTPUTS, ExportOptions
from nnet3py.option_fields import settings_of, with_values

if TYPE_CHECKING:
    import numpy as np

FORMATS = ("onnx", "torch", "npz", "safetensors")
ONNX_TOLERANCE = 2e-4        # of the largest value: float32 sums are formed in another order


@kaldi_command("nnet3-export", usage="""
Write a model in a format of other programs. onnx: a graph of standard operators for any number of sequences and frames,
equal to what nnet3-compute gives; torch: a TorchScript file, with nothing merged; npz, safetensors: the numbers alone.

Usage:  nnet3-export [options] <model-in> <file-out>

e.g.:
 nnet3-export final.mdl final.onnx
 nnet3-export --use-priors=true --edges=given final.mdl final.onnx
 nnet3-export --quantize=int16 --quantize-feats=scp:feats.scp final.mdl final.onnx
 nnet3-export --format=npz final.raw final.npz
""", arguments=(2, 2), options=[
    option("format", str, "onnx", "onnx, torch, npz or safetensors"),
    *declared(settings_of(ExportOptions)),
    option("frame-subsampling-factor", int, 0, "Frames of input for each row of output; 0: what the model's "
           "folder says, else 1"),
    option("quantize", str, "", "onnx: int16 (half the size, the same words), int8 (less than a third, nearly the "
           "same) or float16 (computed in it, too); the loss of accuracy is measured"),
    option("quantize-feats", str, "", "Features (rspecifier) on which that is measured, some 30 s of speech; without "
           "them it is measured on random numbers, which says little"),
    option("quantize-ivectors", str, "", "I-vectors (rspecifier) of these utterances; without them they are zero"),
    option("check", bool, True, "Compare the outputs of onnxruntime, if it is installed, with those of nnet3py"),
])
def export(args: list[str], options: Options) -> int:
    """Export a model; 1 if the check fails."""
    if options.format not in FORMATS:
        raise UsageError(f"--format={options.format}: expected one of {', '.join(FORMATS)}")
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


@kaldi_command("nnet3-import", usage="""
Put weights from another program into the model that they came from. What did not change keeps its bytes; learning
rates, natural gradient and the like stay as they are. torch: a TorchScript file, or a state_dict that torch.save wrote.

Usage:  nnet3-import [options] <model-in> <file-in> <nnet-out>

e.g.:
 nnet3-import --format=torch final.raw tuned.pt tuned.raw
""", arguments=(3, 3), options=[
    option("format", str, "onnx", "onnx, torch, npz or safetensors"),
    option("binary", bool, True, "Write the network in binary"),
])
def import_weights(args: list[str], options: Options) -> int:
    """Import weights."""
    from nnet3py.network.model_file import read_nnet

    model, source, target = args
    if options.format not in FORMATS:
        raise UsageError(f"--format={options.format}: expected one of {', '.join(FORMATS)}")
    nnet = read_nnet(model)
    if options.format == "onnx":
        from nnet3py.export.onnx_weights import set_from_onnx

        changed = set_from_onnx(nnet, source)
    elif options.format == "torch":
        from nnet3py.export.torch_module import read_state, set_state

        changed = set_state(nnet, read_state(source))
    else:
        from nnet3py.export.plain_weights import read_weights, set_arrays

        changed = set_arrays(nnet, read_weights(source, options.format), source)
    nnet.write(target, binary=options.binary)
    log.log(f"Wrote {target}: {len(changed)} of the arrays of {model} changed")
    return 0


def _export_options(options: Options) -> ExportOptions:
    factor = options.frame_subsampling_factor or None
    return with_values(ExportOptions(frame_subsampling_factor=factor), options.as_dict())


def _export_onnx(source: str, target: str, options: Options) -> int:
    from nnet3py.export.onnx_file import difference_from_compute, write_onnx

    wanted = _export_options(options)
    if options.quantize:
        from nnet3py.export.quantize import check_kind

        check_kind(options.quantize)
    graph = write_onnx(source, target, wanted)
    log.log(f"Wrote {source} to {target}: outputs {graph.metadata['outputs']}, {len(graph.ops)} operations, left "
            f"context {graph.metadata['left_context']}, right context {graph.metadata['right_context']}")
    if graph.metadata.get("chunk_dependent"):
        log.warning("as in looped computation, the output depends on where chunks end: later frames are read only as "
                    f"far as there are any by {graph.metadata['chunk_dependent']}")
    if options.quantize:
        return _quantize(target, options)
    changed = wanted.use_priors or wanted.log_softmax or wanted.apply_exp
    # the frames before the first of a fixed chunk end chunks that looped computation does not have
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
    """Replace the file by one with smaller numbers."""
    from nnet3py.export.quantize import quantize_file

    loss = quantize_file(target, options.quantize, _utterances(options) if options.quantize_feats else [])
    log.log(f"Quantized {target} to {options.quantize}: {loss.text()}")
    return 0


def _utterances(options: Options) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Features and i-vectors on which the loss is measured."""
    from nnet3py.formats.matrix_files import read_matrices

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
