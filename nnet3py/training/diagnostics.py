"""Objective and accuracy of a network on examples, and the choice of the best average of the last models.

Kaldi: ``NnetComputeProb``, ``nnet3-combine``. The averages compared are those of the newest model alone, of the
two newest, of the three newest, and so on.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import UsageError, within
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, to_dense
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import (
    has_batchnorm,
    set_batchnorm_test_mode,
    set_dropout_test_mode,
    zero_component_stats,
)
from nnet3py.runtime.computer import ComputerCache
from nnet3py.training.example_computation import example_request, run_forward
from nnet3py.training.objectives import OutputObjectives
from nnet3py.training.options import CombineOptions, DiagnosticOptions

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)


_PLACE = kaldi_place("PrintTotalStats", "nnet-diagnostics.cc", 165)   # scripts that report accuracies search for it


@dataclass
class OutputDiagnostics:
    """Totals of one output over all examples so far."""

    objective_kind: str    # "linear" or "quadratic", the objective of the output node
    # sums over frames
    weight: float = 0.0
    objective: float = 0.0
    # weight of the frames with a target, and of those classified correctly
    accuracy_weight: float = 0.0
    num_correct: float = 0.0
    # float64 (dim,), the accuracy for each class in the last example only, as in Kaldi; -1: no weight
    per_dim_accuracy: np.ndarray | None = None


class NnetDiagnostics:
    """Accumulator of objectives and accuracies of a network.

    Parameters
    ----------
    nnet : the network; its test modes are not changed
    options : see :class:`DiagnosticOptions`
    gradient : ``nnet.as_gradient()``, to which derivatives of the objective are added; None: no derivatives
    compiler : the compiler of ``nnet`` or of a network that it was copied from, to share computations; None: a new one
    objectives : the objectives of the outputs of ``nnet`` or of a network that it was copied from; None: those of the
        output nodes
    """

    def __init__(self, nnet: Nnet, options: DiagnosticOptions | None = None, gradient: Nnet | None = None,
                 compiler: CachingCompiler | None = None, objectives: OutputObjectives | None = None) -> None:
        self.nnet, self.options, self.gradient = nnet, options or DiagnosticOptions(), gradient
        self._objectives = objectives or OutputObjectives(nnet)
        self.compiler = compiler or CachingCompiler.with_options(nnet, self.options.optimize, self.options.compiler)
        self._computers = ComputerCache(nnet, self.compiler, update=gradient, stats=nnet, device=self.options.device,
                                        capacity=self.options.compiler.cache_capacity, debug=self.options.debug)
        self.outputs: dict[str, OutputDiagnostics] = {}

    def compute(self, eg: NnetExample) -> None:
        """Add one example. Raises Nnet3Error if it does not fit the network."""
        wants_gradient = self.gradient is not None
        request = example_request(self.nnet, eg, need_model_derivative=wants_gradient,
                                  store_component_stats=self.options.store_component_stats)
        computer, supervised = run_forward(self._computers, request, eg.io), {io.name for io in request.outputs}
        for io in (io for io in eg.io if io.name in supervised):
            deriv = computer.input_view(io.name) if wants_gradient else None
            self._process_output(computer.ops, io, computer.output_view(io.name), deriv)
        if wants_gradient:
            computer.run()

    def _process_output(self, ops: Ops, io: NnetIo, output: DeviceArray, deriv: DeviceArray | None) -> None:
        kind = self.nnet.descriptor_of(self.nnet.node_index(io.name)).objective
        totals = self.outputs.setdefault(io.name, OutputDiagnostics(kind))
        objective = self._objectives.queue(ops, io, output, deriv)()
        totals.weight += objective.weight
        totals.objective += objective.value
        if self.options.compute_accuracy and io.features.shape[1] == output.shape[1]:     # a loss may take others
            self._add_accuracy(totals, io.features, ops.copy_out(output))

    def _add_accuracy(self, totals: OutputDiagnostics, supervision: GeneralMatrix, output: np.ndarray) -> None:
        best, weights = best_classes(supervision)
        correct = np.where(output.argmax(axis=1) == best, weights, 0.0)
        totals.accuracy_weight += float(weights.sum())
        totals.num_correct += float(correct.sum())
        if self.options.compute_per_dim_accuracy:
            dim = output.shape[1]
            hits, mass = (np.bincount(best, weights=w, minlength=dim) for w in (correct, weights))
            totals.per_dim_accuracy = np.divide(hits, mass, out=np.full(dim, -1.0), where=mass != 0)

    def totals(self) -> tuple[float, float]:
        """Return objective and weight, each summed over all outputs. Kaldi: NnetComputeProb::GetTotalObjective."""
        return (sum(output.objective for output in self.outputs.values()),
                sum(output.weight for output in self.outputs.values()))

    def log_totals(self) -> bool:
        """Log lines of objective and accuracy for each output; return whether some output had weight above 0."""
        for name, totals in self.outputs.items():
            what = "log-likelihood" if totals.objective_kind == "linear" else "objective"
            logger.info(f"Overall {what} for '{name}' is {_ratio(totals.objective, totals.weight):.6g} per frame, over "
                        f"{totals.weight:.6g} frames.", extra=_PLACE)
            if self.options.compute_accuracy:
                accuracy = _ratio(totals.num_correct, totals.accuracy_weight)
                logger.info(f"Overall accuracy for '{name}' is {accuracy:.6g} per frame, over "
                            f"{totals.accuracy_weight:.6g} frames.", extra=_PLACE)
            if totals.per_dim_accuracy is not None:
                values = " ".join(f"{value:.6g}" for value in totals.per_dim_accuracy)
                logger.info(f"Overall per-dim accuracy vector for '{name}' is  [ {values} ]\n per frame, over "
                            f"{totals.accuracy_weight:.6g} frames.", extra=_PLACE)
        return any(totals.weight > 0.0 for totals in self.outputs.values())


def best_classes(supervision: GeneralMatrix) -> tuple[np.ndarray, np.ndarray]:
    """Return the class of largest weight in each row (int64; the first of equals) and the rows' weights (float64)."""
    if not isinstance(supervision, SparseMatrix):
        dense = to_dense(supervision)
        return dense.argmax(axis=1), dense.sum(axis=1, dtype=np.float64)
    num_rows = supervision.shape[0]
    rows = np.repeat(np.arange(num_rows), np.diff(supervision.row_starts))
    weights = np.bincount(rows, weights=supervision.values, minlength=num_rows)
    # Sorted by row, then by falling value, then by position: the first entry of a row is its largest.
    order = np.lexsort((np.arange(len(rows)), -supervision.values, rows))
    best = np.zeros(num_rows, dtype=np.int64)
    present, first = np.unique(rows, return_index=True)
    best[present] = supervision.columns[order[first]]
    return best, weights


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else float("nan")


