"""Discriminative objectives of a network's output, and their derivatives. Kaldi: ``DiscriminativeObjectiveInfo``.

MMI: the reference's score minus the log of the sum over the lattice's paths. MPFE and sMBR: the expected number of
frames whose phone, or pdf, is the reference's. As in Kaldi the derivative is that with respect to the scaled
log-likelihoods: it lacks the acoustic scale as a factor, and learning rates are chosen for that.

D. Povey: "Discriminative training for large vocabulary speech recognition", 2003; B. Kingsbury: "Lattice-based
optimization of sequence classification criteria for neural-network acoustic modeling", 2009.
"""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.chain.scratch import scratch_doubles, scratch_floats
from nnet3py.discriminative.lattice_graphs import LatticeGraphs, lattice_graphs, output_rows
from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.egs.discriminative_example import DiscriminativeSupervision
from nnet3py.errors import NumericError, ShapeError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.log import kaldi_place
from nnet3py.transducers.state_graphs import starts_by

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

LOWEST_LOG_PROB = np.float32(-20.0 * math.log(10.0))    # scores below count as this
FAILED_OBJECTIVE = -10.0                                # per frame, of a minibatch whose computation failed
TOTALS_TOLERANCE = {"mmi": 1e-8, "mpfe": 1e-6, "smbr": 1e-6}    # relative, between forward and backward sums
ACCURACY_TOLERANCE = 1e-4                               # the same for expected accuracies
MOST_MARKED = 1 << 24                                   # elements of an output that are numbered by marks

_PLACE = kaldi_place("ComputeObjfAndDeriv", "discriminative-training.cc", 251)


@dataclass
class DiscriminativeTotals:
    """Sums over minibatches.

    Attributes
    ----------
    frames : their number; ``weight`` : with the weights of the supervisions
    numerator : MMI's reference scores; ``objective`` : what is maximized, both weighted; ``l2_term``
    num_count, den_count : sums of the derivative's positive elements and of the negative ones, without weights
    gradients, outputs : float64 (pdfs,), sums of the derivative and of exp(output), or (0,) where not asked for
    """

    frames: float = 0.0
    weight: float = 0.0
    numerator: float = 0.0
    objective: float = 0.0
    l2_term: float = 0.0
    num_count: float = 0.0
    den_count: float = 0.0
    gradients: np.ndarray = field(default_factory=lambda: np.zeros(0))
    outputs: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, other: DiscriminativeTotals) -> None:
        """Add the sums of another minibatch."""
        for part in fields(self):
            mine, more = getattr(self, part.name), getattr(other, part.name)
            is_first = isinstance(mine, np.ndarray) and not len(mine)
            setattr(self, part.name, more if is_first else mine + more)

    def average(self) -> float:
        """The objective per frame, without the l2 term; NaN if there was no weight."""
        return self.objective / self.weight if self.weight else math.nan


class _Entries(NamedTuple):
    """The places of an output that a minibatch needs, a sparse matrix: those of the lattice and of the reference.

    ``rows``, ``columns``: int32 (entries,), sorted; ``row_starts``: int64 (rows + 1,); ``of_arcs``: int32 (arcs,), with
    one more entry for epsilon arcs; ``reference``: integers (frames,), of frames in the supervision's order.
    """

    rows: np.ndarray
    columns: np.ndarray
    row_starts: np.ndarray
    of_arcs: np.ndarray
    reference: np.ndarray


