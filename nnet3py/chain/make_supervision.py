"""From the phones that an utterance may have to its supervision. Kaldi: ``ProtoSupervisionToSupervision``."""
from __future__ import annotations

import numpy as np

from nnet3py.chain.acceptor import SupervisionError
from nnet3py.chain.proto_supervision import ProtoSupervision
from nnet3py.egs.supervision import Supervision
from nnet3py.graphs.context import expand_context
from nnet3py.graphs.hmms import add_self_loops, expand_hmms
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import breadth_first, connected, without_epsilons


class SupervisionMaker:
    """Makes the supervisions of utterances.

    Parameters
    ----------
    tree, model : of the chain system; transition probabilities are not used
    convert_to_pdfs : labels are pdf-ids plus 1; otherwise transition-ids
    """

    def __init__(self, tree: ContextDependency, model: TransitionModel, convert_to_pdfs: bool = True) -> None:
        self._tree, self._model = tree, model
        self._phone_of = model.transition_id_to_phone
        self._label_of = (model.transition_id_to_pdf + 1 if convert_to_pdfs
                          else np.arange(model.num_transition_ids + 1, dtype=np.int32))
        self._label_dim = model.num_pdfs if convert_to_pdfs else model.num_transition_ids

    def make(self, proto: ProtoSupervision) -> Supervision:
        """The supervision: an FST in which each state belongs to one output frame, numbered breadth first.

        SupervisionError if there are too few frames for the phones. Nnet3Error if tree, model and phones do not belong
        together.
        """
        graph = self.transition_ids(proto.fst)
        fst = breadth_first(connected(_in_time(graph, self._allowed(graph, proto), proto.num_frames)))
        if fst.start < 0 or not fst.num_arcs:
            raise SupervisionError("Supervision FST is empty (too many phones for too few frames?)")
        labels = self._label_of[fst.input_labels]
        fst = Fst(fst.start, fst.final_weights, fst.arc_starts, labels, labels, fst.weights, fst.next_states)
        return Supervision(frames_per_sequence=proto.num_frames, label_dim=self._label_dim, fst=fst)

    def transition_ids(self, phones: Fst) -> Fst:
        """The graph of phones expanded to transition-ids, which have no costs."""
        windows_graph, windows = expand_context(phones, self._tree.context_width, self._tree.central_position)
        graph = expand_hmms(windows_graph, windows, self._tree, self._model, 0.0)
        graph = add_self_loops(graph, self._model, 0.0)
        return without_epsilons(graph) if (graph.input_labels == 0).any() else graph

    def _allowed(self, graph: Fst, proto: ProtoSupervision) -> np.ndarray:
        """bool (output frames, arcs): whether an arc of the graph may be taken in a frame."""
        phones = self._phone_of[graph.input_labels]
        return proto.allowed[:, np.searchsorted(proto.phones, phones)]


def _in_time(graph: Fst, allowed: np.ndarray, num_frames: int) -> Fst:
    """The graph unrolled in time: one state for each of its states in each frame in which it can be reached."""
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