_MAIN = kaldi_place("main", "nnet3-combine.cc", 190)
_RECOMPUTE = kaldi_place("RecomputeStats", "nnet-utils.cc", 552)


class Diagnostics(Protocol):
    """Interface of accumulators of a network's objectives on examples of one kind."""

    def compute(self, eg: Any, /) -> None:
        """Add one example."""

    def totals(self) -> tuple[float, float]:
        """Return objective and weight, each summed over all outputs."""

    def log_totals(self) -> bool:
        """Log a line for each output; return whether some output had weight above 0."""


# Makes the diagnostics of a network, from its compiler (None: a new one) and whether component statistics are stored.
MakeDiagnostics = Callable[[Nnet, CachingCompiler | None, bool], Diagnostics]


class Combination(NamedTuple):
    """The best average, its number of models, and the objectives per frame of the newest model and of the average."""

    nnet: Nnet
    num_models: int
    first_objective: float
    best_objective: float


def combine_nnets(nnets: Iterable[tuple[str, Nnet]], count: int, egs: Sequence[object],
                  options: CombineOptions | None = None,
                  make_diagnostics: MakeDiagnostics | None = None) -> Combination:
    """Average the newest models, as many as give the best objective; recompute the average's batch-norm statistics.

    Raises UsageError without models or examples, or for an option that makes no sense, and Nnet3Error for networks of
    different structure, or examples that do not fit them.

    Parameters
    ----------
    nnets : (name, network) pairs, newest first, read one at a time; the first network is changed in place
    count : the number of networks
    egs : merged examples, all in memory
    options : see :class:`CombineOptions`
    make_diagnostics : maker of accumulators for other kinds of examples; None: the examples are frame-level
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
    """Return a maker of diagnostics for frame-level examples; accuracies are computed only along with statistics."""
    return lambda nnet, compiler, store_stats: NnetDiagnostics(nnet, DiagnosticOptions(
        compute_accuracy=store_stats, store_component_stats=store_stats, optimize=options.optimize,
        compiler=options.compiler, device=options.device), compiler=compiler)


def recompute_stats(nnet: Nnet, egs: Sequence[object], make_diagnostics: MakeDiagnostics) -> None:
    """Replace the statistics of ``nnet`` by those on examples, in place, and log its objectives. Kaldi: RecomputeStats.

    Test modes are not changed, so batch normalization uses the statistics of each example.
    """
    logger.info("Recomputing stats on nnet (affects batch-norm)", extra=_RECOMPUTE)
    zero_component_stats(nnet)
    diagnostics = make_diagnostics(nnet, None, True)
    for eg in egs:
        diagnostics.compute(eg)
    diagnostics.log_totals()
    logger.info("Done recomputing stats.", extra=_RECOMPUTE)


class _Evaluator:
    """Evaluator of the objective on fixed examples, for networks of one structure; computations are compiled once."""

    def __init__(self, nnet: Nnet, egs: Sequence[object], options: CombineOptions,
                 make_diagnostics: MakeDiagnostics) -> None:
        self._egs, self._make_diagnostics = egs, make_diagnostics
        self._form = nnet.copy()     # the compiler's network; its parameters are not used
        if options.batchnorm_test_mode:
            set_batchnorm_test_mode(self._form, True)
        if options.dropout_test_mode:
            set_dropout_test_mode(self._form, True)
        self.compiler = CachingCompiler.with_options(self._form, options.optimize, options.compiler)

    def objective(self, nnet: Nnet) -> float:
        """Return the objective per frame, summed over outputs; minus infinity if it is not finite."""
        tested = self._form.copy()
        tested.scale(0.0)
        tested.add(1.0, nnet)
        diagnostics = self._make_diagnostics(tested, self.compiler, False)
        for eg in self._egs:
            diagnostics.compute(eg)
        total, weight = diagnostics.totals()
        objective = total / weight if weight else math.nan
        return objective if math.isfinite(objective) else -math.inf
