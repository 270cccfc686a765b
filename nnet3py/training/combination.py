"""The best average of the last models of a training, by their objective on examples. Kaldi: ``nnet3-combine``.

The averages compared are those of the first model alone, of the first two, of the first three, and so on; callers
give the newest model first.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.errors import UsageError, within
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import (
    has_batchnorm,
    set_batchnorm_test_mode,
    set_dropout_test_mode,
    zero_component_stats,
)
from nnet3py.training.diagnostics import NnetDiagnostics
from nnet3py.training.options import CombineOptions, DiagnosticOptions

logger = logging.getLogger(__name__)

_MAIN = kaldi_place("main", "nnet3-combine.cc", 190)
_RECOMPUTE = kaldi_place("RecomputeStats", "nnet-utils.cc", 552)


class Diagnostics(Protocol):
    """Accumulates objectives of a network on examples of one kind."""

    def compute(self, eg: Any, /) -> None:
        """Add one example."""

    def totals(self) -> tuple[float, float]:
        """Objective and weight, each summed over all outputs."""

    def log_totals(self) -> bool:
        """Log a line per output; True if some output had any weight."""


# Makes the diagnostics of a network. Compiler: None for its own; True asks to store the components' statistics.
MakeDiagnostics = Callable[[Nnet, CachingCompiler | None, bool], Diagnostics]


class Combination(NamedTuple):
    """The best average, how many models it has, and the objectives per frame of the first model and of the average."""

    nnet: Nnet
    num_models: int
    first_objective: float
    best_objective: float


def combine_nnets(nnets: Iterable[tuple[str, Nnet]], count: int, egs: Sequence[object],
                  options: CombineOptions | None = None,
                  make_diagnostics: MakeDiagnostics | None = None) -> Combination:
    """Find the number of models whose plain average has the best objective; recompute batch-norm statistics for it.

    Parameters
    ----------
    nnets : (name, network) pairs, newest first, taken one at a time; the first is changed in place
    count : how many there are
    egs : merged examples, all in memory
    options : see :class:`CombineOptions`
    make_diagnostics : for examples that are not frame-level: makes what computes their objectives

    Raises
    ------
    UsageError : no models, no examples, or an option that makes no sense
    Nnet3Error : networks of different structure, or examples that do not fit them
    """
    options = options or CombineOptions()
    options.check()
    if count < 1:
        raise UsageError("no models to combine")
    if not egs:
        raise UsageError("no examples to combine models on", "is the archive of validation examples empty?")
    make_diagnostics = make_diagnostics or _frame_level(options)
    models = iter(nnets)
    _, average = next(models)
    evaluator = _Evaluator(average, egs, options, make_diagnostics)
    objective = first_objective = best_objective = evaluator.objective(average)
    logger.info(f"objective function using the last model is {objective:.6g}", extra=_MAIN)
    best, best_count = average.copy(), 1
    every = -(-count // options.max_objective_evaluations)
    for n, (name, nnet) in enumerate(models, 1):
        with within(name):
            average.scale(n / (n + 1.0))
            average.add(1.0 / (n + 1.0), nnet)
        if n % every and n != count - 1:
            continue
        objective = evaluator.objective(average)
        logger.info(f"Combining last {n + 1} models, objective function is {objective:.6g}", extra=_MAIN)
        if objective > best_objective:
            best, best_count, best_objective = average.copy(), n + 1, objective
    logger.info(f"Combining {best_count} nnets, objective function changed from {first_objective:.6g} to "
                f"{best_objective:.6g}", extra=_MAIN)
    if has_batchnorm(best):
        recompute_stats(best, egs, make_diagnostics)
    evaluator.compiler.log_time()
    return Combination(best, best_count, first_objective, best_objective)


def _frame_level(options: CombineOptions) -> MakeDiagnostics:
    """Makes diagnostics of frame-level examples; accuracies are shown only when statistics are computed again."""
    return lambda nnet, compiler, store_stats: NnetDiagnostics(nnet, DiagnosticOptions(
        compute_accuracy=store_stats, store_component_stats=store_stats, optimize=options.optimize,
        compiler=options.compiler, device=options.device), compiler=compiler)


def recompute_stats(nnet: Nnet, egs: Sequence[object], make_diagnostics: MakeDiagnostics) -> None:
    """Gather the statistics of ``nnet`` again from examples, in place, and log its objectives. Kaldi: RecomputeStats.

    Components are not put in test mode, so batch normalization sees each example for itself.
    """
    logger.info("Recomputing stats on nnet (affects batch-norm)", extra=_RECOMPUTE)
    zero_component_stats(nnet)
    diagnostics = make_diagnostics(nnet, None, True)
    for eg in egs:
        diagnostics.compute(eg)
    diagnostics.log_totals()
    logger.info("Done recomputing stats.", extra=_RECOMPUTE)


class _Evaluator:
    """Objectives of networks of one structure on the same examples; computations are compiled once."""

    def __init__(self, nnet: Nnet, egs: Sequence[object], options: CombineOptions,
                 make_diagnostics: MakeDiagnostics) -> None:
        self._egs, self._make_diagnostics = egs, make_diagnostics
        self._form = nnet.copy()     # what is compiled for; its parameters are not used
        if options.batchnorm_test_mode:
            set_batchnorm_test_mode(self._form, True)
        if options.dropout_test_mode:
            set_dropout_test_mode(self._form, True)
        self.compiler = CachingCompiler.with_options(self._form, options.optimize, options.compiler)

    def objective(self, nnet: Nnet) -> float:
        """Objective per frame over all outputs; minus infinity if it is not finite."""
        tested = self._form.copy()
        tested.scale(0.0)
        tested.add(1.0, nnet)
        diagnostics = self._make_diagnostics(tested, self.compiler, False)
        for eg in self._egs:
            diagnostics.compute(eg)
        total, weight = diagnostics.totals()
        objective = total / weight if weight else math.nan
        return objective if math.isfinite(objective) else -math.inf
