"""Objectives of a network's outputs: those of its output nodes, or losses instead; averages for the log.

With the output Y and the supervision S (dense, compressed or sparse), each with a row for each index of the output:

=============  ==================  ==========================  ============
``objective``  weight              value                       derivative
=============  ==================  ==========================  ============
``linear``     sum of S            sum of Y·S (elementwise)     S
``quadratic``  number of rows      -1/2 sum of (S - Y)²         S - Y
=============  ==================  ==========================  ============

Nothing is divided by the weight: derivatives are sums over the minibatch. Kaldi: ``ComputeObjectiveFunction``.

Kaldi maximizes objectives. A :class:`Loss` is minimized, and most losses are means over frames. ``_kaldi_sums`` turns
a loss into an objective: minus the loss times the number of frames, with the number of frames as weight.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nnet3py.config_line import did_you_mean
from nnet3py.egs.example import NnetIo
from nnet3py.errors import ShapeError, UsageError, within
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, check_finite, to_dense
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.training.loss_function import Loss
from nnet3py.training.targets import NO_TARGET

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops
    from nnet3py.training.minibatches import LossFunction

logger = logging.getLogger(__name__)


class Objective(NamedTuple):
    """The weight and the value of an objective, both summed over a minibatch."""

    weight: float
    value: float


def check_supervision(name: str, supervision: GeneralMatrix, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless ``supervision`` fits an output of ``shape`` (rows, dim)."""
    rows, cols = supervision.shape
    if cols != shape[1]:
        raise ShapeError(f"Nnet versus example output dimension (num-classes) mismatch for '{name}': {shape[1]} (nnet) "
                         f"vs. {cols} (egs)", "were the examples made for another network or another --num-pdfs?")
    if rows != shape[0]:
        raise ShapeError(f"supervision of '{name}' has {rows} rows for {shape[0]} output frames")


def queue_objective(ops: Ops, kind: str, supervision: GeneralMatrix, output: DeviceArray,
                    deriv: DeviceArray | None) -> Callable[[], Objective]:
    """Queue the computation of the objective of one output, and of its derivative into ``deriv``.

    Raises NumericError for NaN or infinity in the supervision.

    Parameters
    ----------
    ops : the device's operations
    kind : "linear" or "quadratic"
    supervision : float32 array, CompressedMatrix or SparseMatrix, (rows, dim)
    output : device matrix (rows, dim)
    deriv : device matrix (rows, dim) to set, or None where no derivative is wanted

    Returns
    -------
    A function that waits for the device and returns the objective; to be called once.
    """
    if isinstance(supervision, SparseMatrix) and kind == "linear":
        check_finite(supervision, "the supervision")
        with ops.staged(supervision.row_starts, supervision.columns, supervision.values) as table:
            if deriv is not None:
                ops.copy_from_sparse(deriv, *table)
            value = ops.later("sum_product_sparse", output, *table)
        weight = float(supervision.values.sum(dtype=np.float64))
        return lambda: Objective(weight, value())
    dense = to_dense(supervision)
    check_finite(dense, "the supervision")
    target = deriv if deriv is not None else ops.scratch(*output.shape)
    ops.copy_in(target, dense)
    if kind == "linear":
        value, weight = ops.later("sum_product", output, target), float(dense.sum(dtype=np.float64))
        return lambda: Objective(weight, value())
    ops.add_mat(target, output, -1.0)
    square = ops.later("sum_product", target, target)
    return lambda: Objective(float(dense.shape[0]), -0.5 * square())


def compute_objective(ops: Ops, kind: str, supervision: GeneralMatrix, output: DeviceArray,
                      deriv: DeviceArray | None) -> Objective:
    """Compute the objective of one output as :func:`queue_objective` does, and wait for it."""
    return queue_objective(ops, kind, supervision, output, deriv)()


LossLike: TypeAlias = "Loss | LossFunction"


