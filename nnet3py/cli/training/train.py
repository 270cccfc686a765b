"""Training a network on frame-level examples, its diagnostics, and the average of the last models.

nnet3-train, nnet3-compute-prob, nnet3-show-progress, nnet3-combine, and nnet3-am-train-transitions, which estimates
transition probabilities and priors from alignments.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import (
    COMPILER,
    COMPUTE,
    DEVICE,
    OPTIM,
    compiler_options,
    log_diagnostics,
    set_up,
    with_default,
)
from nnet3py.cli.process.options import BINARY, Options, declared, fields_from, option
from nnet3py.cli.training.train_setup import (
    PROB,
    TRAINER,
    apply_test_modes,
    diagnostic_options,
    finish,
    read_cache,
    train_on,
    trainer_options,
)
from nnet3py.errors import ArgumentsError, ShapeError, UsageError, within
from nnet3py.option_fields import settings_of
from nnet3py.training.options import CombineOptions, MinibatchOptions, TransitionOptions

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet
    from nnet3py.training.trainer import NnetTrainer


DIRECT = (
    option("feats", str, "", "Train on these features (rspecifier) instead of examples; needs --targets"),
    option("targets", str, "", "Targets of --feats: integer vectors, one class per frame, or matrices"),
    *declared(settings_of(MinibatchOptions)),
    option("num-epochs", int, 1, "With --feats: passes over the data", least=1),
    option("learning-rate", float, -1.0, "With --feats: learning rate of the first pass (-1: the model's own)"),
    option("final-learning-rate", float, -1.0, "With --feats: the rate falls towards this (-1: it stays)"),
)


@kaldi_command("nnet3-train", "Training", "Train a network on merged examples.", """
Train a network by stochastic gradient descent on training examples, and write the trained network. Each example read is
a minibatch; nnet3-merge-egs makes minibatches. With --feats and --targets, minibatches are made from tables directly.

Usage:  nnet3-train [options] <raw-model-in> <training-examples-in> <raw-model-out>
   or:  nnet3-train [options] --feats=<rspecifier> --targets=<rspecifier> <raw-model-in> <raw-model-out>

e.g.:
nnet3-train 1.raw 'ark:nnet3-merge-egs 1.egs ark:-|' 2.raw
""", arguments=(2, 3), options=[BINARY, *TRAINER, *OPTIM, *COMPILER, *COMPUTE, *DIRECT, *DEVICE])
def train(args: list[str], options: Options) -> int:
    direct = bool(options.feats or options.targets)
    if len(args) != (2 if direct else 3):
        raise ArgumentsError(f"{len(args)} arguments were given, expected <raw-model-in> "
                             f"{'' if direct else '<training-examples-in> '}<raw-model-out>",
                             "examples are given as an argument, features by options: --feats=… --targets=…")
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.trainer import NnetTrainer

    nnet = read_nnet(args[0])
    trainer = NnetTrainer(nnet, trainer_options(options))
    read_cache(trainer, options)
    if direct:
        _train_directly(trainer, nnet, options)
    else:
        from nnet3py.egs.example import EXAMPLE

        train_on(trainer, args[1], EXAMPLE)
    return finish(trainer, args[-1], options, "Wrote model to")


def _train_directly(trainer: NnetTrainer, nnet: Nnet, options: Options) -> None:
    """Train on tables of features and targets, ``--num-epochs`` times, with decreasing learning rates."""
    from nnet3py.egs.example import num_merged
    from nnet3py.network.whole_model import set_learning_rate
    from nnet3py.training.minibatches import TableMinibatches
    from nnet3py.training.train import rate_of_pass

    if not (options.feats and options.targets):
        raise UsageError("--feats and --targets must be given together, but one of them is missing")
    if options.final_learning_rate > 0.0 >= options.learning_rate:
        raise UsageError("--final-learning-rate needs --learning-rate, from which the rate falls")
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


@kaldi_command("nnet3-compute-prob", "Training", "Print objective and accuracy on examples.", """
Log a network's objective per frame, and its accuracy, on (merged) examples.

Usage:  nnet3-compute-prob [options] <raw-model-in> <training-examples-in>

e.g.: nnet3-compute-prob 0.raw ark:valid.egs
""", arguments=(2, 2), options=[
    option("batchnorm-test-mode", bool, True, "Normalize with the stored statistics, not with the minibatch's"),
    option("dropout-test-mode", bool, True, "Compute without dropout"),
    option("collapse-model", bool, True, "Merge neighboring linear components first"),
    *PROB, *DEVICE,
])
def compute_prob(args: list[str], options: Options) -> int:
    from nnet3py.egs.example import read_egs
    from nnet3py.network.inference import collapse_model
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.diagnostics import NnetDiagnostics

    device = set_up(options)
    nnet = read_nnet(args[0])
    apply_test_modes(nnet, options)
    if options.collapse_model:
        collapse_model(nnet)
    diagnostics = NnetDiagnostics(nnet, diagnostic_options(options, device))
    return log_diagnostics(diagnostics, read_egs(args[1]))


@kaldi_command("nnet3-show-progress", "Training", "Show how a network changed in training.", """
Log how much the parameters of each component changed from one network to another, and, with (merged) examples, how much
the change of each component changed the objective.

