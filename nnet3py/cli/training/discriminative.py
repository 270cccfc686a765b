"""Discriminative training: examples from lattices, training, the objective, and outputs for examples.

nnet3-discriminative-get-egs, -train, -compute-objf and -compute-from-egs.
"""
from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.egs import EGS_OF_FEATURES
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
from nnet3py.cli.training.train_setup import PROB, TRAINER
from nnet3py.discriminative.options import DiscriminativeOptions, SplittingOptions
from nnet3py.errors import Nnet3Error, within
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.discriminative.make_egs import DiscriminativeExampleMaker


@kaldi_command("nnet3-discriminative-get-egs", "Discriminative training",
               "Make examples of discriminative training from lattices.", """
Make examples for discriminative training, pieces of utterances with context, from features, denominator lattices and
numerator alignments. Lattices must be at the level of states, with a transition-id on each arc, as decoding with
--determinize-lattice=false or lattice-determinize-non-compact writes them.

Usage:  nnet3-discriminative-get-egs [options] <model> <features-rspecifier> <denominator-lattice-rspecifier> \
<numerator-alignment-rspecifier> <egs-wspecifier>

e.g.: nnet3-discriminative-get-egs --acoustic-scale=0.1 --left-context=25 --right-context=9 --num-frames=150,120,90 \\
   0.mdl ark:feats.ark 'ark:gunzip -c lat.1.gz |' scp:ali.scp ark:degs.1.ark
""", arguments=(5, 5), options=[*EGS_OF_FEATURES, *declared(settings_of(SplittingOptions()))])
def discriminative_get_egs(args: list[str], options: Options) -> int:
    from nnet3py.cli.chain.examples import utterance_splitter
    from nnet3py.discriminative.make_egs import DiscriminativeExampleMaker
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
    from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX, INT_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.transducers.lattice import LATTICES

    splitting = fields_from(options, SplittingOptions())
    splitting.check()
    splitter = utterance_splitter(options, seed=0)
    maker = DiscriminativeExampleMaker(splitter, splitting, read_object(args[0], TransitionModel.read),
                                       options.compress, options.online_ivector_period)
    table, num_errors = options.online_ivectors or options.ivectors, 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[4], DISCRIMINATIVE_EXAMPLE))
        lattices = stack.enter_context(RandomAccessReader(args[2], LATTICES))
        alignments = stack.enter_context(RandomAccessReader(args[3], INT_VECTOR))
        ivectors = stack.enter_context(RandomAccessReader(table, FLOAT_MATRIX)) if table else None
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        reader = stack.enter_context(SequentialReader(args[1], GENERAL_MATRIX))
        for utterance, matrix in log.progress(reader, "Making examples", share=reader.share_read):
            examples = _of_utterance(maker, utterance, matrix, lattices, alignments, ivectors, options)
            num_errors += examples is None
            for key, example in examples or ():
                writer.write(key, example)
    if num_errors:
        log.warning(f"{num_errors} utterances had errors and could not be processed.",
                    file="nnet3-discriminative-get-egs.cc", line=370)
    splitter.log_report()
    return 0 if splitter.num_chunk_frames else 1


def _of_utterance(maker: DiscriminativeExampleMaker, utterance: str, matrix: Any, lattices: Any, alignments: Any,
                  ivectors: Any, options: Options) -> list[Any] | None:
    """Return the examples of an utterance; None, with a warning, if its data cannot be used."""
    lattice, alignment = lattices.get(utterance), alignments.get(utterance)
    ivector = None if ivectors is None else ivectors.get(utterance)
    for value, what in ((lattice, "denominator lattice"), (alignment, "numerator alignment")):
        if value is None:
            return _skipped(f"No {what} for key {utterance}")
    if ivectors is not None and ivector is None:
        return _skipped(f"No iVectors for utterance {utterance}")
    if ivector is not None and not maker.cutter.ivectors_fit(utterance, matrix.shape[0], len(ivector),
                                                             options.length_tolerance):
        return None
    if not maker.cutter.splitter.lengths_match(utterance, matrix.shape[0], len(alignment)):
        return None
    try:
        with within(f"utterance {utterance}"):
            return list(maker.examples(utterance, matrix, lattice, alignment, ivector))
    except Nnet3Error as error:
        return _skipped(f"Failed to convert lattice to supervision: skipping {error}")


def _skipped(why: str) -> list[Any] | None:
    log.warning(why, file="nnet3-discriminative-get-egs.cc", line=300)
    return None


DISCRIMINATIVE = declared(settings_of(DiscriminativeOptions()))


def discriminative_options(options: Options) -> DiscriminativeOptions:
    """Return the options of the objective, from the group ``DISCRIMINATIVE``; UsageError for invalid values."""
    result = fields_from(options, DiscriminativeOptions())
    result.check()
    return result


def model_in_test_mode(rxfilename: str, options: Options, batchnorm: bool) -> AcousticModel:
    """Read an acoustic model and apply --dropout-test-mode and, with ``batchnorm``, --batchnorm-test-mode."""
    from nnet3py.acoustic_model import read_model
    from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode

    model = read_model(rxfilename)
    if options.dropout_test_mode:
        set_dropout_test_mode(model.nnet, True)
    if batchnorm and options.batchnorm_test_mode:
        set_batchnorm_test_mode(model.nnet, True)
    return model


