"""Making discriminative examples: an utterance's lattice and alignment, cut into pieces.

Kaldi: ``DiscriminativeSupervisionSplitter``, nnet3-discriminative-get-egs. The lattice before and after a piece is
replaced by graph costs: the sums over the paths to each state of the first frame, and from each state after the last
frame. Graph costs are kept when training replaces the acoustic costs.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nnet3py.discriminative.options import SplittingOptions
from nnet3py.egs.discriminative_example import (
    DiscriminativeSupervision,
    NnetDiscriminativeExample,
    NnetDiscriminativeSupervision,
)
from nnet3py.egs.make import ExampleMaker, UtteranceSplitter, time_indexes
from nnet3py.errors import Nnet3Error, ShapeError, within
from nnet3py.formats.general import GeneralMatrix
from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.determinize import determinize
from nnet3py.lattices.forward_backward import forward_backward
from nnet3py.lattices.states import LatticeError, from_start, state_times, top_sorted, trimmed
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.state_graphs import ranges


class SupervisionSplitter:
    """Splitter of the lattice and the alignment of an utterance into pieces.

    Parameters
    ----------
    options : see :class:`SplittingOptions`
    model : the transition model of the transition-ids
    alignment : int32 (frames,), the reference's transition-ids
    lattice : lattice of the same frames; the labels of its arcs are transition-ids or epsilons
    weight : weight of the pieces in the objective

    Raises ShapeError if alignment or lattice are empty, differ in length, or have transition-ids that the model does
    not have; LatticeError if the lattice has no path of finite cost, or a cycle.
    """

    def __init__(self, options: SplittingOptions, model: TransitionModel, alignment: np.ndarray, lattice: Fst,
                 weight: float = 1.0) -> None:
        options.check()
        self._options, self._model, self._alignment, self._weight = options, model, alignment, weight
        lattice = from_start(trimmed(lattice))
        if not len(alignment) or not lattice.num_states:
            raise ShapeError("the alignment has no frames" if not len(alignment) else "the lattice has no path")
        with within("the alignment"):
            check_transition_ids(model, alignment)
        with within("the lattice"):
            check_transition_ids(model, lattice.input_labels[lattice.input_labels != 0])
        times = state_times(lattice)
        if (times[lattice.is_final] != len(alignment)).any():
            raise ShapeError(f"the lattice has paths of {int(times[lattice.is_final].min())} frames, the alignment has "
                             f"{len(alignment)}", "were both made with the same model and features?")
        self._lattice = _in_order_of_time(_with_acoustic_scale(lattice, options.acoustic_scale), times)
        self._times = state_times(self._lattice)
        sums = forward_backward(self._lattice)
        self._alphas, self._betas, self._total = sums.alphas, sums.betas, float(sums.betas[0])

    def frame_range(self, begin: int, num_frames: int, normalize: bool) -> DiscriminativeSupervision:
        """Return the supervision of frames ``begin`` … ``begin + num_frames`` - 1.

        With ``normalize`` costs are added so that the probabilities of the piece's paths sum to 1 (before arcs are
        merged), else to the sum of the utterance. Raises ShapeError for frames that the utterance does not have.
        Kaldi: GetFrameRange.
        """
        end, options = begin + num_frames, self._options
        if not 0 <= begin < end <= len(self._alignment):
            raise ShapeError(f"frames {begin} to {end} are not within the supervision, which has "
                             f"{len(self._alignment)} frames")
        piece = without_epsilons(self._cut(begin, end, normalize))
        if options.collapse_transition_ids:
            piece = self._collapsed(piece)
        if options.determinize:
            piece = _determinized(_reversed(piece)) if options.minimize else piece
            piece = _determinized(_reversed(piece) if options.minimize else piece)
        piece = top_sorted(trimmed(piece))
        if int(state_times(piece).max(initial=0)) != num_frames:
            raise LatticeError(f"a piece of the lattice has {int(state_times(piece).max(initial=0))} frames, expected "
                               f"{num_frames}")
        return DiscriminativeSupervision(self._alignment[begin:end].astype(np.int32),
                                         _with_acoustic_scale(piece, 1.0 / options.acoustic_scale), self._weight, 1,
                                         num_frames)

    def _cut(self, begin: int, end: int, normalize: bool) -> Fst:
        """Return the lattice of frames ``begin`` to ``end``, with a new start (state 0) and end, and without words."""
        first, second, last = np.searchsorted(self._times, [begin, begin + 1, end]).tolist()
        lattice, final = self._lattice, last - first + 1
        arcs = slice(int(lattice.arc_starts[first]), int(lattice.arc_starts[last]))
        nexts, weights = lattice.next_states[arcs].astype(np.int64), lattice.weights[arcs].astype(np.float64)
        leaves = nexts >= last
        weights[leaves, 0] -= self._betas[nexts[leaves]]
        entries = np.zeros((second - first, 2))
        entries[:, 0] = (self._total if normalize else 0.0) - self._alphas[first:second]
        labels = np.concatenate((np.zeros(second - first, np.int32), lattice.input_labels[arcs]))
        finals = np.full((final + 1, 2), NO_WEIGHT, np.float32)
        finals[final] = 0.0
        return Fst.from_arcs(0, finals, np.concatenate((np.zeros(second - first, np.int64),
                                                        lattice.sources[arcs] - first + 1)),
                             labels, labels, np.concatenate((entries, weights)).astype(np.float32),
                             np.concatenate((np.arange(second - first) + 1,
                                             np.where(leaves, final, nexts - first + 1))), lattice.arc_type)

    def _collapsed(self, piece: Fst) -> Fst:
        """Give all arcs of one frame with the same pdf the transition-id of the first of them."""
        piece = top_sorted(piece)
        frames = state_times(piece)[piece.sources].astype(np.int64)
        keys = frames * self._model.num_pdfs + self._model.transition_id_to_pdf[piece.input_labels]
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        labels = piece.input_labels[first[which.reshape(-1)]]
        return _with_labels(piece, labels, labels)


def without_epsilons(lattice: Fst) -> Fst:
    """Return a topologically sorted lattice without epsilon arcs; of arcs with equal ends and label the best is kept.

    Unreachable states are removed, the others keep their order. Kaldi: RemoveEpsilons.
    """
    epsilon = lattice.input_labels == 0
    sources, nexts, weights = lattice.sources.astype(np.int64), lattice.next_states, lattice.weights.astype(np.float64)
    arcs = [(sources[~epsilon], nexts[~epsilon], lattice.input_labels[~epsilon], weights[~epsilon])]
    finals = [(np.flatnonzero(lattice.is_final), lattice.final_weights[lattice.is_final].astype(np.float64))]
    into, out_of, ways = sources[epsilon], nexts[epsilon], weights[epsilon]
    while len(into):            # ways by one epsilon arc, by two, …
        into, out_of, _, ways = _best(into, out_of, np.zeros_like(into), ways)
        counts = np.diff(lattice.arc_starts)[out_of]
        further = ranges(lattice.arc_starts[out_of], counts)
        way = np.repeat(np.arange(len(into)), counts)
        is_way = lattice.input_labels[further] == 0
        label, other = further[~is_way], way[~is_way]
        arcs.append((into[other], nexts[label], lattice.input_labels[label], ways[other] + weights[label]))
        ends = lattice.is_final[out_of]
        finals.append((into[ends], ways[ends] + lattice.final_weights[out_of[ends]]))
        into, out_of, ways = into[way[is_way]], nexts[further[is_way]], ways[way[is_way]] + weights[further[is_way]]
    sources, nexts, labels, weights = _best(*(np.concatenate(parts) for parts in zip(*arcs, strict=True)))
    states, costs = (np.concatenate(parts) for parts in zip(*finals, strict=True))
    states, _, _, costs = _best(states, np.zeros_like(states), np.zeros_like(states), costs)
    final_weights = np.full((lattice.num_states, 2), NO_WEIGHT, np.float32)
    final_weights[states] = costs
    return trimmed(Fst.from_arcs(lattice.start, final_weights, sources, labels, labels, weights.astype(np.float32),
                                 nexts, lattice.arc_type))


def _best(sources: np.ndarray, nexts: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[
        np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return of the arcs with equal ends and label the one of least cost, then of least graph cost."""
    order = np.lexsort((weights[:, 0], weights.sum(axis=1), labels, nexts, sources))
    sources, nexts, labels, weights = sources[order], nexts[order], labels[order], weights[order]
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(sources) != 0) | (np.diff(nexts) != 0) | (np.diff(labels) != 0)
    return sources[first], nexts[first], labels[first], weights[first]


