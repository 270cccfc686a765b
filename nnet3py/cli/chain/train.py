"""Training a network on chain examples, its objective, the average of the last models, and posteriors for examples.

nnet3-chain-train, nnet3-chain-train2, nnet3-chain-compute-prob, nnet3-chain-combine, nnet3-chain-combine2 and
nnet3-chain-add-post-to-egs.
"""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import (
    COMPILER,
    COMPUTE,
    DEVICE,
    OPTIM,
    compiler_options,
    log_diagnostics,
    optimize_options,
    set_up,
)
from nnet3py.cli.process.options import BINARY, Options, declared, fields_from, option
from nnet3py.cli.training.train_setup import (
    CHAIN,
    PROB,
    TRAINER,
    apply_test_modes,
    chain_options,
    finish,
    read_cache,
    train_on,
    trainer_options,
)
from nnet3py.errors import within
from nnet3py.option_fields import settings_of
from nnet3py.training.options import CombineOptions

if TYPE_CHECKING:
    from nnet3py.compiler.cache import CachingCompiler
    from nnet3py.egs.chain_example import NnetChainExample
    from nnet3py.network.nnet import Nnet


DEFAULT_LANGUAGE = "default"


def examples(reader: Iterable[tuple[str, NnetChainExample]],
             by_language: bool) -> Iterator[tuple[str, NnetChainExample]]:
    """Yield the keys and chain examples of ``reader``, which a background thread reads ahead.

    ``by_language``: whether the output "output" is renamed to "output-LANGUAGE", with the language in the key.
    """
    from nnet3py.egs.example import examples_ahead
    from nnet3py.egs.sequence_egs import language_of, rename_outputs

    for key, eg in examples_ahead(reader):
        if by_language:
            with within(f"example {key}"):
                rename_outputs(eg, language_of(key) or DEFAULT_LANGUAGE)
        yield key, eg


_OPTIONS = (
    BINARY,
    option("apply-deriv-weights", bool, True, "Multiply derivatives with the weights of the examples' frames"),
    *TRAINER, *CHAIN, *OPTIM, *COMPILER, *COMPUTE, *DEVICE,
)


@kaldi_command("nnet3-chain-train", "Chain training",
               "Train a network with the LF-MMI objective on chain examples.", """
Train a network with the LF-MMI objective by stochastic gradient descent on chain examples, and write the trained
network. Each example read is a minibatch; nnet3-chain-merge-egs makes minibatches.

Usage:  nnet3-chain-train [options] <raw-nnet-in> <denominator-fst-in> <chain-training-examples-in> <raw-nnet-out>

e.g.:
nnet3-chain-train --leaky-hmm-coefficient=0.1 1.raw den.fst 'ark:nnet3-chain-merge-egs 1.cegs ark:-|' 2.raw
""", arguments=(4, 4), options=_OPTIONS)
def train(args: list[str], options: Options) -> int:
    return _train(args, options, by_language=False)


@kaldi_command("nnet3-chain-train2", "Chain training",
               "Train a network with LF-MMI on chain examples of several languages.", """
Train a network for several languages with the LF-MMI objective, and write the trained network. The key of a (merged)
example ends in ?lang=LANGUAGE; the output output-LANGUAGE is trained with the denominator graph LANGUAGE.den.fst of a
folder. The language of a key without ?lang= is "default".

Usage:  nnet3-chain-train2 [options] <raw-nnet-in> <denominator-fst-dir> <chain-training-examples-in> <raw-nnet-out>

e.g.:
nnet3-chain-train2 1.raw den_fsts 'ark:nnet3-chain-merge-egs --multilingual-eg=true 1.cegs ark:-|' 2.raw
""", arguments=(4, 4), options=_OPTIONS)
def train2(args: list[str], options: Options) -> int:
    return _train(args, options, by_language=True)


