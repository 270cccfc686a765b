"""nnet3-train: train a network on examples, or directly on features and targets."""
from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY, COMPILER, COMPUTE, DEVICE, OPTIM
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.cli.training.train_setup import TRAINER
from nnet3py.errors import ArgumentsError, UsageError, within
from nnet3py.option_fields import settings_of
from nnet3py.training.options import MinibatchOptions

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet
    from nnet3py.training.trainer import NnetTrainer

DIRECT = (
    option("feats", str, "", "Train on these features (rspecifier) instead of examples; needs --targets"),
    option("targets", str, "", "Targets of --feats: integer vectors, one class per frame, or matrices"),
    *declared(settings_of(MinibatchOptions)),
    option("num-epochs", int, 1, "With --feats: passes over the data"),
    option("learning-rate", float, -1.0, "With --feats: learning rate of the first pass (-1: the model's own)"),
    option("final-learning-rate", float, -1.0, "With --feats: the rate falls towards this (-1: it stays)"),
)


@kaldi_command("nnet3-train", group="Training", help="Train a network on merged examples.", usage="""
Train a network by stochastic gradient descent. Every example read is one minibatch: merge them before.

Usage:  nnet3-train [options] <raw-model-in> <training-examples-in> <raw-model-out>
   or:  nnet3-train [options] --feats=<rspecifier> --targets=<rspecifier> <raw-model-in> <raw-model-out>

e.g.:
nnet3-train 1.raw 'ark:nnet3-merge-egs 1.egs ark:-|' 2.raw
""", arguments=(2, 3), options=[BINARY, *TRAINER, *OPTIM, *COMPILER, *COMPUTE, *DIRECT, *DEVICE])
def train(args: list[str], options: Options) -> int:
    """Train a network; 1 if there was nothing to train on."""
    direct = bool(options.feats or options.targets)
    if len(args) != (2 if direct else 3):
        raise ArgumentsError(f"{len(args)} arguments were given, expected <raw-model-in> "
                             f"{'' if direct else '<training-examples-in> '}<raw-model-out>",
                             "examples are an argument, features an option: --feats=… --targets=…")
    from nnet3py.cli.training.train_setup import finish, read_cache, trainer_options
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.trainer import NnetTrainer

    nnet = read_nnet(args[0])
    trainer = NnetTrainer(nnet, trainer_options(options))
    if options.read_cache:
        read_cache(trainer, options.read_cache)
    if direct:
        _train_directly(trainer, nnet, options)
    else:
        from nnet3py.egs.example import EXAMPLE, examples_ahead, num_merged
        from nnet3py.io.tables import SequentialReader

        with SequentialReader(args[1], EXAMPLE) as reader, \
                closing(examples_ahead(reader)) as egs:        # type: ignore[type-var]
            for key, eg in log.progress(egs, "training", size=num_merged, share=reader.share_read):
                with within(f"example {key}"):
                    trainer.train(eg)
    return finish(trainer, args[-1], options, "Wrote model to")


def _train_directly(trainer: NnetTrainer, nnet: Nnet, options: Options) -> None:
    """Train on features and targets, ``--num-epochs`` passes with falling learning rates."""
    from nnet3py.egs.example import num_merged
    from nnet3py.network.whole_model import set_learning_rate
    from nnet3py.training.minibatches import TableMinibatches
    from nnet3py.training.train import rate_of_pass

    if not (options.feats and options.targets):
        raise UsageError("--feats and --targets go together; one of them is missing")
    if options.num_epochs < 1:
        raise UsageError(f"--num-epochs={options.num_epochs} must be 1 or more")
    if options.final_learning_rate > 0.0 >= options.learning_rate:
        raise UsageError("--final-learning-rate needs --learning-rate")
    data = TableMinibatches(nnet, options.feats, options.targets, fields_from(options, MinibatchOptions()))
    log.log(f"Training on {data.num_utterances} utterances, failed for {data.num_failed}")
    for epoch in range(options.num_epochs):
        if options.learning_rate >= 0.0:
            rate = rate_of_pass(epoch, options.num_epochs, options.learning_rate, options.final_learning_rate)
            for network in (nnet, trainer.delta):
                set_learning_rate(network, rate)
            log.log(f"Pass {epoch + 1} of {options.num_epochs} with learning rate {rate:.6g}")
        for eg in log.progress(data.minibatches(options.srand + epoch), f"pass {epoch + 1}", data.num_examples,
                               size=lambda eg: num_merged(("", eg))):
            trainer.train(eg)