def _determinized(lattice: Fst) -> Fst:
    """Determinize a lattice: of the paths with one sequence of labels the best is kept."""
    compact = determinize(_with_labels(lattice, np.zeros_like(lattice.input_labels), lattice.input_labels))
    return trimmed(Fst(compact.start, compact.final_weights, compact.arc_starts, compact.labels, compact.labels,
                       compact.weights, compact.next_states, lattice.arc_type))


def _reversed(lattice: Fst) -> Fst:
    """Return the reversed lattice, with epsilon arcs from a new start to the former final states."""
    ends, num_states = np.flatnonzero(lattice.is_final), lattice.num_states
    finals = np.full((num_states + 1, 2), NO_WEIGHT, np.float32)
    finals[lattice.start] = 0.0
    labels = np.concatenate((lattice.input_labels, np.zeros(len(ends), np.int32)))
    return Fst.from_arcs(num_states, finals, np.concatenate((lattice.next_states, np.full(len(ends), num_states))),
                         labels, labels, np.concatenate((lattice.weights, lattice.final_weights[ends])),
                         np.concatenate((lattice.sources, ends)), lattice.arc_type)


def _with_labels(lattice: Fst, inputs: np.ndarray, outputs: np.ndarray) -> Fst:
    return replace(lattice, input_labels=inputs.astype(np.int32), output_labels=outputs.astype(np.int32), stored=None)


