"""Supervision of utterances and of pieces of them, from phones, phone lattices or training graphs.

``ProtoSupervision`` has the phones that are allowed in each output frame; ``SupervisionMaker`` makes a supervision's
FST from it, ``SupervisionSplitter`` cuts that into pieces, and ``unconstrained`` removes the times from a piece.
``end_to_end_supervision`` makes the supervision of a whole utterance without times from its training graph.
Kaldi: chain-supervision.h and chain-supervision-splitter.h, by the names that each function gives.
"""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from nnet3py.chain.acceptor import (
    Acceptor,
    SupervisionError,
    determinized,
    minimized,
    pushed_to_start,
    reverse_topological_order,
)
from nnet3py.chain.options import SupervisionOptions
from nnet3py.egs.chain_example import Supervision
from nnet3py.errors import Nnet3Error
from nnet3py.fst.openfst import from_openfst, load_kaldifst, to_openfst
from nnet3py.graphs.context import expand_context
from nnet3py.graphs.hmms import add_self_loops, expand_hmms, to_pdfs
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.transducers import fst_operations
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import breadth_first, connected, without_epsilons

_UNREACHED = -1             # the time of a state that no path reaches
_MOST_FRAMES = 1_000_000    # of an utterance: almost three hours


@dataclass(frozen=True)
class ProtoSupervision:
    """The phones that are allowed in each frame of an utterance, and their possible sequences.

    Attributes
    ----------
    phones : the distinct phones, int (distinct phones,), ascending
    allowed : whether a phone may occur in a frame, bool (output frames, distinct phones)
    fst : an acceptor of the possible sequences of phones
    """

    phones: np.ndarray
    allowed: np.ndarray
    fst: Fst

    @property
    def num_frames(self) -> int:
        """The number of frames of the output."""
        return len(self.allowed)

    def allowed_phones(self) -> list[list[int]]:
        """Return the phones that are allowed in each output frame, ascending."""
        return [self.phones[frame].tolist() for frame in self.allowed]


def proto_from_phones(phones: np.ndarray, durations: np.ndarray, options: SupervisionOptions) -> ProtoSupervision:
    """Return the phones that are allowed in each frame of an utterance, from its alignment.

    Parameters
    ----------
    phones : int (phones,), from 1 on
    durations : int (phones,), the number of frames of each phone
    options : tolerances by which phones may be shifted, subsampling factor

    Returns
    -------
    The argument of :meth:`SupervisionMaker.make`.

    Raises
    ------
    SupervisionError : phones and durations that are no alignment
    """
    if not len(phones):
        raise SupervisionError("the utterance has no phones")
    if int(phones.min()) < 1 or int(durations.min()) < 1:
        raise SupervisionError(f"phones and their durations must be at least 1; the least phone is {phones.min()}, "
                               f"the least duration {durations.min()}")
    ends = np.cumsum(durations, dtype=np.int64)
    distinct_phones, allowed = _allowed(phones, ends - durations, ends, int(ends[-1]), options)
    places = np.arange(len(phones) + 1)
    finals = np.where(places == len(phones), np.float32(0.0), NO_WEIGHT)
    fst = Fst.from_arcs(0, finals, places[:-1], phones, phones, np.zeros(len(phones)), places[1:])
    return ProtoSupervision(distinct_phones, allowed, fst)