@dataclass(frozen=True)
class Frames:
    """Order of an output's rows: the sequence and frame of each."""

    # the number of sequences, and of frames of each, which is the same for all
    num_sequences: int
    num_frames: int
    # numbers of the rows in order of sequence, then frame, int (rows,); None: they are in this order already
    order: np.ndarray | None = None

    @classmethod
    def of(cls, indexes: np.ndarray, name: str) -> Frames:
        """Return the order of rows with indexes (n, t, x), int32 (rows, 3); ``name`` is for errors.

        Raises ShapeError if sequences have different numbers of frames.
        """
        n = indexes[:, 0]
        order = None if (np.diff(n) >= 0).all() else np.argsort(n, kind="stable")
        counts = np.unique(n, return_counts=True)[1]
        if (counts != counts[0]).any():
            raise ShapeError(f"the sequences of a minibatch have from {counts.min()} to {counts.max()} frames of "
                             f"'{name}', but a loss is given an array (sequences, frames, dim)",
                             "merge examples of equal length only, as nnet3-merge-egs does")
        return cls(len(counts), int(counts[0]), order)

    def sequences(self, rows: np.ndarray) -> np.ndarray:
        """Reorder an array (rows, …) to (sequences, frames, …)."""
        rows = rows if self.order is None else rows[self.order]
        return rows.reshape(self.num_sequences, self.num_frames, *rows.shape[1:])

    def rows(self, sequences: np.ndarray) -> np.ndarray:
        """Reorder an array (sequences, frames, …) to (rows, …)."""
        rows = sequences.reshape(-1, *sequences.shape[2:])
        if self.order is None:
            return rows
        result = np.empty_like(rows)
        result[self.order] = rows
        return result


@dataclass(frozen=True)
class LossTarget:
    """The target of a loss, with a weight for each row."""

    frames: Frames    # the order of the output's rows
    # int64 (sequences, frames), float32 (sequences, frames, width), or any other object that the loss accepts
    target: Any
    # factors of the rows of the derivative, float32 (rows,), 0: the frame does not count; None: 1 for all
    weights: np.ndarray | None = None
    # the number of frames over which the loss is a mean; None: the frames that count
    num_frames: float | None = None

    @classmethod
    def of_array(cls, frames: Frames, target: Any, num_frames: float | None = None) -> LossTarget:
        """Make the target from an array (sequences, frames, …) or another object; classes of -1 do not count."""
        weights = None
        if isinstance(target, np.ndarray) and target.dtype.kind in "iu" and target.ndim == 2:
            weights = frames.rows(target != NO_TARGET).astype(np.float32)
        return cls(frames, target, weights, num_frames)


