"""Discriminative objectives of a network's output, and their derivatives. Kaldi: ``DiscriminativeObjectiveInfo``.

MMI: the reference's log-probability minus the log of the sum over the lattice's paths. MPFE and sMBR: the expected
number of frames whose phone, or pdf, is the reference's. As in Kaldi the derivative is the one with respect to the
scaled log-likelihoods: the acoustic scale is missing as a factor, and learning rates are chosen for that.

Kernels get the lattices of a minibatch as arrays, with one graph for each sequence where possible. A merged
supervision has one lattice: those of its sequences, one after the other, joined by epsilon arcs. If every path between
two sequences goes through one state, which only epsilon arcs enter, the lattice is cut there, and the costs of these
arcs become final costs. Sums over all paths are products of the sums over the pieces.

D. Povey: "Discriminative training for large vocabulary speech recognition", 2003; B. Kingsbury: "Lattice-based
optimization of sequence classification criteria for neural-network acoustic modeling", 2009.
"""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.chain.denominator import scratch_doubles, scratch_floats
from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.egs.discriminative_example import DiscriminativeSupervision
from nnet3py.errors import NumericError, ShapeError, within
from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.states import LatticeError, from_start, state_times, trimmed
from nnet3py.log import kaldi_place
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.state_graphs import starts_by

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)


class LatticeGraphs(NamedTuple):
    """Graphs whose nodes are in levels, as arrays; each arc leads to a later level."""

    # num_graphs, num_levels: nodes are sorted by graph, then level; each graph begins in a node of its own
    num_graphs: int
    num_levels: int
    # int32 (arcs,), the frame, counted through all sequences one after the other; -1 for an epsilon arc
    times: np.ndarray
    ids: np.ndarray  # int32 (arcs,), transition-ids; 0 for an epsilon arc
    # costs, finals: float32, graph costs of arcs and final costs of nodes; infinity for a node that is not final
    costs: np.ndarray
    finals: np.ndarray
    # the arguments of ``chain_numerator`` and ``lattice_accuracies`` from ``sources`` to ``level_starts``
    tables: tuple[np.ndarray, ...]


def lattice_graphs(supervision: DiscriminativeSupervision, model: TransitionModel) -> LatticeGraphs:
    """Return the arrays for a supervision's lattice, without its acoustic costs.

    Raises ShapeError if the alignment or the lattice does not have the supervision's number of frames; LatticeError if
    the lattice has no path, a cycle, or does not end in its last frame; Nnet3Error for a transition-id that the model
    does not have.
    """
    num_frames = supervision.num_sequences * supervision.frames_per_sequence
    if len(supervision.num_ali) != num_frames:
        raise ShapeError(f"the alignment of a supervision has {len(supervision.num_ali)} frames, expected "
                         f"{supervision.num_sequences} sequences of {supervision.frames_per_sequence}")
    with within("the reference alignment"):
        check_transition_ids(model, supervision.num_ali)
    lattice = from_start(trimmed(supervision.den_lat))
    if lattice.start < 0 or not lattice.num_states:
        raise LatticeError("the lattice of a supervision has no path")
    with within("the lattice"):
        check_transition_ids(model, lattice.input_labels[lattice.input_labels != 0])
    if np.isnan(lattice.weights[:, 0]).any() or np.isnan(lattice.final_weights[lattice.is_final, 0]).any():
        raise LatticeError("the lattice of a supervision has a cost that is not a number")
    times = state_times(lattice)
    if (times[lattice.is_final] != num_frames).any():
        raise ShapeError(f"the lattice of a supervision has paths of {int(times[lattice.is_final].min())} frames, "
                         f"expected {num_frames}", "alignment and lattice must be of the same model and features")
    return _tables(lattice, times, supervision)


def _tables(lattice: Fst, times: np.ndarray, supervision: DiscriminativeSupervision) -> LatticeGraphs:
    cut = _cut_states(lattice, times, supervision)
    graph_of = np.searchsorted(cut, np.arange(lattice.num_states), side="right")
    sources, nexts, costs = lattice.sources, lattice.next_states, lattice.weights[:, 0].astype(np.float32)
    finals = np.where(lattice.is_final, lattice.final_weights[:, 0], NO_WEIGHT).astype(np.float32)
    between = graph_of[sources] != graph_of[nexts]
    finals[sources[between]] = costs[between]
    levels, length = _levels(lattice, times, cut, between, supervision)
    if length is None:      # epsilon arcs inside: a level for each state, and one more state for every end
        return _one_graph(lattice, times, finals)
    kept = np.flatnonzero(~between)
    order = np.lexsort((levels, graph_of))
    nodes = np.empty(len(order), np.int32)
    nodes[order] = np.arange(len(order))
    return LatticeGraphs(len(cut) + 1, length + 1, times[sources[kept]].astype(np.int32), lattice.input_labels[kept],
                         costs[kept], finals[order],
                         _arc_tables(nodes[sources[kept]], nodes[nexts[kept]], len(order),
                                     starts_by(graph_of * (length + 1) + levels, (len(cut) + 1) * (length + 1))))