_WITHOUT_EFFECT = ("l2-regularize-factor", "batchnorm-stats-scale", "backstitch-training-scale",
                   "backstitch-training-interval")
_TRAINER = tuple(setting.but(help="No effect, as in Kaldi: the discriminative trainer lacks this") if setting.name in
                 _WITHOUT_EFFECT else setting for setting in TRAINER)
_DROPOUT = option("dropout-test-mode", bool, True, "Compute without dropout")


@kaldi_command("nnet3-discriminative-train", "Discriminative training",
               "Train with the objectives MMI, MPFE or sMBR on lattices.", """
Train the network of an acoustic model with a sequence-discriminative objective (MMI, MPFE or sMBR) by stochastic
gradient descent, and write the network alone. Each example read is a minibatch; nnet3-discriminative-merge-egs makes
minibatches. The transition model and priors are taken from the model.

Usage:  nnet3-discriminative-train [options] <model-in> <discriminative-examples-in> <raw-nnet-out>

e.g.:
nnet3-discriminative-train --criterion=smbr 1.mdl 'ark:nnet3-discriminative-merge-egs 1.degs ark:-|' 2.raw
""", arguments=(3, 3), options=(
    BINARY,
    option("apply-deriv-weights", bool, True, "Multiply derivatives with the weights of the examples' frames"),
    _DROPOUT, *_TRAINER, *DISCRIMINATIVE, *OPTIM, *COMPILER, *COMPUTE, *DEVICE,
))
def discriminative_train(args: list[str], options: Options) -> int:
    from nnet3py.cli.training.train_setup import finish, read_cache, trainer_options
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
    from nnet3py.egs.example import examples_ahead, num_merged
    from nnet3py.io.tables import SequentialReader
    from nnet3py.training.discriminative_trainer import DiscriminativeTrainer

    objective = discriminative_options(options)
    model = model_in_test_mode(args[0], options, batchnorm=False)
    trainer = DiscriminativeTrainer(model, trainer_options(options), objective, options.apply_deriv_weights)
    if options.read_cache:
        read_cache(trainer, options.read_cache)
    with SequentialReader(args[1], DISCRIMINATIVE_EXAMPLE) as reader, \
            closing(examples_ahead(reader)) as egs:        # type: ignore[type-var]
        for key, eg in log.progress(egs, "training", size=num_merged, share=reader.share_read):
            with within(f"example {key}"):
                trainer.train(eg)
    return finish(trainer, args[2], options, "Wrote raw nnet model to")


@kaldi_command("nnet3-discriminative-compute-objf", "Discriminative training",
               "Print a model's objective MMI, MPFE or sMBR on examples.", """
Log a model's sequence-discriminative objective per frame on (merged) examples.

Usage:  nnet3-discriminative-compute-objf [options] <model-in> <discriminative-examples-in>

e.g.: nnet3-discriminative-compute-objf --criterion=mmi 0.mdl ark:valid.degs
""", arguments=(2, 2), options=(
    option("batchnorm-test-mode", bool, True, "Normalize with the stored statistics, not with the minibatch's"),
    _DROPOUT, *DISCRIMINATIVE,
    *(setting.but(help="No effect: there is no accuracy") if "accuracy" in setting.name else setting
      for setting in PROB),
    option("compute-deriv", bool, False, "No effect: derivatives are not shown"), *DEVICE,
))
def compute_objf(args: list[str], options: Options) -> int:
    from nnet3py.egs.discriminative_example import read_discriminative_egs
    from nnet3py.training.discriminative_trainer import DiscriminativeDiagnosticOptions, DiscriminativeDiagnostics

    device, objective = set_up(options), discriminative_options(options)
    diagnostics = DiscriminativeDiagnostics(
        model_in_test_mode(args[0], options, batchnorm=True),
        DiscriminativeDiagnosticOptions(discriminative=objective, optimize=optimize_options(options),
                                        compiler=compiler_options(options), debug=options["computation.debug"],
                                        device=device))
    return log_diagnostics(diagnostics, read_discriminative_egs(args[1]))


@kaldi_command("nnet3-discriminative-compute-from-egs", "Discriminative training",
               "Compute a network's output for discriminative examples.", """
Compute a network's output for (merged) discriminative examples, at their supervised frames, and write a matrix for each
example.

Usage:  nnet3-discriminative-compute-from-egs [options] <raw-nnet-in> <discriminative-examples-in> <matrices-out>

e.g.:
 nnet3-discriminative-compute-from-egs --apply-exp=true 0.raw ark:1.degs ark:- | matrix-sum-rows ark:- ark:- |
   vector-sum ark:- 1.vec
""", arguments=(3, 3), options=[
    BINARY,
    option("apply-exp", bool, False, "Write exp(output), such as probabilities of a log-softmax"),
    *DEVICE,
])
def compute_from_egs(args: list[str], options: Options) -> int:
    from nnet3py.cli.egs.outputs import write_outputs
    from nnet3py.egs.discriminative_example import read_discriminative_egs

    return write_outputs(args, options, read_discriminative_egs(args[1]), "output")