class OutputObjectives:
    """The objectives of a network's outputs.

    Raises UsageError for a loss that cannot be called, or for an output that the network does not have.

    Parameters
    ----------
    nnet : the network, whose output nodes have objectives ("linear" or "quadratic")
    loss : a loss in place of the objectives of all outputs, or a dict of losses by the names of outputs; None: no loss
    """

    def __init__(self, nnet: Nnet, loss: LossLike | Mapping[str, LossLike] | None = None) -> None:
        self._nnet = nnet
        outputs = [node.name for i, node in enumerate(nnet.nodes) if nnet.is_output(i)]
        by_name = dict(loss) if isinstance(loss, Mapping) else dict.fromkeys(outputs, loss) if loss is not None else {}
        for name in by_name:
            if name not in outputs:
                raise UsageError(f"there is a loss for {name!r}, which is no output of the network",
                                 did_you_mean(str(name), outputs) or f"its outputs are {', '.join(outputs)}")
        self.losses = {name: each if isinstance(each, Loss) else Loss(each) for name, each in by_name.items()}
        self._have_classes: dict[str, bool] = {}

    def queue(self, ops: Ops, io: NnetIo, output: DeviceArray, deriv: DeviceArray | None,
              where: str = "an example") -> Callable[[], Objective]:
        """Queue the computation of the objective of one output of an example, and of its derivative into ``deriv``.

        See :func:`queue_objective`; a loss is computed immediately, and error messages begin with ``where``. Raises the
        errors of :class:`Loss`, ShapeError for supervision of another shape, NumericError for NaN in the supervision.
        """
        loss = self.losses.get(io.name)
        if loss is None:
            return self.queue_own(ops, io.name, io.features, output, deriv)
        with within(where):
            if io.features.shape[0] != output.shape[0]:
                raise ShapeError(f"supervision of '{io.name}' has {io.features.shape[0]} rows for {output.shape[0]} "
                                 "output frames")
            check_finite(io.features, "the supervision")
            objective, _ = loss_objective(loss, io.name, ops, self._loss_target(loss, io), output, deriv)
        return lambda: objective

    def queue_own(self, ops: Ops, name: str, supervision: GeneralMatrix, output: DeviceArray,
                  deriv: DeviceArray | None) -> Callable[[], Objective]:
        """Queue the computation of the output node's own objective, even if the output has a loss."""
        check_supervision(name, supervision, output.shape)
        kind = self._nnet.descriptor_of(self._nnet.node_index(name)).objective
        return queue_objective(ops, kind, supervision, output, deriv)

    def _loss_target(self, loss: Loss, io: NnetIo) -> LossTarget:
        frames, matrix = Frames.of(io.indexes, io.name), io.features
        if not self._are_classes(loss, io.name, matrix) or not isinstance(matrix, SparseMatrix):
            return LossTarget(frames, frames.sequences(to_dense(matrix)))
        counts = np.diff(matrix.row_starts) > 0
        classes, weights = np.full(len(counts), NO_TARGET), np.zeros(len(counts), np.float32)
        classes[counts], weights[counts] = matrix.columns, matrix.values
        return LossTarget(frames, frames.sequences(classes), weights)

    def _are_classes(self, loss: Loss, name: str, matrix: GeneralMatrix) -> bool:
        """Return whether targets are given to the loss as classes; decided by the first minibatch, for all others."""
        most = int(np.diff(matrix.row_starts).max(initial=0)) if isinstance(matrix, SparseMatrix) else None
        if loss.classes is False:
            return False
        wanted = True if loss.classes else self._have_classes.setdefault(name, most is not None and most <= 1)
        if wanted and (most is None or most > 1):
            targets = "numbers" if most is None else f"up to {most} classes for a frame"
            raise UsageError(f"the loss {loss.name} takes the targets of '{name}' as classes, one for each frame; "
                             f"found {targets}", f"nnet3py.Loss({loss.name}, classes=False) always gets numbers")
        return wanted


def loss_objective(loss: Loss, name: str, ops: Ops, wanted: LossTarget, output: DeviceArray,
                   deriv: DeviceArray | None) -> tuple[Objective, float]:
    """Compute the loss of the output ``name``; return it as an objective (see ``_kaldi_sums``), and as the loss has it.

    ``output`` (rows, dim) and ``deriv``, which is set unless it is None, are on the device of ``ops``.
    """
    frames, weights = wanted.frames, wanted.weights
    num_frames = wanted.num_frames
    if num_frames is None:
        num_frames = float(output.shape[0] if weights is None else np.count_nonzero(weights))
    if num_frames == 0.0 or (weights is not None and not weights.any()):      # a mean over nothing
        if deriv is not None:
            ops.copy_in(deriv, np.zeros(deriv.shape, np.float32))
        return Objective(0.0, 0.0), 0.0
    values = frames.sequences(np.asarray(ops.copy_out(output)))
    value, derivative = loss(values, wanted.target, where=f"'{name}'", with_derivative=deriv is not None)
    objective, scale = _kaldi_sums(loss.reduction, value, num_frames)
    if deriv is not None and derivative is not None:
        ops.copy_in(deriv, kaldi_derivative(frames.rows(derivative), scale, weights))
    return objective, value