def _cut_states(lattice: Fst, times: np.ndarray, supervision: DiscriminativeSupervision) -> np.ndarray:
    """Return the first state of the second and later sequences, if the lattice can be cut there; else an empty array.

    Only epsilon arcs from final states of the sequence before may enter such a state, and all paths must go through it.
    """
    none = np.zeros(0, np.int64)
    if supervision.num_sequences == 1:
        return none
    boundaries = np.arange(1, supervision.num_sequences) * supervision.frames_per_sequence
    sources, nexts, epsilon = lattice.sources, lattice.next_states, lattice.input_labels == 0
    leaves = np.zeros(lattice.num_states, bool)
    leaves[sources[~epsilon]] = True
    candidates = np.flatnonzero(leaves & np.isin(times, boundaries))
    if len(candidates) != len(boundaries) or not np.array_equal(times[candidates], boundaries):
        return none
    graph_of = np.searchsorted(candidates, np.arange(lattice.num_states), side="right")
    between = graph_of[sources] != graph_of[nexts]
    ends = np.bincount(sources[between], minlength=lattice.num_states)
    arcs = np.diff(lattice.arc_starts)
    fits = (np.array_equal(between, epsilon) and np.isin(nexts[between], candidates).all()
            and (arcs[ends > 0] == 1).all()
            and (times[sources[between]] == times[nexts[between]]).all())
    return candidates if fits else none


def _levels(lattice: Fst, times: np.ndarray, cut: np.ndarray, between: np.ndarray,
            supervision: DiscriminativeSupervision) -> tuple[np.ndarray, int | None]:
    """Return the level of each state in its graph, and the last level; None for it if epsilon arcs remain in a graph.
    """
    if (lattice.input_labels[~between] == 0).any():
        return times, None
    if not len(cut):
        return times, supervision.num_sequences * supervision.frames_per_sequence
    first = np.concatenate(([0], cut))
    graph_of = np.searchsorted(cut, np.arange(lattice.num_states), side="right")
    return times - times[first][graph_of], supervision.frames_per_sequence


def _one_graph(lattice: Fst, times: np.ndarray, finals: np.ndarray) -> LatticeGraphs:
    """Return the lattice as one graph, with a new end state; each state is a level, since states are sorted."""
    ends, end = np.flatnonzero(lattice.is_final), lattice.num_states
    ids = np.concatenate((lattice.input_labels, np.zeros(len(ends), np.int32))).astype(np.int32)
    sources = np.concatenate((lattice.sources, ends)).astype(np.int32)
    nexts = np.concatenate((lattice.next_states, np.full(len(ends), end))).astype(np.int32)
    costs = np.concatenate((lattice.weights[:, 0], finals[ends])).astype(np.float32)
    only_end = np.full(end + 1, NO_WEIGHT, np.float32)
    only_end[end] = 0.0
    frames = np.where(ids == 0, -1, np.append(times, 0)[sources]).astype(np.int32)
    return LatticeGraphs(1, end + 1, frames, ids, costs, only_end,
                         _arc_tables(sources, nexts, end + 1, np.arange(end + 2, dtype=np.int64)))


def output_rows(times: np.ndarray, supervision: DiscriminativeSupervision) -> np.ndarray:
    """Return rows of a network's output (frame-major) for frames in the supervision's order (sequence-major)."""
    sequences, frames = np.divmod(times, supervision.frames_per_sequence)
    rows: np.ndarray = frames * supervision.num_sequences + sequences
    return rows


def _arc_tables(sources: np.ndarray, nexts: np.ndarray, num_nodes: int,
                level_starts: np.ndarray) -> tuple[np.ndarray, ...]:
    return (sources, nexts, starts_by(nexts, num_nodes), _by_group(nexts, num_nodes), starts_by(sources, num_nodes),
            _by_group(sources, num_nodes), level_starts)


def _by_group(groups: np.ndarray, num_groups: int) -> np.ndarray:
    """Return the order that sorts elements stably by group, int32, in linear time."""
    from scipy.sparse import csr_matrix

    numbers = np.arange(len(groups), dtype=np.int32)
    order: np.ndarray = csr_matrix((numbers, groups, np.array([0, len(groups)])), shape=(1, num_groups)).tocsc().data
    return order


LOWEST_LOG_PROB = np.float32(-20.0 * math.log(10.0))    # scores below count as this
FAILED_OBJECTIVE = -10.0                                # per frame, of a minibatch whose computation failed
TOTALS_TOLERANCE = {"mmi": 1e-8, "mpfe": 1e-6, "smbr": 1e-6}    # relative, between forward and backward sums
ACCURACY_TOLERANCE = 1e-4                               # the same for expected accuracies
MOST_MARKED = 1 << 24      # largest ``size`` for which ``_numbered`` has a mark for each place

_PLACE = kaldi_place("ComputeObjfAndDeriv", "discriminative-training.cc", 251)


