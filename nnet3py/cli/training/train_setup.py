"""Options of trainers, the LF-MMI objective and diagnostics, cached computations, and the end of a training."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.option_groups import (
    COMPILER,
    COMPUTE,
    OPTIM,
    Group,
    compiler_options,
    optimize_options,
    set_up,
)
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import FormatError, Nnet3Error, within
from nnet3py.option_fields import settings_of
from nnet3py.training.options import ChainOptions, DiagnosticOptions, TrainerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nnet3py.network.nnet import Nnet
    from nnet3py.training.trainer import MinibatchTrainer

TRAINER: Group = (
    *declared(settings_of(TrainerOptions)),
    option("read-cache", str, "", "File of compiled computations, from --write-cache, which need not be compiled then"),
    option("write-cache", str, "", "Write the compiled computations to this file"),
    option("binary-write-cache", bool, True, "Write that file in binary"),
    option("cuda-cache-memory", bool, True, "No effect: it is about Kaldi's memory"),
    option("cuda-memory-proportion", float, 0.5, "No effect: it is about Kaldi's memory"),
)
PROB: Group = (
    *declared(settings_of(DiagnosticOptions)),
    option("debug-computation", bool, False, "Log every command that is run"),
    *OPTIM, *COMPILER, *COMPUTE,
)
CHAIN: Group = declared(settings_of(ChainOptions))


def train_on(trainer: MinibatchTrainer, rspecifier: str, holder: Any,
             ahead: Callable[[Any], Iterator[tuple[str, Any]]] | None = None) -> None:
    """Train on the minibatches of a table, which a background thread reads ahead; ``ahead`` may change them."""
    from nnet3py.egs.example import examples_ahead, num_merged
    from nnet3py.io.tables import SequentialReader

    with SequentialReader(rspecifier, holder) as reader, \
            closing((ahead or examples_ahead)(reader)) as egs:        # type: ignore[type-var]
        for key, eg in log.progress(egs, "training", size=num_merged, share=reader.share_read):
            with within(f"example {key}"):
                trainer.train(eg)


def finish(trainer: MinibatchTrainer, target: str, options: Options, message: str) -> int:
    """Log totals, write the model to ``target`` and, with --write-cache, compiled computations.

    Returns the exit status, 1 if there were no training data. ``message`` is the log line before the file's name.
    """
    has_weight = trainer.log_totals()
    trainer.nnet.write(target, binary=options.binary)
    log.log(f"{message} {target}", file=f"{log.program()}.cc", line=91)
    if options.write_cache:
        trainer.compiler.write_cache(options.write_cache, binary=options.binary_write_cache)
        log.log(f"Wrote computation cache to {options.write_cache}", file=f"{log.program()}.cc", line=91)
    trainer.compiler.log_time()
    return 0 if has_weight else 1


def read_cache(trainer: MinibatchTrainer, options: Options) -> None:
    """Read the compiled computations of --read-cache; an error is only a warning, as they can be compiled again."""
    try:
        if options.read_cache:
            trainer.compiler.read_cache(options.read_cache)
    except FormatError as error:
        log.warning(f"Could not read the cached computations, they will be compiled again: {error}")
    except Nnet3Error as error:
        log.warning(f"Could not open cached computation. Probably this is the first training iteration. ({error})")


def apply_test_modes(nnet: Nnet, options: Options) -> None:
    """Set batch normalization and dropout to test mode, by --batchnorm-test-mode and --dropout-test-mode."""
    from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode

    if "batchnorm-test-mode" in options and options.batchnorm_test_mode:
        set_batchnorm_test_mode(nnet, True)
    if options.dropout_test_mode:
        set_dropout_test_mode(nnet, True)


def trainer_options(options: Options) -> TrainerOptions:
    """Return a trainer's options, from the groups ``TRAINER``, ``OPTIM``, ``COMPILER``, ``COMPUTE`` and ``DEVICE``."""
    return fields_from(options, TrainerOptions(
        optimize=optimize_options(options), compiler=compiler_options(options), debug=options["computation.debug"],
        device=set_up(options)))


def diagnostic_options(options: Options, device: str) -> DiagnosticOptions:
    """Return the options of diagnostics, from the groups ``PROB`` and ``DEVICE``."""
    return fields_from(options, DiagnosticOptions(
        optimize=optimize_options(options), compiler=compiler_options(options), debug=options["computation.debug"],
        device=device))


def chain_options(options: Options) -> ChainOptions:
    """Return the options of the LF-MMI objective, from the ``CHAIN`` group."""
    return fields_from(options, ChainOptions())
