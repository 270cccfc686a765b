"""Outputs of networks for utterances, nnet3-compute and nnet3-compute-batch, and their computations, nnet3-compile.

nnet3-chain-compute-post: posteriors of pdfs or phones, given outputs and the denominator graph.
"""
from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.nnet.utterances import (
    BATCH,
    IVEC,
    SIMPLE,
    IvectorSource,
    check_ivector_options,
    compute_one,
    compute_options,
    model_for_test,
    with_ivectors,
    write_outputs,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE, OPTIM, optimize_options, set_up, with_default
from nnet3py.cli.process.options import Options, fields_from, option
from nnet3py.errors import ShapeError, UsageError
from nnet3py.runtime.options import BatchOptions

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.chain.denominator import DenominatorComputation
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.nnet import Nnet


_OPTIONS = [
    *with_default(SIMPLE, "acoustic-scale", 1.0), *IVEC,
    option("apply-exp", bool, False, "Write exp(output), such as probabilities of a log-softmax"),
    option("use-priors", bool, False, "Subtract the logs of the priors of the model, which must be an acoustic model"),
]


@kaldi_command("nnet3-compute", "Computing outputs", "Compute a network's output for features.", """
Compute a network's output for the features of utterances, and write a matrix for each. Batch-norm and dropout are in
test mode.

Usage: nnet3-compute [options] <nnet-in> <features-rspecifier> <matrix-wspecifier>

e.g.: nnet3-compute final.raw scp:feats.scp ark:nnet_prediction.ark
""", arguments=(3, 3), options=[*_OPTIONS, *DEVICE])
def compute(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.runtime.compute import UtteranceComputer

    check_ivector_options(options)
    device = set_up(options)
    start = time.perf_counter()
    nnet, priors = model_for_test(args[0], options.use_priors)
    computer = UtteranceComputer(nnet, compute_options(options), priors, device)
    # The writer comes first, so that even an error when a reader closes leaves no output.
    with TableWriter(args[2], FLOAT_MATRIX) as writer, SequentialReader(args[1], FLOAT_MATRIX) as features, \
            IvectorSource(options) as ivectors:
        source = with_ivectors(features, ivectors)
        outputs = computer.compute_all(source, options.online_ivector_period)
        num_done = write_outputs(writer, outputs, options.apply_exp)
    elapsed = time.perf_counter() - start
    factor = elapsed * 100 / max(source.num_frames, 1)
    log.log(f"Time taken {elapsed:.6g}s: real-time factor assuming 100 frames/sec is {factor:.6g}")
    log.log(f"Done {num_done} utterances, failed for {source.num_read - num_done}")
    computer.compiler.log_time()
    return 0 if num_done else 1


@kaldi_command("nnet3-compute-batch", "Computing outputs",
               "Compute a network's output for chunks of many utterances at a time.", """
Compute a network's output for the features of utterances, chunks of many utterances at a time, and write a matrix for
each utterance. Batch-norm and dropout are in test mode. All chunks have one length, and overlap at an utterance's end,
which changes the outputs of recurrent networks a little. nnet3-compute is as fast, and cuts utterances as Kaldi's does.

Usage: nnet3-compute-batch [options] <nnet-in> <features-rspecifier> <matrix-wspecifier>

e.g.: nnet3-compute-batch final.raw scp:feats.scp ark:nnet_prediction.ark
""", arguments=(3, 3), options=[*_OPTIONS, *BATCH, *DEVICE])
def compute_batch(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.runtime.batch import BatchComputer

    check_ivector_options(options)
    device = set_up(options)
    start = time.perf_counter()
    nnet, priors = model_for_test(args[0], options.use_priors)
    computer = BatchComputer(nnet, compute_options(options), fields_from(options, BatchOptions()), priors, device)
    # The writer comes first, so that even an error when a reader closes leaves no output.
    with TableWriter(args[2], FLOAT_MATRIX) as writer, SequentialReader(args[1], FLOAT_MATRIX) as features, \
            IvectorSource(options) as ivectors:
        source = with_ivectors(features, ivectors)
        outputs = computer.compute(source, options.online_ivector_period)
        num_done = write_outputs(writer, outputs, options.apply_exp)
    log.log(f"Time taken {time.perf_counter() - start:.6g}s")
    log.log(f"Done {num_done} utterances, failed for {source.num_read - num_done}")
    computer.compiler.log_time()
    return 0 if num_done else 1


_CHUNK_OPTIONS = ("frames", "frame-subsampling-factor", "extra-left-context", "extra-right-context")
_REQUEST_OPTIONS = ("input", "output", "train", "input-derivs", "store-stats", "num-sequences")


@kaldi_command("nnet3-compile", "Models", "Show the computation compiled for a network and a request.", """
Compile a computation request for a network, and print a report: how each pass of the optimizer changes the number of
commands, the listing, the matrices with their lifetimes, the peak memory, and the operations of each component.

The request is for chunks of --frames frames with the context that the network needs; or for the times in --input and
--output; or it is read from the file --request, with lines such as
 input input has_deriv=0 0,-1,0 0,0,0 0,1,0     (n,t,x of each row)
 output output has_deriv=1 0,0,0
 need_model_derivative=1
 store_component_stats=0

Usage:  nnet3-compile [options] <raw-nnet-or-model>

e.g.:
 nnet3-compile --frames=150 --frame-subsampling-factor=3 --num-sequences=64 --train final.mdl
 nnet3-compile --input=input:-5:9,ivector:0 --output=output:0:4 --passes=all --svg=drawings 0.raw
""", arguments=(1, 1), options=[
    option("request", str, "", "Rxfilename of a computation request"),
    option("input", str, "", "Inputs and their times, with commas: NAME:T, NAME:FIRST:LAST or NAME:FIRST:LAST:STEP"),
    option("output", str, "", "Outputs and their times, in the same form; without --input only names (empty: output)"),
    option("frames", int, 20, "Frames of a chunk, without context", least=1),
    option("frame-subsampling-factor", int, 1, "Input frames per output frame", least=1),
    option("extra-left-context", int, 0, "Frames of left context in addition to the network's own", least=0),
    option("extra-right-context", int, 0, "Frames of right context in addition to the network's own", least=0),
    option("num-sequences", int, 1, "Sequences with the same times", least=1),
    option("train", bool, False, "Compute derivatives of the parameters from derivatives of the outputs"),
    option("input-derivs", str, "", "Inputs whose derivatives are computed, with commas"),
    option("store-stats", bool, False, "Components accumulate statistics"),
    option("passes", str, "", "Show the listing after these passes, with commas: their options' names, 'unoptimized' "
           "or 'all'"),
    option("verbose-passes", bool, False, "Show the listing after every pass; the same as --passes=all"),
    option("summary", bool, False, "Leave out the listing and the list of matrices"),
    option("svg", str, "", "Draw network, graph and memory: a folder, or a file NAME.svg with one below the other"),
    *OPTIM,
])
def compile_request(args: list[str], options: Options) -> int:
    from nnet3py.io.streams import write_text
    from nnet3py.network.model_file import read_nnet
    from nnet3py.report.tables import chosen_passes, compilation_steps, report

    _check_options(options)
    nnet = read_nnet(args[0])
    request = _request(nnet, options)
    steps = list(compilation_steps(nnet, request, optimize_options(options)))
    chosen = chosen_passes("all" if options.verbose_passes else options.passes, steps)
    if options.svg:
        from nnet3py.report.drawings import write_drawings

        for path in write_drawings(options.svg, nnet, request, steps[-1][1]):
            log.log(f"Wrote {path}")
    write_text("-", report(nnet, request, steps, chosen, options.summary))
    return 0


def _check_options(options: Options) -> None:
    """Raise UsageError if an option has no effect beside another one."""
    if options.request:
        other = "request"
        ignored = [name for name in (*_CHUNK_OPTIONS, *_REQUEST_OPTIONS) if options.given(name)]
    else:
        other = "input"
        ignored = [name for name in _CHUNK_OPTIONS if options.given(name)] if options.input else []
    if ignored:
        raise UsageError(f"--{ignored[0]} has no effect with --{other}", "leave out one of the two")
    if options.input and not options.output:
        raise UsageError("--input without --output: the request has no outputs", "give --output=NAME:FIRST:LAST too")


def _request(nnet: Nnet, options: Options) -> ComputationRequest:
    from nnet3py.report.requests import natural_request, parse_request, range_request

    if options.request:
        from nnet3py.io.streams import complete_input

        with complete_input(options.request) as stream:
            return parse_request(stream.read().decode("utf-8", "replace"), options.request)
    derivs = [name.strip() for name in options.input_derivs.split(",") if name.strip()]
    if options.input:
        return range_request(options.input, options.output, options.num_sequences, options.train, derivs,
                             options.store_stats)
    outputs = [name.strip() for name in (options.output or "output").split(",")]
    for name in outputs:
        if ":" in name:
            raise UsageError(f"--output={name} has a range of frames, but --input was not given",
                             "give --input=NAME:FIRST:LAST too, or only the names of outputs")
    return natural_request(nnet, options.frames, options.num_sequences, options.frame_subsampling_factor,
                           options.train, outputs, derivs, options.store_stats, options.extra_left_context,
                           options.extra_right_context)


@kaldi_command("nnet3-chain-compute-post", "Chain training",
               "Compute posteriors of pdfs or phones by the denominator graph.", """
Compute, for each frame of utterances, the posteriors of pdfs given the network's output and the denominator graph,
without a transcript, and write a matrix for each utterance. With --transform-mat, posteriors of pdfs become posteriors
of phones, or of other classes, which are the rows of that matrix.

Usage: nnet3-chain-compute-post [options] <nnet-in> <den-fst> <features-rspecifier> <matrix-wspecifier>

e.g.: nnet3-chain-compute-post --frame-subsampling-factor=3 final.raw den.fst scp:feats.scp ark:post.ark
See also: nnet3-compute, chain-make-den-fst
""", arguments=(4, 4), options=[
    *with_default(SIMPLE, "acoustic-scale", 1.0), *IVEC,
    option("leaky-hmm-coefficient", float, 0.1,
           "Probability, for each frame, of going to any state of the denominator graph", above=0, below=1),
    option("transform-mat", str, "", "Matrix (phones, pdfs) by which posteriors are multiplied"),
    *DEVICE,
])
def compute_post(args: list[str], options: Options) -> int:
    from nnet3py.chain.den_graph import read_den_graph
    from nnet3py.chain.denominator import DenominatorComputation
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.ops import get_ops
    from nnet3py.runtime.compute import UtteranceComputer

    check_ivector_options(options)
    device = set_up(options)
    nnet, _ = model_for_test(args[0], use_priors=False)
    num_pdfs = nnet.output_dim("output")
    denominator = DenominatorComputation(get_ops("cpu"), read_den_graph(args[1], num_pdfs),
                                         options.leaky_hmm_coefficient)
    transform = _transform(options.transform_mat, num_pdfs)
    computer = UtteranceComputer(nnet, compute_options(options), None, device)
    num_done = num_failed = num_frames = 0
    with TableWriter(args[3], FLOAT_MATRIX) as writer, SequentialReader(args[2], FLOAT_MATRIX) as features, \
            IvectorSource(options) as ivectors:
        for key, feats in features:
            output = compute_one(computer, ivectors, key, feats, options.online_ivector_period)
            posteriors = None if output is None else _posteriors(denominator, output, key)
            if posteriors is None:
                num_failed += 1
                continue
            writer.write(key, posteriors if transform is None else posteriors @ transform.T)
            num_done += 1
            num_frames += len(feats)
    log.log(f"Done {num_done} utterances, failed for {num_failed}; {num_frames} frames")
    return 0 if num_done else 1


def _transform(rxfilename: str, num_pdfs: int) -> np.ndarray | None:
    if not rxfilename:
        return None
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import read_matrix_file

    matrix = read_matrix_file(rxfilename)
    check_finite(matrix, f"the matrix {rxfilename}")
    if matrix.shape[1] != num_pdfs:
        raise ShapeError(f"--transform-mat has {matrix.shape[1]} columns, but the network's output has the dimension "
                         f"{num_pdfs}", "its rows are phones, its columns pdfs")
    return matrix


def _posteriors(denominator: DenominatorComputation, output: np.ndarray, key: str) -> np.ndarray | None:
    """Compute the posteriors of pdfs, float32 (frames, pdfs); None, with a warning, if the computation fails."""
    import numpy as np

    posteriors = np.zeros(output.shape, dtype=np.float32)
    result = denominator.compute(np.ascontiguousarray(output, dtype=np.float32), 1, posteriors, scale=1.0)
    if not result.ok or not np.isfinite(result.log_prob):
        log.warning(f"utterance {key}: the denominator computation failed")
        return None
    return posteriors