@dataclass
class DiscriminativeTotals:
    """Sums over the frames of minibatches."""

    # frames, weight: the number of frames, and the sum of their weights (that of their supervision)
    frames: float = 0.0
    weight: float = 0.0
    # numerator, objective: the weighted log-probability of the reference (MMI), and the weighted objective to maximize
    numerator: float = 0.0
    objective: float = 0.0
    l2_term: float = 0.0  # the l2 term of the output, 0 or less
    # num_count, den_count: sums of the derivative's positive elements and of the negative ones, without weights
    num_count: float = 0.0
    den_count: float = 0.0
    # gradients, outputs: float64 (pdfs,), sums of the derivative and of exp(output); (0,) if not requested
    gradients: np.ndarray = field(default_factory=lambda: np.zeros(0))
    outputs: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, other: DiscriminativeTotals) -> None:
        """Add the sums of another minibatch."""
        for part in fields(self):
            mine, more = getattr(self, part.name), getattr(other, part.name)
            is_first = isinstance(mine, np.ndarray) and not len(mine)
            setattr(self, part.name, more if is_first else mine + more)

    def average(self) -> float:
        """Return the objective per frame, without the l2 term; NaN if there was no weight."""
        return self.objective / self.weight if self.weight else math.nan


class _Entries(NamedTuple):
    """The elements of an output that a minibatch needs, those of the lattice and of the reference, as a sparse matrix.

    ``rows``, ``columns``: int32 (entries,), sorted; ``row_starts``: int64 (rows + 1,); ``of_arcs``: int32 (arcs,), with
    one more entry for epsilon arcs; ``reference``: integers (frames,), of frames in the supervision's order.
    """

    rows: np.ndarray
    columns: np.ndarray
    row_starts: np.ndarray
    of_arcs: np.ndarray
    reference: np.ndarray


def _numbered(size: int, *places: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the distinct places, sorted (all are below ``size``), and the position of each given place among them."""
    if size > MOST_MARKED:
        distinct, which = np.unique(np.concatenate(places), return_inverse=True)
        return distinct, np.split(which.reshape(-1), np.cumsum([len(part) for part in places])[:-1])
    marks = np.zeros(size, bool)       # faster than sorting
    for part in places:
        marks[part] = True
    distinct = np.flatnonzero(marks)
    numbers = np.empty(size, np.int32)
    numbers[distinct] = np.arange(len(distinct))
    return distinct, [numbers[part] for part in places]


class DiscriminativeObjective:
    """Computation of one objective for one model.

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
        """Return the objective of one minibatch, and its derivative into ``deriv``.

        Parameters
        ----------
        supervision : the supervision of all sequences of the minibatch
        output : device matrix (rows, pdfs), log-probabilities if the model has priors; row t S + s is frame t of
            sequence s of S
        deriv : device matrix (rows, pdfs) to set, or None where no derivative is wanted

        An objective that is NaN gets Kaldi's -10 for each frame, a warning, and derivatives of 0.

        Raises ShapeError if numbers of frames of supervision and output, or of lattice and alignment, differ;
        NumericError if the output is not log-probabilities although the model has priors; LatticeError as
        ``lattice_graphs``.
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
        """Return the pdf-ids of transition-ids, int32."""
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
        """Return the elements of the output that the arcs and the reference of a minibatch refer to."""
        emits, num_frames = graphs.ids != 0, len(supervision.num_ali)
        arcs = output_rows(graphs.times[emits].astype(np.int64), supervision) * num_pdfs + self.pdfs(graphs.ids[emits])
        reference = output_rows(np.arange(num_frames), supervision) * num_pdfs + self.pdfs(supervision.num_ali)
        places, (of_emitting, of_reference) = _numbered(num_frames * num_pdfs, arcs, reference)
        of_arcs = np.full(len(emits), len(places), np.int32)
        of_arcs[emits] = of_emitting
        rows, columns = (part.astype(np.int32) for part in np.divmod(places, num_pdfs))
        return _Entries(rows, columns, starts_by(rows, num_frames), of_arcs, of_reference)

    def _scores(self, output: np.ndarray, entries: _Entries) -> np.ndarray:
        """Return scaled log-likelihoods of the entries, float32 (entries + 1,); the last is 0, for epsilon arcs."""
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
        """Return the objective, and its derivative with respect to the entries, float32 (entries,)."""
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
        """Return the log of the sum over paths and the arc posteriors (MMI), or the mean accuracy and its derivatives.
        """
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
        """Return the amounts that boosting subtracts from graph costs, float32 (arcs,); 0 for right phones and silence.
        """
        phones, reference = self._phones(graphs, supervision)
        wrong = (phones != reference) & ~np.isin(phones, self._silence) & (graphs.ids != 0)
        return np.float32(self.options.boost) * wrong.astype(np.float32)

    def _accuracies(self, graphs: LatticeGraphs, supervision: DiscriminativeSupervision) -> np.ndarray:
        """Return the accuracy of each arc, float32 (arcs,): 1 if its phone or pdf is that of the reference, else 0."""
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
        """Return the phone of each arc and that of the reference in its frame; arbitrary for epsilon arcs."""
        phone_of = self._model.transition_id_to_phone
        return phone_of[graphs.ids], phone_of[supervision.num_ali[graphs.times]]

    def _check_passes(self, sums: np.ndarray) -> None:
        """Warn, or raise NumericError, if the forward and the backward pass have different sums, as Kaldi does."""
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