def proto_from_lattice(lattice: CompactLattice, options: SupervisionOptions) -> ProtoSupervision:
    """Return the phones that are allowed in each frame of an utterance, from a lattice whose labels are phones.

    Parameters
    ----------
    lattice : phone-aligned: ``lattice-align-phones --replace-output-symbols``, or :func:`nnet3py.lattices.align_phones`
    options : tolerances by which phones may be shifted, subsampling factor

    Returns
    -------
    The argument of :meth:`SupervisionMaker.make`.

    Raises
    ------
    SupervisionError : a lattice that is empty, has a cycle or arcs without a phone, or whose paths differ in their
        number of frames: it is not phone-aligned
    """
    scale = np.float32(options.lm_scale)
    is_final = np.isfinite(lattice.final_weights[:, 0])
    finals = np.full(len(is_final), NO_WEIGHT)
    finals[is_final] = scale * lattice.final_weights[is_final, 0]
    costs = scale * lattice.weights[:, 0] if scale else np.zeros(len(lattice.sources))
    fst = Fst.from_arcs(lattice.start, finals, lattice.sources, lattice.labels, lattice.labels, costs,
                        lattice.next_states)
    times = _state_times(fst, lattice.lengths)
    begin, end = times[lattice.sources], times[lattice.next_states]
    used = begin > _UNREACHED
    if (lattice.labels[used] <= 0).any():
        raise SupervisionError("the lattice has an arc without a phone",
                               "make it with lattice-align-phones --replace-output-symbols=true")
    ends = times[is_final & (times > _UNREACHED)]
    num_frames = int(times.max())
    if not len(ends) or (ends != num_frames).any() or lattice.final_lengths[is_final].any():
        raise SupervisionError("the lattice is not phone-aligned: a final state is not at its last frame",
                               "use lattice-align-phones")
    distinct_phones, allowed = _allowed(lattice.labels[used], begin[used], end[used], num_frames, options)
    missing = np.flatnonzero(~allowed.any(axis=1))
    if len(missing):
        raise SupervisionError(f"no phone is allowed in output frame {missing[0]}")
    fst = connected(fst)
    if options.lm_scale != 0.0:
        fst = pushed_to_start(Acceptor.from_fst(fst)).fst()
    return ProtoSupervision(distinct_phones, allowed, fst)


def _state_times(fst: Fst, lengths: np.ndarray) -> np.ndarray:
    """Return the frame of each state, int64 (states,), if arcs last ``lengths`` frames; -1 for unreachable states."""
    if fst.start < 0 or not fst.num_arcs:
        raise SupervisionError("the lattice is empty")
    starts, targets, frames = fst.arc_starts.tolist(), fst.next_states.tolist(), lengths.tolist()
    times = [_UNREACHED] * fst.num_states
    times[fst.start] = 0
    for state in reversed(reverse_topological_order(Acceptor.from_fst(fst))):
        for arc in range(starts[state], starts[state + 1]):
            time = times[state] + frames[arc]
            if times[targets[arc]] not in (_UNREACHED, time):
                raise SupervisionError(f"paths of {times[targets[arc]]} and of {time} frames lead to one state of the "
                                       "lattice")
            times[targets[arc]] = time
    return np.array(times)


