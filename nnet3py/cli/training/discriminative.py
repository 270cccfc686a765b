"""Discriminative training: examples from lattices, training, the objective, and outputs for examples.

nnet3-discriminative-get-egs, -train, -compute-objf and -compute-from-egs.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nnet3py.cli.egs.options import EGS_OF_FEATURES, split_options
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
    PROB,
    TRAINER,
    apply_test_modes,
    finish,
    read_cache,
    train_on,
    trainer_options,
)
from nnet3py.discriminative.options import DiscriminativeOptions, SplittingOptions
from nnet3py.errors import Nnet3Error
from nnet3py.option_fields import settings_of


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
    from nnet3py.cli.egs.get import ivectors_fit, make_examples
    from nnet3py.discriminative.make_egs import DiscriminativeExampleMaker
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
    from nnet3py.egs.make import UtteranceSplitter
    from nnet3py.formats.holders import GENERAL_MATRIX, INT_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.transducers.lattice import LATTICES

    splitter = UtteranceSplitter(split_options(options), seed=0)
    maker = DiscriminativeExampleMaker(splitter, fields_from(options, SplittingOptions()),
                                       read_object(args[0], TransitionModel.read), options.compress,
                                       options.online_ivector_period)

    def examples(utterance: str, matrix: Any, lattice: Any, alignment: Any, ivectors: Any) -> Iterable[Any] | None:
        if ivectors_fit(maker.cutter, utterance, matrix, ivectors, options) and (
                splitter.lengths_match(utterance, matrix.shape[0], len(alignment))):
            return maker.examples(utterance, matrix, lattice, alignment, ivectors)
        return None

    make_examples(options, (args[1], GENERAL_MATRIX), (args[4], DISCRIMINATIVE_EXAMPLE),
                  [(args[2], LATTICES, "denominator lattice for key"),
                   (args[3], INT_VECTOR, "numerator alignment for key")],
                  examples, (Nnet3Error,), "Failed to convert lattice to supervision: skipping")
    splitter.log_report()
    return 0 if splitter.num_chunk_frames else 1


DISCRIMINATIVE = declared(settings_of(DiscriminativeOptions()))


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
    from nnet3py.acoustic_model import read_model
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
    from nnet3py.training.discriminative_trainer import DiscriminativeTrainer

    objective = fields_from(options, DiscriminativeOptions())
    model = read_model(args[0])
    apply_test_modes(model.nnet, options)
    trainer = DiscriminativeTrainer(model, trainer_options(options), objective, options.apply_deriv_weights)
    read_cache(trainer, options)
    train_on(trainer, args[1], DISCRIMINATIVE_EXAMPLE)
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
    from nnet3py.acoustic_model import read_model
    from nnet3py.egs.discriminative_example import read_discriminative_egs
    from nnet3py.training.discriminative_trainer import DiscriminativeDiagnosticOptions, DiscriminativeDiagnostics

    device, objective = set_up(options), fields_from(options, DiscriminativeOptions())
    model = read_model(args[0])
    apply_test_modes(model.nnet, options)
    diagnostics = DiscriminativeDiagnostics(model, DiscriminativeDiagnosticOptions(
        discriminative=objective, optimize=optimize_options(options), compiler=compiler_options(options),
        debug=options["computation.debug"], device=device))
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