def _kaldi_sums(reduction: str, value: float, num_frames: float) -> tuple[Objective, float]:
    """Turn a loss into an objective; return it, and the factor that does the same for the loss's derivative."""
    factor = -num_frames if reduction == "mean" else -1.0
    return Objective(num_frames, factor * value), factor


def kaldi_derivative(rows: np.ndarray, scale: float, weights: np.ndarray | None = None) -> np.ndarray:
    """Turn the derivative of a loss into that of Kaldi's objective: times ``scale`` and each row's weight, float32."""
    result = np.asarray(rows) * scale
    if weights is not None:
        result *= weights[:, None]
    return np.ascontiguousarray(result, dtype=np.float32)


_TOTAL = kaldi_place("PrintTotalStats", "nnet-training.cc", 317)
_SCRIPTS = kaldi_place("PrintTotalStats", "nnet-training.cc", 324)
_PHASE = kaldi_place("PrintStatsForThisPhase", "nnet-training.cc", 278)


@dataclass
class ObjectiveStats:
    """Totals of one output's objective, over the training and over the current phase of ``print_interval`` minibatches.

    An auxiliary objective, such as the l2 term of the output in chain training, is logged too.
    """

    name: str
    print_interval: int
    total_weight: float = 0.0
    total_objective: float = 0.0
    total_aux: float = 0.0
    phase: int = 0
    phase_minibatches: int = 0
    phase_weight: float = 0.0
    phase_objective: float = 0.0
    phase_aux: float = 0.0

    def add(self, minibatch: int, weight: float, objective: float, aux_objective: float = 0.0) -> None:
        """Add one minibatch; if a new phase begins with it, first log the finished phase."""
        phase = minibatch // self.print_interval
        if phase != self.phase:
            self._log_phase(phase)
            self.phase, self.phase_minibatches = phase, 0
            self.phase_weight = self.phase_objective = self.phase_aux = 0.0
        self.phase_minibatches += 1
        self.phase_weight += weight
        self.phase_objective += objective
        self.phase_aux += aux_objective
        self.total_weight += weight
        self.total_objective += objective
        self.total_aux += aux_objective

    def average(self) -> float:
        """Return the objective per frame (per unit of weight) over all minibatches; NaN if there was no weight."""
        return self.total_objective / self.total_weight if self.total_weight else float("nan")

    def log_total(self) -> None:
        """Log the two final lines, the second in the form that Kaldi's scripts look for."""
        shown = per_frame(self.total_objective, self.total_aux, self.total_weight)
        logger.info(f"Overall average objective function for '{self.name}' is {shown} over {self.total_weight:.6g} "
                    "frames.", extra=_TOTAL)
        logger.info(f"[this line is to be parsed by a script:] log-prob-per-frame={self.average():.6g}", extra=_SCRIPTS)

    def _log_phase(self, next_phase: int) -> None:
        first, last = self.phase * self.print_interval, next_phase * self.print_interval - 1
        if self.phase_minibatches == self.print_interval:
            which = f"'{self.name}' for minibatches {first}-{last}"
        else:   # Kaldi prints this form without the closing quote, and scripts expect that
            quote = "'" if self.phase_aux else ""
            which = f"'{self.name}{quote} using {self.phase_minibatches} minibatches in minibatch range {first}-{last}"
        shown = per_frame(self.phase_objective, self.phase_aux, self.phase_weight)
        logger.info(f"Average objective function for {which} is {shown} over {self.phase_weight:.6g} frames.",
                    extra=_PHASE)


def per_frame(objective: float, aux_objective: float, weight: float) -> str:
    """Format an objective divided by its weight for the log; with an auxiliary objective as "F + G = H"."""
    value, aux = (total / weight if weight else float("nan") for total in (objective, aux_objective))
    return f"{value:.6g} + {aux:.6g} = {value + aux:.6g}" if aux_objective else f"{value:.6g}"
