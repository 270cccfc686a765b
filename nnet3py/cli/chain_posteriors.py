"""nnet3-chain-compute-post and nnet3-chain-add-post-to-egs: posteriors of pdfs by the denominator graph."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.option_groups import DEVICE, IVEC, NUM_THREADS, SIMPLE, with_default
from nnet3py.cli.options import Options, option
from nnet3py.cli.utterances import IvectorSource, check_ivector_options, compute_options, model_for_test
from nnet3py.errors import UsageError, within

if TYPE_CHECKING:
    import numpy as np

LEAKY = option("leaky-hmm-coefficient", float, 0.1,
               "Probability, for each frame, of going to any state of the denominator graph")


@kaldi_command("nnet3-chain-compute-post", usage="""
Compute posteriors of pdfs, or with --transform-mat of phones, from features: by the forward-backward computation over
the denominator graph of a chain model.

Usage: nnet3-chain-compute-post [options] <nnet-in> <den-fst> <features-rspecifier> <matrix-wspecifier>

e.g.: nnet3-chain-compute-post --transform-mat=transform.mat final.raw den.fst scp:feats.scp ark:nnet_prediction.ark
""", arguments=(4, 4), options=[
    LEAKY,
    option("transform-mat", str, "", "Matrix (phones, pdfs) that posteriors are multiplied with"),
    *with_default(SIMPLE, "acoustic-scale", 1.0), *IVEC, *DEVICE,
])
def compute_post(args: list[str], options: Options) -> int:
    """Compute posteriors of utterances; 1 if none succeeded."""
    from nnet3py.chain.den_graph import read_den_graph
    from nnet3py.cli.compute import compute_one
    from nnet3py.cli.compute_setup import set_up
    from nnet3py.io.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.runtime.compute import UtteranceComputer
    from nnet3py.training.chain_posteriors import PosteriorComputation, transformed

    check_ivector_options(options)
    device = set_up(options)
    nnet, _ = model_for_test(args[0], use_priors=False)
    posteriors = PosteriorComputation(read_den_graph(args[1], nnet.output_dim("output")),
                                      options.leaky_hmm_coefficient)
    transform = _read_transform(options.transform_mat)
    computer = UtteranceComputer(nnet, compute_options(options), None, device)
    num_done = num_failed = 0
    with TableWriter(args[3], FLOAT_MATRIX) as writer, SequentialReader(args[2], FLOAT_MATRIX) as features, \
            IvectorSource(options) as ivectors:
        for key, feats in features:
            output = compute_one(computer, ivectors, key, feats, options)
            if output is None:
                num_failed += 1
                continue
            with within(f"utterance {key}"):
                writer.write(key, transformed(posteriors.compute(output), transform))
            num_done += 1
    log.log(f"Done {num_done} utterances, failed for {num_failed}")
    computer.compiler.log_time()
    return 0 if num_done else 1


def _read_transform(rxfilename: str) -> np.ndarray | None:
    from nnet3py.io.matrices import read_matrix
    from nnet3py.io.object_files import read_object

    return read_object(rxfilename, read_matrix) if rxfilename else None


@kaldi_command("nnet3-chain-add-post-to-egs", usage="""
Add posteriors of pdfs, computed with a model, to chain examples; nnet3-chain-train adds them to its derivatives with
--lwf-scale, so that a network that is trained on other data forgets less (learning without forgetting).

Usage: nnet3-chain-add-post-to-egs [options] <nnet-in> <den-fst> <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-add-post-to-egs --type=den final.raw den.fst ark:1.cegs ark:1.lwf.cegs
""", arguments=(4, 4), options=[
    LEAKY,
    option("type", str, "raw", "raw: the network's output; den: posteriors by the denominator graph",
           choices=("raw", "den")),
    option("apply-exp", bool, True, "With --type=raw: add exp(output)"),
    option("clip-threshold", float, 0.0, "Posteriors below this become 0"),
    option("compiler.cache-dir", str, "", "Folder where compiled computations are kept"), NUM_THREADS,
])
def add_post_to_egs(args: list[str], options: Options) -> int:
    """Add posteriors to examples."""
    from nnet3py.chain.den_graph import read_den_graph
    from nnet3py.cli.compute_setup import compiler_options
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE, read_chain_egs
    from nnet3py.io.tables import TableWriter
    from nnet3py.ops.threads import set_num_threads
    from nnet3py.training.chain_posteriors import PosteriorAdder, PosteriorComputation

    if not options.clip_threshold >= 0.0:
        raise UsageError(f"--clip-threshold={options.clip_threshold:g} must be 0 or more")
    if options.num_threads:
        set_num_threads(options.num_threads)
    nnet, _ = model_for_test(args[0], use_priors=False)
    posteriors = PosteriorComputation(read_den_graph(args[1], nnet.output_dim("output")),
                                      options.leaky_hmm_coefficient) if options.type == "den" else None
    adder = PosteriorAdder(nnet, posteriors, options.apply_exp, options.clip_threshold, compiler_options(options))
    num_done = 0
    with TableWriter(args[3], CHAIN_EXAMPLE) as writer:
        for key, eg in read_chain_egs(args[2]):
            with within(f"example {key}"):
                writer.write(key, adder.add(eg))
            num_done += 1
    log.log(f"Added posteriors to {num_done} examples.")
    adder.compiler.log_time()
    return 0 if num_done else 1