def _numbered(size: int, *places: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The distinct places, all below ``size``, in order, and for each array the numbers of its places among them."""
    if size > MOST_MARKED:
        distinct, which = np.unique(np.concatenate(places), return_inverse=True)
        return distinct, np.split(which.reshape(-1), np.cumsum([len(part) for part in places])[:-1])
    marks = np.zeros(size, bool)       # a mark for each is quicker than sorting
    for part in places:
        marks[part] = True
    distinct = np.flatnonzero(marks)
    numbers = np.empty(size, np.int32)
    numbers[distinct] = np.arange(len(distinct))
    return distinct, [numbers[part] for part in places]


class DiscriminativeObjective:
    """Computes one objective for one model.

    Parameters
    ----------
    ops : the device's operations
    model : the transition model
    priors : float32 (pdfs,), or (0,) if outputs need none, as for chain models
    options : see :class:`DiscriminativeOptions`
    """

    def __init__(self, ops: Ops, model: TransitionModel, priors: np.ndarray, options: DiscriminativeOptions) -> None:
        options.check()
        self.ops, self.options = ops, options
        self._model, self._silence = model, np.unique(np.asarray(options.silence_phones, np.int64))
        if len(priors) and (np.any(priors <= 0.0) or np.any(priors > 1.0)):
            raise NumericError(f"a prior of the model is {priors[(priors <= 0) | (priors > 1)][0]:g}, expected "
                               "probabilities", "nnet3-am-adjust-priors sets them")
        self._log_priors = np.log(priors)

    def compute(self, supervision: DiscriminativeSupervision, output: DeviceArray,
                deriv: DeviceArray | None = None) -> DiscriminativeTotals:
        """The objective of one minibatch, and its derivative into ``deriv``.

        Parameters
        ----------
        supervision : of all sequences of the minibatch
        output : device matrix (rows, pdfs), log-probabilities if the model has priors; row t S + s is frame t of
            sequence s of S
        deriv : device matrix (rows, pdfs) to set, or None where no derivative is wanted

        An objective that is NaN gets Kaldi's -10 for each frame, a warning, and derivatives of 0.

        Raises
        ------
        ShapeError : the supervision is for another output, or its lattice and alignment differ in length
        NumericError : the output is not log-probabilities although the model has priors
        LatticeError : see ``lattice_graphs``
        """
        ops, options = self.ops, self.options
        self._check_output(supervision, output)
        graphs = lattice_graphs(supervision, self._model)
        entries = self._entries(graphs, supervision, output.shape[1])
        mark = ops.mark_scratch()
        with ops.staged(entries.rows, entries.columns, entries.row_starts) as (rows, columns, row_starts):
            raw = scratch_floats(ops, len(entries.rows))
            ops.chain_gather(raw, output, rows, columns)
            scores = self._scores(ops.read_later(raw)(), entries)
            totals, values = self._sums(graphs, entries, scores, supervision)
            if deriv is not None:
                with ops.staged(values) as (elements,):
                    ops.copy_from_sparse(deriv, row_starts, columns, elements)
        ops.release_scratch(mark)
        if options.accumulate_gradients:
            totals.gradients = np.bincount(entries.columns, values, output.shape[1])
        if options.accumulate_output:
            totals.outputs = np.exp(np.asarray(ops.copy_out(output), np.float64)).sum(axis=0)
        if options.l2_regularize:
            factor = supervision.weight * options.l2_regularize
            totals.l2_term = -0.5 * factor * ops.sum_product(output, output)
            if deriv is not None:
                ops.add_mat(deriv, output, -factor)
        return totals

    def pdfs(self, alignment: np.ndarray) -> np.ndarray:
        """int32, the pdfs of transition-ids."""
        pdfs: np.ndarray = self._model.transition_id_to_pdf[alignment]
        return pdfs

    def _check_output(self, supervision: DiscriminativeSupervision, output: DeviceArray) -> None:
        num_pdfs, num_frames = self._model.num_pdfs, supervision.num_sequences * supervision.frames_per_sequence
        if output.shape[1] != num_pdfs:
            raise ShapeError(f"the network's output has the dimension {output.shape[1]}, but the transition model has "
                             f"{num_pdfs} pdfs", "network and transition model must be of one model")
        if len(self._log_priors) not in (0, num_pdfs):
            raise ShapeError(f"the model has {len(self._log_priors)} priors for {num_pdfs} pdfs")
        if output.shape[0] != num_frames:
            raise ShapeError(f"the supervision is of {supervision.num_sequences} sequences of "
                             f"{supervision.frames_per_sequence} frames, but the output has {output.shape[0]} rows")

    def _entries(self, graphs: LatticeGraphs, supervision: DiscriminativeSupervision, num_pdfs: int) -> _Entries:
        """The elements of the output that a minibatch's arcs and reference stand for."""
        emits, num_frames = graphs.ids != 0, len(supervision.num_ali)
        arcs = output_rows(graphs.times[emits].astype(np.int64), supervision) * num_pdfs + self.pdfs(graphs.ids[emits])
        reference = output_rows(np.arange(num_frames), supervision) * num_pdfs + self.pdfs(supervision.num_ali)
        places, (of_emitting, of_reference) = _numbered(num_frames * num_pdfs, arcs, reference)
        of_arcs = np.full(len(emits), len(places), np.int32)
        of_arcs[emits] = of_emitting
        rows, columns = (part.astype(np.int32) for part in np.divmod(places, num_pdfs))
        return _Entries(rows, columns, starts_by(rows, num_frames), of_arcs, of_reference)

    def _scores(self, output: np.ndarray, entries: _Entries) -> np.ndarray:
        """float32 (entries + 1,): scaled log-likelihoods of elements of the output, and 0 for epsilon arcs."""
        floored = int(np.count_nonzero(output < LOWEST_LOG_PROB))
        if floored:
            logger.warning(f"Floored {floored} probabilities from nnet.", extra=_PLACE)
        if len(self._log_priors) and output.max(initial=-1.0) > 0.0:
            raise NumericError(f"the network's output holds {output.max():g}, expected log-probabilities: the model "
                               "has priors", "its last component must be a log-softmax; models without it, such as "
                               "chain models, have no priors")
        scores = np.maximum(output, LOWEST_LOG_PROB)      # NaN stays
        if len(self._log_priors):
            scores = scores - self._log_priors[entries.columns]
        return np.append(np.float32(self.options.acoustic_scale) * scores.astype(np.float32), np.float32(0.0))

    def _sums(self, graphs: LatticeGraphs, entries: _Entries, scores: np.ndarray,
              supervision: DiscriminativeSupervision) -> tuple[DiscriminativeTotals, np.ndarray]:
        """The objective, and float32 (entries,): the derivative's elements."""
        is_mmi, num_frames = self.options.criterion == "mmi", len(supervision.num_ali)
        totals = DiscriminativeTotals(num_frames, num_frames * supervision.weight)
        result, arc_values = self._over_paths(graphs, scores[entries.of_arcs], supervision)
        values = np.bincount(entries.of_arcs, arc_values, len(entries.rows) + 1)[:-1]
        if is_mmi:
            in_lattice = values[entries.reference] != 0.0
            np.negative(values, out=values)
            values[entries.reference] += 1.0
            if self.options.drop_frames:
                kept = np.ones(num_frames, bool)
                kept[entries.rows[entries.reference]] = in_lattice
                values[~kept[entries.rows]] = 0.0
            totals.numerator = supervision.weight * float(scores[entries.reference].sum(dtype=np.float64))
        denominator = supervision.weight * result
        if not math.isfinite(totals.numerator - denominator):
            logger.warning(f"Objective function is {totals.numerator - denominator:.6g}, setting to "
                           f"{FAILED_OBJECTIVE:g} per frame.", extra=_PLACE)
            denominator, values = FAILED_OBJECTIVE * totals.weight, np.zeros_like(values)
        totals.objective = totals.numerator - denominator if is_mmi else denominator
        totals.num_count = float(values[values > 0.0].sum())
        totals.den_count = -float(values[values < 0.0].sum())
        return totals, (supervision.weight * values).astype(np.float32)

    def _over_paths(self, graphs: LatticeGraphs, scores: np.ndarray,
                    supervision: DiscriminativeSupervision) -> tuple[float, np.ndarray]:
        """MMI: the log of the sum over all paths, and arcs' posteriors; else expected accuracy, and its derivatives."""
        ops, is_mmi = self.ops, self.options.criterion == "mmi"
        costs = graphs.costs - self._boosts(graphs, supervision) if is_mmi else graphs.costs
        accuracies = np.zeros(0, np.float32) if is_mmi else self._accuracies(graphs, supervision)
        mark, num_nodes = ops.mark_scratch(), len(graphs.finals)
        with ops.staged(scores, costs, graphs.finals, accuracies, *graphs.tables) as (
                arc_scores, arc_costs, finals, arc_accuracies, sources, nexts, in_starts, in_arcs, out_starts, out_arcs,
                level_starts):
            results = scratch_floats(ops, len(scores))
            alpha, beta = scratch_doubles(ops, num_nodes), scratch_doubles(ops, num_nodes)
            sums = scratch_doubles(ops, graphs.num_graphs, 2 if is_mmi else 4)
            if is_mmi:
                ops.chain_numerator(results, alpha, beta, sums, arc_scores, arc_costs, finals, sources, nexts,
                                    in_starts, in_arcs, out_starts, out_arcs, level_starts, graphs.num_levels, 1.0)
            else:
                left, right = scratch_doubles(ops, num_nodes), scratch_doubles(ops, num_nodes)
                ops.lattice_accuracies(results, alpha, beta, left, right, sums, arc_scores, arc_costs, finals,
                                       arc_accuracies, sources, nexts, in_starts, in_arcs, out_starts, out_arcs,
                                       level_starts, graphs.num_levels, 1.0)
            read_sums, read_results = ops.read_later(sums), ops.read_later(results)
            sums_of_graphs, arc_values = read_sums().reshape(graphs.num_graphs, -1), read_results()
        ops.release_scratch(mark)
        self._check_passes(sums_of_graphs.sum(axis=0))
        return float(np.float32(sums_of_graphs[:, 0 if is_mmi else 2].sum())), arc_values

    def _boosts(self, graphs: LatticeGraphs, supervision: DiscriminativeSupervision) -> np.ndarray:
        """float32 (arcs,): how much an arc's graph cost is reduced for a wrong phone other than silence."""
        phones, reference = self._phones(graphs, supervision)
        wrong = (phones != reference) & ~np.isin(phones, self._silence) & (graphs.ids != 0)
        return np.float32(self.options.boost) * wrong.astype(np.float32)

    def _accuracies(self, graphs: LatticeGraphs, supervision: DiscriminativeSupervision) -> np.ndarray:
        """float32 (arcs,): 1 for an arc that is right by the criterion, else 0."""
        phones, reference_phones = self._phones(graphs, supervision)
        is_silence = np.isin(phones, self._silence)
        if self.options.criterion == "mpfe":
            same = phones == reference_phones
        else:
            same = self.pdfs(graphs.ids) == self.pdfs(supervision.num_ali[graphs.times])
        both_silence = is_silence & np.isin(reference_phones, self._silence)
        right = same | both_silence if self.options.one_silence_class else same & ~is_silence
        return (right & (graphs.ids != 0)).astype(np.float32)

    def _phones(self, graphs: LatticeGraphs, supervision: DiscriminativeSupervision) -> tuple[np.ndarray, np.ndarray]:
        """The phone of each arc and that of the reference in its frame; arbitrary for epsilon arcs."""
        phone_of = self._model.transition_id_to_phone
        return phone_of[graphs.ids], phone_of[supervision.num_ali[graphs.times]]

    def _check_passes(self, sums: np.ndarray) -> None:
        """Warn, or raise NumericError, where the forward and the backward pass do not agree, as Kaldi does."""
        for forward, backward, tolerance, what in zip(
                sums[::2].tolist(), sums[1::2].tolist(),
                (TOTALS_TOLERANCE[self.options.criterion], ACCURACY_TOLERANCE), ("log-probability", "accuracy"),
                strict=False):
            if not math.isfinite(forward) or math.isclose(forward, backward, rel_tol=tolerance, abs_tol=tolerance):
                continue
            message = f"the lattice's total {what} is {forward:.8g} forward and {backward:.8g} backward"
            if self.options.criterion == "mmi":
                logger.warning(f"{message}.", extra=_PLACE)
            else:
                raise NumericError(message)
