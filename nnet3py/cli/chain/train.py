"""nnet3-chain-train and nnet3-chain-train2: train a network on chain examples."""
from __future__ import annotations

from contextlib import closing

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY, COMPILER, COMPUTE, DEVICE, OPTIM
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.training.train_setup import CHAIN, TRAINER
from nnet3py.errors import within

_OPTIONS = (
    BINARY,
    option("apply-deriv-weights", bool, True, "Multiply derivatives with the weights of the examples' frames"),
    *TRAINER, *CHAIN, *OPTIM, *COMPILER, *COMPUTE, *DEVICE,
)


@kaldi_command("nnet3-chain-train", group="Chain training",
               help="Train a network with the LF-MMI objective on chain examples.", usage="""
Train a network with the LF-MMI objective by stochastic gradient descent. Every example read is one minibatch: merge
them before.

Usage:  nnet3-chain-train [options] <raw-nnet-in> <denominator-fst-in> <chain-training-examples-in> <raw-nnet-out>

e.g.:
nnet3-chain-train --leaky-hmm-coefficient=0.1 1.raw den.fst 'ark:nnet3-chain-merge-egs 1.cegs ark:-|' 2.raw
""", arguments=(4, 4), options=_OPTIONS)
def train(args: list[str], options: Options) -> int:
    """Train on chain examples; 1 if there was nothing to train on."""
    return _train(args, options, by_language=False)


@kaldi_command("nnet3-chain-train2", group="Chain training",
               help="Train a network with LF-MMI on chain examples of several languages.", usage="""
Train a network for several languages with the LF-MMI objective. The keys of (merged) examples end in ?lang=LANGUAGE:
the output output-LANGUAGE is trained with the denominator graph LANGUAGE.den.fst of a folder. If a key does not name
a language, it is "default".

Usage:  nnet3-chain-train2 [options] <raw-nnet-in> <denominator-fst-dir> <chain-training-examples-in> <raw-nnet-out>

e.g.:
nnet3-chain-train2 1.raw den_fsts 'ark:nnet3-chain-merge-egs --multilingual-eg=true 1.cegs ark:-|' 2.raw
""", arguments=(4, 4), options=_OPTIONS)
def train2(args: list[str], options: Options) -> int:
    """Train on chain examples of several languages; 1 if there was nothing to train on."""
    return _train(args, options, by_language=True)


def _train(args: list[str], options: Options, by_language: bool) -> int:
    from nnet3py.cli.chain.setup import examples
    from nnet3py.cli.training.train_setup import chain_options, finish, read_cache, trainer_options
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE
    from nnet3py.egs.example import num_merged
    from nnet3py.io.tables import SequentialReader
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.chain_objective import graph_folder, one_graph
    from nnet3py.training.chain_trainer import ChainTrainer

    objective = chain_options(options)
    nnet = read_nnet(args[0])
    graphs = (graph_folder if by_language else one_graph)(nnet, args[1])
    trainer = ChainTrainer(nnet, graphs, trainer_options(options), objective, options.apply_deriv_weights)
    if options.read_cache:
        read_cache(trainer, options.read_cache)
    with SequentialReader(args[2], CHAIN_EXAMPLE) as reader, \
            closing(examples(reader, by_language)) as egs:        # type: ignore[type-var]
        for key, eg in log.progress(egs, "training", size=num_merged, share=reader.share_read):
            with within(f"example {key}"):
                trainer.train(eg)
    return finish(trainer, args[3], options, "Wrote raw model to")