def _with_acoustic_scale(lattice: Fst, scale: float) -> Fst:
    """Return the lattice with acoustic costs times ``scale``; states that are not final remain so."""
    factors = np.array([1.0, scale])
    finals = np.where(lattice.is_final[:, None], lattice.final_weights * factors, NO_WEIGHT)
    return replace(lattice, final_weights=finals.astype(np.float32), stored=None,
                   weights=(lattice.weights * factors).astype(np.float32))


def _in_order_of_time(lattice: Fst, times: np.ndarray) -> Fst:
    """Return the lattice with its states sorted by time, stably. Raises LatticeError for costs that are not finite."""
    if not math.isfinite(float(lattice.weights.sum())):
        raise LatticeError("the lattice has a cost that is not a finite number")
    return lattice.selected(np.argsort(times, kind="stable"))


_LEAST_FRAMES = 2           # output frames of an example that can be stored


class DiscriminativeExampleMaker:
    """Maker of examples from utterances, their lattices and their alignments.

    Parameters
    ----------
    splitter : chooses the chunks of an utterance
    options : options of cutting lattices
    model : the transition model of the transition-ids
    compress : whether inputs are compressed
    online_ivector_period : frames per row of the iVector matrices

    Raises Nnet3Error for examples of fewer than two output frames.
    """

    def __init__(self, splitter: UtteranceSplitter, options: SplittingOptions, model: TransitionModel,
                 compress: bool = True, online_ivector_period: int = 1) -> None:
        factor, lengths = splitter.options.frame_subsampling_factor, splitter.options.num_frames
        if lengths != (-1,) and min(lengths) // factor < _LEAST_FRAMES:
            raise Nnet3Error(f"--num-frames={','.join(map(str, lengths))} asks for examples of one output frame",
                             f"discriminative examples need two or more: at least {_LEAST_FRAMES * factor}")
        self.cutter = ExampleMaker(splitter, compress, online_ivector_period=online_ivector_period)
        self._splitter, self._options, self._model, self._compress = splitter, options, model, compress

    def examples(self, utterance: str, features: GeneralMatrix, lattice: Fst, alignment: np.ndarray,
                 ivectors: np.ndarray | None = None) -> Iterator[tuple[str, NnetDiscriminativeExample]]:
        """Yield (key, example) for each piece of an utterance; nothing, with a warning, if it is too short.

        Parameters
        ----------
        features : (frames, dim), in any form
        lattice : the competing paths
        alignment : int32 (frames,), the reference's transition-ids; both at the frame rate of the output
        ivectors : float32 (rows, dim)

        Raises ShapeError, LatticeError as ``SupervisionSplitter``; NumericError for features or iVectors with NaN or
        infinity.
        """
        self.cutter.check_finite(features, ivectors)
        supervisions = SupervisionSplitter(self._options, self._model, alignment, lattice)
        factor = self._splitter.options.frame_subsampling_factor
        num_frames = min(features.shape[0], factor * len(alignment))
        for place, chunk in enumerate(self.cutter.chunks(utterance, num_frames)):
            first, count = self.cutter.output_span(chunk)
            # As in Kaldi the first piece keeps the sum over the whole utterance's paths.
            supervision = supervisions.frame_range(first, count, normalize=place > 0)
            output = NnetDiscriminativeSupervision("output", time_indexes(0, count, factor), supervision,
                                                   chunk.output_weights.astype(np.float32))
            example = NnetDiscriminativeExample(list(self.cutter.inputs(features, chunk, ivectors)), [output])
            if self._compress:
                example.compress()
            yield f"{utterance}-{chunk.first_frame}", example