def _train(args: list[str], options: Options, by_language: bool) -> int:
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.chain_objective import graph_folder, one_graph
    from nnet3py.training.chain_trainer import ChainTrainer

    objective = chain_options(options)
    nnet = read_nnet(args[0])
    graphs = (graph_folder if by_language else one_graph)(nnet, args[1])
    trainer = ChainTrainer(nnet, graphs, trainer_options(options), objective, options.apply_deriv_weights)
    read_cache(trainer, options)
    train_on(trainer, args[2], CHAIN_EXAMPLE, partial(examples, by_language=by_language))
    return finish(trainer, args[3], options, "Wrote raw model to")


_PROB = tuple(
    declared.but(help="No effect: chain outputs have no accuracy") if "accuracy" in declared.name else declared
    for declared in PROB)


@kaldi_command("nnet3-chain-compute-prob", "Chain training", "Print the LF-MMI objective on examples.", """
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
    from nnet3py.egs.chain_example import read_chain_egs
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.chain_objective import graph_folder, one_graph
    from nnet3py.training.chain_trainer import ChainDiagnosticOptions, ChainDiagnostics

    device, objective = set_up(options), chain_options(options)
    nnet = read_nnet(args[0])
    apply_test_modes(nnet, options)
    by_language = os.path.isdir(args[1])
    graphs = (graph_folder if by_language else one_graph)(nnet, args[1])
    diagnostics = ChainDiagnostics(nnet, graphs, ChainDiagnosticOptions(
        chain=objective, optimize=optimize_options(options), compiler=compiler_options(options),
        debug=options["computation.debug"], device=device))
    return log_diagnostics(diagnostics, examples(read_chain_egs(args[2]), by_language))


_XENT_FOR_STATISTICS = 0.1     # its only effect is that the outputs NAME-xent are computed, as in training

_OPTIONS_COMBINE = (
    BINARY,
    *declared(settings_of(CombineOptions)),
    *CHAIN, *DEVICE,
)


@kaldi_command("nnet3-chain-combine", "Chain training", "Find the best average of the last chain models.", """
Average the last models of a chain training. Averages of the first model alone, the first two, the first three and so on
are compared by the LF-MMI objective on (merged) examples, and the best one is written, with batch-norm statistics that
are computed again on these examples. Give the newest model first.

Usage:  nnet3-chain-combine [options] <den-fst> <raw-nnet-in1> ... <raw-nnet-inN> <chain-examples-in> \
<raw-nnet-out>

e.g.:
 nnet3-chain-combine den.fst 35.raw 34.raw 33.raw 'ark:nnet3-chain-merge-egs ark:combine.cegs ark:- |' final.raw
""", arguments=(4, None), options=_OPTIONS_COMBINE)
def combine(args: list[str], options: Options) -> int:
    return _combine(args, options, by_language=False)


@kaldi_command("nnet3-chain-combine2", "Chain training",
               "Find the best average of the last chain models of several languages.", """
Average the last models of a chain training for several languages, as nnet3-chain-combine does. The keys of examples end
in ?lang=LANGUAGE, and a folder has a denominator graph LANGUAGE.den.fst for each.

Usage:  nnet3-chain-combine2 [options] <den-fst-dir> <raw-nnet-in1> ... <raw-nnet-inN> <chain-examples-in> \
<raw-nnet-out>

e.g.:
 nnet3-chain-combine2 den_fsts 35.raw 34.raw 'ark:nnet3-chain-merge-egs ark:combine.cegs ark:- |' final.raw
""", arguments=(4, None), options=_OPTIONS_COMBINE)
def combine2(args: list[str], options: Options) -> int:
    return _combine(args, options, by_language=True)


def _combine(args: list[str], options: Options, by_language: bool) -> int:
    from nnet3py.egs.chain_example import read_chain_egs
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.chain_objective import graph_folder, one_graph
    from nnet3py.training.chain_trainer import ChainDiagnosticOptions, ChainDiagnostics
    from nnet3py.training.diagnostics import combine_nnets
    from nnet3py.training.example_computation import XENT

    den_fst, *sources, egs_name, target = args
    objective = chain_options(options)
    settings = fields_from(options, CombineOptions(
        compiler=compiler_options(options), device=set_up(options)))
    first = read_nnet(sources[0])
    graphs = (graph_folder if by_language else one_graph)(first, den_fst)
    egs = [eg for _, eg in examples(read_chain_egs(egs_name), by_language)]
    log.log(f"Read {len(egs)} examples.")

    def diagnostics(nnet: Nnet, compiler: CachingCompiler | None, store_stats: bool) -> Any:
        chain = objective
        if store_stats and any(name.endswith(XENT) for name in nnet.node_names):
            chain = dataclasses.replace(objective, xent_regularize=_XENT_FOR_STATISTICS)
        return ChainDiagnostics(nnet, graphs, ChainDiagnosticOptions(
            chain=chain, store_component_stats=store_stats, compiler=settings.compiler, device=settings.device),
            compiler)

    nnets = ((source, first if i == 0 else read_nnet(source)) for i, source in enumerate(sources))
    result = combine_nnets(nnets, len(sources), egs, settings, diagnostics)
    result.nnet.write(target, binary=options.binary)
    log.log(f"Finished combining neural nets, wrote model to {target}")
    return 0


@kaldi_command("nnet3-chain-add-post-to-egs", "Chain training", "Add posteriors of pdfs to chain examples.", """
Add posteriors of pdfs, computed with a model, to chain examples, and write the examples. With --lwf-scale,
nnet3-chain-train adds the posteriors to its derivatives, so that a network that is trained on other data forgets less
(learning without forgetting). Of the training options only --leaky-hmm-coefficient has an effect (with --type=den).

Usage: nnet3-chain-add-post-to-egs [options] <nnet-in> <den-fst> <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-add-post-to-egs --type=den --batchnorm-test-mode=true --dropout-test-mode=true \
final.raw den.fst ark:1.cegs ark:1.lwf.cegs
""", arguments=(4, 4), options=[
    option("type", str, "raw", "raw: the network's output; den: posteriors by the denominator graph",
           choices=("raw", "den")),
    option("apply-exp", bool, True, "With --type=raw: add exp(output)"),
    option("clip-threshold", float, 0.0, "With --type=den: posteriors below this become 0", least=0),
    option("batchnorm-test-mode", bool, False, "Normalize with the stored statistics, not with the example's"),
    option("dropout-test-mode", bool, False, "Compute without dropout"),
    *TRAINER, *CHAIN, *OPTIM, *COMPILER, *COMPUTE, *DEVICE,
])
def add_post_to_egs(args: list[str], options: Options) -> int:
    from nnet3py.chain.den_graph import read_den_graph
    from nnet3py.chain.denominator import DenominatorComputation
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE, read_chain_egs
    from nnet3py.io.tables import TableWriter
    from nnet3py.network.model_file import read_nnet
    from nnet3py.ops import get_ops
    from nnet3py.training.chain_trainer import PosteriorAdder

    device, nnet = set_up(options), read_nnet(args[0])
    apply_test_modes(nnet, options)
    denominator = None
    if options.type == "den":
        graph = read_den_graph(args[1], nnet.output_dim("output"))
        denominator = DenominatorComputation(get_ops("cpu"), graph, options.leaky_hmm_coefficient)
    adder = PosteriorAdder(nnet, denominator, options.apply_exp, options.clip_threshold, compiler_options(options),
                           optimize_options(options), device)
    num_done = 0
    with TableWriter(args[3], CHAIN_EXAMPLE) as writer:
        for key, eg in read_chain_egs(args[2]):
            with within(f"example {key}"):
                writer.write(key, adder.add(eg))
            num_done += 1
    log.log(f"Added posteriors to {num_done} examples.")
    adder.compiler.log_time()
    return 0 if num_done else 1
