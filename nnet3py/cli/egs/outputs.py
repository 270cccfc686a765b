"""Outputs of networks for training examples, and LDA statistics of the outputs.

nnet3-compute-from-egs, nnet3-acc-lda-stats and nnet3-chain-acc-lda-stats.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE, compiler_options, set_up, with_default
from nnet3py.cli.process.options import BINARY, Options, option
from nnet3py.errors import ShapeError, within

if TYPE_CHECKING:
    from nnet3py.egs.discriminative_example import NnetDiscriminativeExample
    from nnet3py.egs.example import NnetExample


@kaldi_command("nnet3-compute-from-egs", "Computing outputs", "Compute a network's output for examples.", """
Compute a network's output for (merged) training examples, at their supervised frames, and write a matrix for each
example. The network is used as it is, usually in training mode; nnet3-copy --prepare-for-test puts it in test mode.

Usage:  nnet3-compute-from-egs [options] <raw-nnet-in> <training-examples-in> <matrices-out>

e.g.:
 nnet3-compute-from-egs --apply-exp=true 0.raw ark:1.egs ark:- | matrix-sum-rows ark:- ark:- | vector-sum ark:- 1.vec
""", arguments=(3, 3), options=[
    BINARY,
    option("apply-exp", bool, False, "Write exp(output), such as probabilities of a log-softmax"),
    option("output-name", str, "output", "The output node that is computed"),
    *DEVICE,
])
def compute_from_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.example import read_egs

    return write_outputs(args, options, read_egs(args[1]), options.output_name)


def write_outputs(args: list[str], options: Options,
                  examples: Iterable[tuple[str, NnetExample | NnetDiscriminativeExample]], output_name: str) -> int:
    """Write the outputs of the network ``args[0]`` for examples to the table ``args[2]``; return 0."""
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import TableWriter
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.example_computation import ExampleOutputs

    outputs = ExampleOutputs(read_nnet(args[0]), set_up(options), compiler_options(options))
    num_done = 0
    with TableWriter(args[2], FLOAT_MATRIX) as writer:
        for key, eg in examples:
            with within(f"example {key}"):
                output = outputs.compute(eg, output_name)
            writer.write(key, np.exp(output) if options.apply_exp else output)
            num_done += 1
    log.log(f"Processed {num_done} examples.")
    outputs.compiler.log_time()
    return 0


_LDA_OPTIONS = (
    BINARY,
    option("rand-prune", float, 0.0,
           "Round weights below this at random to zero or to this value, which saves time if there are many "
           "(0: keep them)", least=0),
    *with_default(DEVICE, "use-gpu", "no"),
)


@kaldi_command("nnet3-acc-lda-stats", "Training", "Gather LDA statistics of outputs for examples.", """
Accumulate the statistics from which nnet-get-feature-transform estimates a transform like that of linear discriminant
analysis (LDA): for each class, the count and the sum of a network's output for (merged) training examples, and the
total second-order statistics. The network usually only splices frames.

Usage:  nnet3-acc-lda-stats [options] <raw-nnet-in> <training-examples-in> <lda-stats-out>

e.g.:
 nnet3-acc-lda-stats 0.raw ark:1.egs 1.acc
""", arguments=(3, 3), options=_LDA_OPTIONS)
def acc_lda_stats(args: list[str], options: Options) -> int:
    from nnet3py.egs.example import read_egs

    return _acc_lda_stats(args, options, read_egs(args[1]), lambda eg: eg)


@kaldi_command("nnet3-chain-acc-lda-stats", "Chain training",
               "Gather LDA statistics of outputs for chain examples.", """
Accumulate the statistics from which nnet-get-feature-transform estimates a transform like that of linear discriminant
analysis (LDA): for each pdf, the count and the sum of a network's output for chain examples, which must not be merged,
and the total second-order statistics. The network usually only splices frames.

Usage:  nnet3-chain-acc-lda-stats [options] <raw-nnet-in> <training-examples-in> <lda-stats-out>

e.g.:
 nnet3-chain-acc-lda-stats 0.raw ark:1.cegs 1.acc
""", arguments=(3, 3), options=_LDA_OPTIONS)
def chain_acc_lda_stats(args: list[str], options: Options) -> int:
    from nnet3py.egs.chain_example import read_chain_egs
    from nnet3py.training.lda_stats import frame_example

    return _acc_lda_stats(args, options, read_chain_egs(args[1]), frame_example)


def _acc_lda_stats(args: list[str], options: Options, examples: Iterable[tuple[str, Any]],
                   frame_level: Callable[[Any], NnetExample]) -> int:
    from nnet3py.io.object_files import write_object
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.example_computation import ExampleOutputs
    from nnet3py.training.lda_stats import LdaAccumulator

    outputs = ExampleOutputs(read_nnet(args[0]), set_up(options), compiler_options(options))
    accumulator = LdaAccumulator(options.rand_prune)
    num_done = 0
    for key, example in examples:
        with within(f"example {key}"):
            eg = frame_level(example)
            supervised = eg.find("output")
            if supervised is None:
                raise ShapeError("the example has no output named 'output'")
            accumulator.add(outputs.compute(eg), supervised.features)
        num_done += 1
    log.log(f"Processed {num_done} examples.")
    stats = accumulator.stats()
    write_object(args[2], stats.write, options.binary)
    log.log(f"Accumulated stats, soft frame count = {accumulator.count:.6g}.  Wrote to {args[2]}", "WriteStats")
    outputs.compiler.log_time()
    return 0