def _allowed(phones: np.ndarray, begin: np.ndarray, end: np.ndarray, num_frames: int,
             options: SupervisionOptions) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct phones, and the frames where each is allowed, bool (output frames, phones).

    ``begin`` and ``end`` are the frames of each occurrence, which is widened by the tolerances.
    """
    if num_frames > _MOST_FRAMES:
        raise SupervisionError(f"the utterance has {num_frames} frames; more than {_MOST_FRAMES} are not possible")
    factor = options.frame_subsampling_factor
    distinct_phones, columns = np.unique(phones, return_inverse=True)
    first = -(-np.maximum(begin - options.left_tolerance, 0) // factor)
    last = -(-np.minimum(end + options.right_tolerance, num_frames) // factor)
    changes = np.zeros((-(-num_frames // factor) + 1, len(distinct_phones)), dtype=np.int32)
    some = first < last
    np.add.at(changes, (first[some], columns[some]), 1)
    np.add.at(changes, (last[some], columns[some]), -1)
    return distinct_phones, np.cumsum(changes, axis=0)[:-1] > 0


class SupervisionMaker:
    """Maker of the supervisions of utterances.

    Parameters
    ----------
    tree, model : the tree and the transition model of the chain system; transition probabilities are not used
    convert_to_pdfs : whether labels are pdf-ids plus 1; else they are transition-ids
    """

    def __init__(self, tree: ContextDependency, model: TransitionModel, convert_to_pdfs: bool = True) -> None:
        self._tree, self._model = tree, model
        self._phone_of = model.transition_id_to_phone
        self._label_of = (model.transition_id_to_pdf + 1 if convert_to_pdfs
                          else np.arange(model.num_transition_ids + 1, dtype=np.int32))
        self._label_dim = model.num_pdfs if convert_to_pdfs else model.num_transition_ids

    def make(self, proto: ProtoSupervision) -> Supervision:
        """Make a supervision; each state of its FST belongs to one output frame, and states are numbered breadth first.

        Raises SupervisionError if there are too few frames for the phones, Nnet3Error if tree and model differ or the
        model does not have the phones.
        """
        graph = self.transition_ids(proto.fst)
        fst = breadth_first(connected(_unrolled(graph, self._allowed(graph, proto), proto.num_frames)))
        if fst.start < 0 or not fst.num_arcs:
            raise SupervisionError("Supervision FST is empty (too many phones for too few frames?)")
        labels = self._label_of[fst.input_labels]
        fst = Fst(fst.start, fst.final_weights, fst.arc_starts, labels, labels, fst.weights, fst.next_states)
        return Supervision(frames_per_sequence=proto.num_frames, label_dim=self._label_dim, fst=fst)

    def transition_ids(self, phones: Fst) -> Fst:
        """Expand an acceptor of phones to a graph of transition-ids, without costs."""
        windows_graph, windows = expand_context(phones, self._tree.context_width, self._tree.central_position)
        graph = expand_hmms(windows_graph, windows, self._tree, self._model, 0.0)
        graph = add_self_loops(graph, self._model, 0.0)
        return without_epsilons(graph) if (graph.input_labels == 0).any() else graph

    def _allowed(self, graph: Fst, proto: ProtoSupervision) -> np.ndarray:
        """Return in which output frames each arc of the graph is allowed, bool (output frames, arcs)."""
        phones = self._phone_of[graph.input_labels]
        return proto.allowed[:, np.searchsorted(proto.phones, phones)]


def _unrolled(graph: Fst, allowed: np.ndarray, num_frames: int) -> Fst:
    """Unroll a graph in time: each state becomes one state for each frame in which it can be reached."""
    starts, targets = graph.arc_starts.tolist(), graph.next_states.tolist()
    arcs_of = [range(first, end) for first, end in zip(starts, starts[1:], strict=False)]
    frame_states = [graph.start]
    sources: list[int] = []
    taken: list[int] = []
    next_states: list[int] = []
    first = 0                                     # number of the frame's first state
    for may in allowed.tolist():
        numbers: dict[int, int] = {}
        following = first + len(frame_states)
        for source, state in enumerate(frame_states, first):
            for arc in arcs_of[state]:
                if may[arc]:
                    sources.append(source)
                    taken.append(arc)
                    next_states.append(following + numbers.setdefault(targets[arc], len(numbers)))
        frame_states, first = list(numbers), following
        if not frame_states:
            break
    finals = np.full(first + len(frame_states), NO_WEIGHT)
    finals[first:] = graph.final_weights[frame_states]
    arcs = np.array(taken, dtype=np.int64)
    labels = graph.input_labels[arcs]
    return Fst.from_arcs(0, finals, sources, labels, labels, graph.weights[arcs], next_states)


def fst_state_times(fst: Fst) -> np.ndarray:
    """Return the frame of each state of an FST with times, int64 (states,), ascending.

    Raises SupervisionError for an FST in which a state belongs to no frame or to several, or paths differ in length.
    """
    if fst.start != 0 or (fst.input_labels == 0).any() or not fst.is_acceptor:
        raise SupervisionError("a supervision's FST must start in state 0 and be an acceptor without epsilons")
    times = [-1] * fst.num_states
    times[0] = 0
    for source, target in zip(fst.sources.tolist(), fst.next_states.tolist(), strict=True):
        time = times[source] + 1
        if not time or target <= source or times[target] not in (-1, time):
            raise SupervisionError("a state of a supervision's FST belongs to no frame, or to several")
        times[target] = time
    result = np.array(times)
    finals = result[fst.is_final]
    if (np.diff(result) < 0).any() or not len(finals) or (finals != result[-1]).any():
        raise SupervisionError("the paths of a supervision's FST differ in length, or its states are not in order")
    return result


class SupervisionSplitter:
    """Splitter of a supervision into pieces. Kaldi: SupervisionSplitter.

    Parameters
    ----------
    supervision : the supervision of one utterance, with times

    Raises SupervisionError for a supervision of several sequences, without times (end-to-end), or whose FST does not
    match its frames.
    """

    def __init__(self, supervision: Supervision) -> None:
        if supervision.fst is None or supervision.num_sequences != 1:
            raise SupervisionError("only the supervision of one utterance, with times, can be cut")
        self._supervision, self._fst = supervision, supervision.fst
        self._times = fst_state_times(self._fst)
        if self._times[-1] != supervision.frames_per_sequence:
            raise SupervisionError(f"the paths of a supervision's FST have {self._times[-1]} frames, expected "
                                   f"{supervision.frames_per_sequence}")

    def frame_range(self, begin: int, num_frames: int) -> Supervision:
        """Return the supervision of ``num_frames`` frames from ``begin`` on; paths may begin and end in any state.

        The FST has epsilon arcs from the start: the supervision must be normalized, or made unconstrained, before use.
        Kaldi: GetFrameRange.
        """
        end = begin + num_frames
        if not 0 <= begin < end <= self._supervision.frames_per_sequence:
            raise SupervisionError(f"frames {begin} to {end} are not within the supervision, which has "
                                   f"{self._supervision.frames_per_sequence} frames")
        fst = self._fst
        first, second, last = np.searchsorted(self._times, [begin, begin + 1, end]).tolist()
        arcs = slice(int(fst.arc_starts[first]), int(fst.arc_starts[last]))
        num_starts, last_state = second - first, last - first + 1
        labels = np.concatenate((np.zeros(num_starts, dtype=np.int32), fst.input_labels[arcs]))
        starts = np.concatenate(([0], fst.arc_starts[first:last + 1] - fst.arc_starts[first] + num_starts,
                                 [len(labels)]))
        finals = np.full(last_state + 1, NO_WEIGHT)
        finals[-1] = 0.0
        cut = Fst(0, finals, starts, labels, labels,
                  np.concatenate((np.zeros(num_starts, dtype=np.float32), fst.weights[arcs])),
                  np.concatenate((np.arange(1, num_starts + 1),
                                  np.minimum(fst.next_states[arcs] - first + 1, last_state))).astype(np.int32))
        return Supervision(self._supervision.weight, 1, num_frames, self._supervision.label_dim, cut)


def pdf_graph(graph: Fst, model: TransitionModel) -> Fst:
    """Return a training graph of transition-ids as an acceptor of pdf-ids plus 1 without epsilons.

    Raises SupervisionError for a graph without a path, FormatError for labels that are not transition-ids of the model.
    """
    labels = graph.input_labels
    acceptor = dataclasses.replace(graph, output_labels=labels, stored=None)
    pdfs = to_pdfs(without_epsilons(acceptor) if (labels == 0).any() else acceptor, model)
    if pdfs.start < 0 or not pdfs.num_arcs:
        raise SupervisionError("the training graph is empty")
    return pdfs


def end_to_end_supervision(graph: Fst, model: TransitionModel, num_frames: int) -> Supervision:
    """Make the supervision of an utterance without times. Kaldi: TrainingGraphToSupervisionE2e.

    Parameters
    ----------
    graph : the utterance's training graph, of transition-ids
    model : the transition model
    num_frames : the number of frames of the network's output

    Returns
    -------
    A supervision with one FST of pdf-ids plus 1.

    Raises
    ------
    SupervisionError : the graph has no path, or only paths longer than ``num_frames``
    FormatError : labels that are not transition-ids of the model
    """
    fst = pdf_graph(graph, model)
    if fst.start != 0:
        fst = breadth_first(fst)        # training takes state 0 for the start
    shortest = shortest_path(fst)
    if shortest is None:
        raise SupervisionError("the training graph has no path from its start to a final state")
    if shortest > num_frames:
        raise SupervisionError(f"there are too many phones for too few frames; the shortest path of the training graph "
                               f"has {shortest} frames, but there are {num_frames}")
    return Supervision(frames_per_sequence=num_frames, label_dim=model.num_pdfs, e2e_fsts=[fst])


def shortest_path(fst: Fst) -> int | None:
    """Return the number of arcs of the shortest path from the start to a final state; None if there is no path."""
    starts, targets, is_final = fst.arc_starts.tolist(), fst.next_states.tolist(), fst.is_final.tolist()
    reached = {fst.start}
    states, length = ([fst.start] if fst.start >= 0 else []), 0
    while states:
        if any(is_final[state] for state in states):
            return length
        following = {target for state in states for target in targets[starts[state]:starts[state + 1]]} - reached
        reached |= following
        states, length = list(following), length + 1
    return None


def unconstrained(supervision: Supervision, model: TransitionModel, random: np.random.Generator) -> Supervision:
    """Remove the times from a piece of a supervision: its FST gets cycles. Kaldi: ConvertSupervisionToUnconstrained.

    Parameters
    ----------
    supervision : a supervision of transition-ids, as :class:`SupervisionMaker` makes it with
        ``convert_to_pdfs=False``
    model : the transition model
    random : generator for the random path that becomes ``alignment_pdfs``

    Returns
    -------
    The supervision, of pdf-ids plus 1.

    Raises
    ------
    SupervisionError : no path is left, or there are too many states
    Nnet3Error : labels that are not the model's transition-ids
    """
    fst = supervision.fst
    if fst is None or supervision.label_dim != model.num_transition_ids:
        raise Nnet3Error(f"expected a supervision of {model.num_transition_ids} transition-ids, found one of "
                         f"{supervision.label_dim} labels", "make it with chain-get-supervision "
                         "--convert-to-pdfs=false and the same model")
    fst = without_epsilons(fst)
    if fst.start < 0:
        raise SupervisionError("the supervision has no path")
    pdfs = model.transition_id_to_pdf[_random_path(fst, random)]
    is_later_loop = model.is_self_loop[fst.input_labels] & (fst.sources != fst.start)
    _check_self_loops(fst, model, is_later_loop)
    labels = np.where(is_later_loop, 0, fst.input_labels).astype(np.int32)
    order = minimized(determinized(Acceptor.from_fst(without_epsilons(dataclasses.replace(
        fst, input_labels=labels, output_labels=labels, stored=None)))))
    cyclic = add_self_loops(order.fst(), model, 0.0, check=False)
    by_pdf = determinized(Acceptor.from_fst(without_epsilons(to_pdfs(cyclic, model))))
    return dataclasses.replace(supervision, fst=None, e2e_fsts=[_minimized_cyclic(by_pdf.fst())],
                               label_dim=model.num_pdfs, alignment_pdfs=pdfs.astype(np.int32))


def _check_self_loops(fst: Fst, model: TransitionModel, is_loop: np.ndarray) -> None:
    """Raise Nnet3Error if a self-loop follows a transition of another state, so that labels cannot be transition-ids.
    """
    states = model.transition_id_to_state[fst.input_labels].astype(np.int64)
    width = model.num_transition_states + 1
    entered = fst.next_states.astype(np.int64) * width + states
    if not np.isin(fst.sources[is_loop].astype(np.int64) * width + states[is_loop], entered).all():
        raise Nnet3Error("the labels of a supervision are not transition-ids of the model in an order that it allows",
                         "make it with chain-get-supervision --convert-to-pdfs=false and the same model")


def _random_path(fst: Fst, random: np.random.Generator) -> np.ndarray:
    """Return the labels of a random path, int32, on which all arcs of a state are equally likely."""
    labels, state = [], fst.start
    while fst.arc_starts[state] < fst.arc_starts[state + 1]:
        arc = int(random.integers(fst.arc_starts[state], fst.arc_starts[state + 1]))
        labels.append(int(fst.input_labels[arc]))
        state = int(fst.next_states[arc])
    return np.array(labels, dtype=np.int32)


def _minimized_cyclic(fst: Fst) -> Fst:
    kaldifst = load_kaldifst()
    graph = to_openfst(fst)
    kaldifst.minimize(graph)
    result = fst_operations.breadth_first(fst_operations.connected(from_openfst(graph)))
    if result.start < 0:
        raise SupervisionError("the supervision of an end-to-end example has no path from its start to a final state",
                               "is the transcript empty, or a word of it without pronunciation?")
    return result