Usage:  nnet3-show-progress [options] <old-net-in> <new-net-in> [<training-examples-in>]

e.g.: nnet3-show-progress 1.raw 2.raw ark:valid.egs
""", arguments=(2, 3), options=[
    option("num-segments", int, 1, "Points between the two networks at which the derivative is taken", least=1),
    *PROB, *with_default(DEVICE, "use-gpu", "no"),
])
def show_progress(args: list[str], options: Options) -> int:
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.averaging import log_parameter_changes

    device = set_up(options)
    old, new = read_nnet(args[0]), read_nnet(args[1])
    if old.num_parameters() != new.num_parameters():
        log.warning("Parameter-dim mismatch, cannot show progress.")
        return 0
    if len(args) == 3 and old.is_simple():
        _log_objective_changes(old, new, args[2], options, device)
    difference = log_parameter_changes(old, new)
    if options.verbose >= 1:
        from nnet3py.model_info import info

        log.vlog(1, f"Printing info for the difference network: {info(difference)}")
    return 0


def _log_objective_changes(old: Nnet, new: Nnet, examples: str, options: Options, device: str) -> None:
    from nnet3py.egs.example import read_egs
    from nnet3py.training.averaging import objective_changes

    objective_changes(old, new, [eg for _, eg in read_egs(examples)], options.num_segments,
                      diagnostic_options(options, device))


@kaldi_command("nnet3-combine", "Training", "Find the best average of the last models of a training.", """
Average the last models of a training: of the first model alone, of the first two, the first three and so on, write the
average that has the best objective on (merged) validation examples. Give the newest model first. Batch-norm statistics
are computed again for it, on these examples.

Usage:  nnet3-combine [options] <nnet-in1> <nnet-in2> ... <nnet-inN> <valid-examples-in> <nnet-out>

e.g.:
 nnet3-combine 35.raw 34.raw 33.raw 'ark:nnet3-merge-egs --minibatch-size=1:64 ark:combine.egs ark:- |' final.raw
""", arguments=(3, None), options=[
    BINARY,
    *declared(settings_of(CombineOptions)),
    *DEVICE,
])
def combine(args: list[str], options: Options) -> int:
    from nnet3py.egs.example import read_egs
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.diagnostics import combine_nnets

    *sources, examples, target = args
    combine_options = fields_from(options, CombineOptions(
        compiler=compiler_options(options), device=set_up(options)))
    egs = [eg for _, eg in read_egs(examples)]
    log.log(f"Read {len(egs)} examples.")
    nnets = ((source, read_nnet(source)) for source in sources)
    result = combine_nnets(nnets, len(sources), egs, combine_options)
    result.nnet.write(target, binary=options.binary)
    log.log(f"Finished combining neural nets, wrote model to {target}")
    return 0


@kaldi_command("nnet3-am-train-transitions", "Models",
               "Train the transition probabilities of an acoustic model, and its priors.", """
Estimate the transition probabilities of an acoustic model from alignments, set its priors to the relative frequencies
of pdfs in the alignments, and write the model.

Usage:  nnet3-am-train-transitions [options] <nnet-in> <alignments-rspecifier> <nnet-out>

e.g.:
 nnet3-am-train-transitions 1.mdl "ark:gunzip -c ali.*.gz |" 2.mdl
""", arguments=(3, 3), options=[
    BINARY,
    option("set-priors", bool, True, "Set the priors, too"),
    option("prior-floor", float, 5.0e-06, "Smallest prior of a pdf", above=0, below=1),
    *declared(settings_of(TransitionOptions)),
])
def am_train_transitions(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.acoustic_model import read_model
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.tables import SequentialReader
    from nnet3py.training.transitions import count_transitions, priors_of_counts, train_transitions

    model = read_model(args[0])
    transitions = model.transition_model
    counts = np.zeros(transitions.num_transition_ids + 1)
    num_done = 0
    with SequentialReader(args[1], INT_VECTOR) as alignments:
        for key, alignment in alignments:
            with within(f"utterance {key}"):
                count_transitions(transitions, alignment, counts)
            num_done += 1
    log.log(f"Accumulated transition stats from {num_done} utterances.")
    improvement = train_transitions(transitions, counts, fields_from(options, TransitionOptions()))
    log.log(f"Transition model update: average {improvement.average():.6g} log-like improvement per frame over "
            f"{improvement.num_frames:.6g} frames.")
    if options.set_priors:
        log.log("Setting priors of pdfs in the model.")
        output_dim = model.nnet.output_dim("output")
        if transitions.num_pdfs != output_dim:
            raise ShapeError(f"the transition model has {transitions.num_pdfs} pdfs, the network {output_dim} outputs",
                             "was the network made for another tree?")
        model.priors = priors_of_counts(transitions, counts, options.prior_floor)
    model.write(args[2], binary=options.binary)
    log.log(f"Trained transitions of neural network model and wrote it to {args[2]}")
    return 0
