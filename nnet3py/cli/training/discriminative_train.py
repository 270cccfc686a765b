"""nnet3-discriminative-train, -compute-objf and -compute-from-egs: training on lattices, and its results."""
from __future__ import annotations

from contextlib import closing

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY, COMPILER, COMPUTE, DEVICE, OPTIM
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.training.discriminative_setup import DISCRIMINATIVE
from nnet3py.cli.training.train_setup import PROB, TRAINER
from nnet3py.errors import within

_WITHOUT_EFFECT = ("l2-regularize-factor", "batchnorm-stats-scale", "backstitch-training-scale",
                   "backstitch-training-interval")
_TRAINER = tuple(setting.but(help="No effect, as in Kaldi: this trainer does not do so") if setting.name in
                 _WITHOUT_EFFECT else setting for setting in TRAINER)
_DROPOUT = option("dropout-test-mode", bool, True, "Compute without dropout")


@kaldi_command("nnet3-discriminative-train", group="Discriminative training",
               help="Train with the objectives MMI, MPFE or sMBR on lattices.", usage="""
Train a network with a sequence-discriminative objective (MMI, MPFE or sMBR) by stochastic gradient descent. Every
example read is one minibatch: merge them before. The transition model and priors come from the model; only
the network is written.

Usage:  nnet3-discriminative-train [options] <model-in> <discriminative-examples-in> <raw-nnet-out>

e.g.:
nnet3-discriminative-train --criterion=smbr 1.mdl 'ark:nnet3-discriminative-merge-egs 1.degs ark:-|' 2.raw
""", arguments=(3, 3), options=(
    BINARY,
    option("apply-deriv-weights", bool, True, "Multiply derivatives with the weights of the examples' frames"),
    _DROPOUT, *_TRAINER, *DISCRIMINATIVE, *OPTIM, *COMPILER, *COMPUTE, *DEVICE,
))
def train(args: list[str], options: Options) -> int:
    """Train on discriminative examples; 1 if there was nothing to train on."""
    from nnet3py.cli.training.discriminative_setup import discriminative_options, model_in_test_mode
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


@kaldi_command("nnet3-discriminative-compute-objf", group="Discriminative training",
               help="Print a model's objective MMI, MPFE or sMBR on examples.", usage="""
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
    """Print the objective; 1 if there was none."""
    from nnet3py.cli.process.compute_setup import compiler_options, log_diagnostics, optimize_options, set_up
    from nnet3py.cli.training.discriminative_setup import discriminative_options, model_in_test_mode
    from nnet3py.egs.discriminative_example import read_discriminative_egs
    from nnet3py.training.discriminative_trainer import DiscriminativeDiagnosticOptions, DiscriminativeDiagnostics

    device, objective = set_up(options), discriminative_options(options)
    diagnostics = DiscriminativeDiagnostics(
        model_in_test_mode(args[0], options, batchnorm=True),
        DiscriminativeDiagnosticOptions(discriminative=objective, optimize=optimize_options(options),
                                        compiler=compiler_options(options), debug=options["computation.debug"],
                                        device=device))
    return log_diagnostics(diagnostics, read_discriminative_egs(args[1]))


@kaldi_command("nnet3-discriminative-compute-from-egs", group="Discriminative training",
               help="Compute a network's output for discriminative examples.", usage="""
Compute a network's output for (merged) discriminative examples, at their supervised frames; a matrix for each example.

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
    """Compute outputs for examples."""
    from nnet3py.cli.egs.outputs import write_outputs
    from nnet3py.egs.discriminative_example import read_discriminative_egs

    return write_outputs(args, options, read_discriminative_egs(args[1]), "output")
