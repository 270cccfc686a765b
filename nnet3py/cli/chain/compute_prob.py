"""nnet3-chain-compute-prob: the LF-MMI objective of a network on examples."""
from __future__ import annotations

import os

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.training.train_setup import CHAIN, PROB, chain_options

_PROB = tuple(
    declared.but(help="No effect: chain outputs have no accuracy") if "accuracy" in declared.name else declared
    for declared in PROB)


@kaldi_command("nnet3-chain-compute-prob", group="Chain training", help="Print the LF-MMI objective on examples.",
               usage="""
Log a network's LF-MMI objective per frame on (merged) chain examples. With a folder of graphs, LANGUAGE.den.fst, in
place of the denominator FST, examples are of several languages, as for nnet3-chain-train2.

Usage:  nnet3-chain-compute-prob [options] <nnet-in> <denominator-fst-in> <training-examples-in>

e.g.: nnet3-chain-compute-prob 0.mdl den.fst ark:valid.cegs
""", arguments=(3, 3), options=[
    option("batchnorm-test-mode", bool, True, "Normalize with the stored statistics, not with the minibatch's"),
    option("dropout-test-mode", bool, True, "Compute without dropout"),
    *CHAIN, *_PROB, *DEVICE,
])
def compute_prob(args: list[str], options: Options) -> int:
    """Print the objective; 1 if no output had any weight."""
    from nnet3py.cli.chain.setup import examples
    from nnet3py.cli.process.compute_setup import compiler_options, log_diagnostics, optimize_options, set_up
    from nnet3py.egs.chain_example import read_chain_egs
    from nnet3py.network.model_file import read_nnet
    from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
    from nnet3py.training.chain_objective import graph_folder, one_graph
    from nnet3py.training.chain_trainer import ChainDiagnosticOptions, ChainDiagnostics

    device, objective = set_up(options), chain_options(options)
    nnet = read_nnet(args[0])
    if options.batchnorm_test_mode:
        set_batchnorm_test_mode(nnet, True)
    if options.dropout_test_mode:
        set_dropout_test_mode(nnet, True)
    by_language = os.path.isdir(args[1])
    graphs = (graph_folder if by_language else one_graph)(nnet, args[1])
    diagnostics = ChainDiagnostics(nnet, graphs, ChainDiagnosticOptions(
        chain=objective, optimize=optimize_options(options), compiler=compiler_options(options),
        debug=options["computation.debug"], device=device))
    return log_diagnostics(diagnostics, examples(read_chain_egs(args[2]), by_language))
