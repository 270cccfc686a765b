"""What the commands that train share: the trainer's options, its cache of computations, and how training ends."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.options import Options
from nnet3py.errors import FormatError, Nnet3Error

if TYPE_CHECKING:
    from nnet3py.training.trainer import MinibatchTrainer, TrainerOptions


def finish(trainer: MinibatchTrainer, target: str, options: Options, message: str) -> int:
    """Log the totals, write the model and, if asked to, what was compiled; the exit status, 1 without any weight."""
    has_weight = trainer.log_totals()
    trainer.nnet.write(target, binary=options.binary)
    log.log(f"{message} {target}", file=f"{log.program()}.cc", line=91)
    if options.write_cache:
        trainer.compiler.write_cache(options.write_cache, binary=options.binary_write_cache)
        log.log(f"Wrote computation cache to {options.write_cache}", file=f"{log.program()}.cc", line=91)
    trainer.compiler.log_time()
    return 0 if has_weight else 1


def read_cache(trainer: MinibatchTrainer, rxfilename: str) -> None:
    """Take over compiled computations. Without them training is only slower to start, so no error is fatal."""
    try:
        trainer.compiler.read_cache(rxfilename)
    except FormatError as error:
        log.warning(f"Could not read the cached computations, they will be compiled again: {error}")
    except Nnet3Error as error:
        log.warning(f"Could not open cached computation. Probably this is the first training iteration. ({error})")


def trainer_options(options: Options) -> TrainerOptions:
    """A trainer's options from the groups ``TRAINER``, ``OPTIM``, ``COMPILER``, ``COMPUTE`` and ``DEVICE``."""
    from nnet3py.cli.process.compute_setup import compiler_options, optimize_options, set_up
    from nnet3py.training.trainer import TrainerOptions

    return TrainerOptions(
        srand=options.srand, store_component_stats=options.store_component_stats,
        zero_component_stats=options.zero_component_stats, print_interval=options.print_interval,
        max_param_change=options.max_param_change, momentum=options.momentum,
        l2_regularize_factor=options.l2_regularize_factor, batchnorm_stats_scale=options.batchnorm_stats_scale,
        backstitch_training_scale=options.backstitch_training_scale,
        backstitch_training_interval=options.backstitch_training_interval, optimize=optimize_options(options),
        compiler=compiler_options(options), debug=options["computation.debug"], device=set_up(options))
