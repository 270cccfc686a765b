"""nnet3-chain-combine and nnet3-chain-combine2: the best average of the last models of a chain training."""
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY, DEVICE
from nnet3py.cli.process.options import Options, declared, fields_from
from nnet3py.cli.training.train_setup import CHAIN, chain_options
from nnet3py.option_fields import settings_of
from nnet3py.training.options import CombineOptions

if TYPE_CHECKING:
    from nnet3py.compiler.cache import CachingCompiler
    from nnet3py.network.nnet import Nnet

_XENT_FOR_STATISTICS = 0.1     # its only effect is that the outputs NAME-xent are computed, as in training

_OPTIONS = (
    BINARY,
    *declared(settings_of(CombineOptions)),
    *CHAIN, *DEVICE,
)


@kaldi_command("nnet3-chain-combine", group="Chain training", help="Find the best average of the last chain models.",
               usage="""
Average the last models of a chain training: of the first model alone, of the first two, the first three and so on,
write the average that has the best LF-MMI objective on (merged) examples. Give the newest model first. Batch-norm
statistics are computed again for it, on these examples.

Usage:  nnet3-chain-combine [options] <den-fst> <raw-nnet-in1> ... <raw-nnet-inN> <chain-examples-in> \
<raw-nnet-out>

e.g.:
 nnet3-chain-combine den.fst 35.raw 34.raw 33.raw 'ark:nnet3-chain-merge-egs ark:combine.cegs ark:- |' final.raw
""", arguments=(4, None), options=_OPTIONS)
def combine(args: list[str], options: Options) -> int:
    """Write the best average of chain models."""
    return _combine(args, options, by_language=False)


@kaldi_command("nnet3-chain-combine2", group="Chain training",
               help="Find the best average of the last chain models of several languages.", usage="""
Average the last models of a chain training for several languages, as nnet3-chain-combine does. The keys of examples end
in ?lang=LANGUAGE, and a folder has a denominator graph LANGUAGE.den.fst for each.

Usage:  nnet3-chain-combine2 [options] <den-fst-dir> <raw-nnet-in1> ... <raw-nnet-inN> <chain-examples-in> \
<raw-nnet-out>

e.g.:
 nnet3-chain-combine2 den_fsts 35.raw 34.raw 'ark:nnet3-chain-merge-egs ark:combine.cegs ark:- |' final.raw
""", arguments=(4, None), options=_OPTIONS)
def combine2(args: list[str], options: Options) -> int:
    """Write the best average of chain models of several languages."""
    return _combine(args, options, by_language=True)


def _combine(args: list[str], options: Options, by_language: bool) -> int:
    from nnet3py.cli.chain.setup import examples
    from nnet3py.cli.process.compute_setup import compiler_options, set_up
    from nnet3py.egs.chain_example import read_chain_egs
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.chain_objective import graph_folder, one_graph
    from nnet3py.training.chain_trainer import ChainDiagnosticOptions, ChainDiagnostics
    from nnet3py.training.diagnostics import combine_nnets
    from nnet3py.training.example_computation import XENT
    from nnet3py.training.options import CombineOptions

    den_fst, *sources, egs_name, target = args
    objective = chain_options(options)
    settings = fields_from(options, CombineOptions(
        compiler=compiler_options(options), device=set_up(options)))
    settings.check()
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
