"""Supervision of whole utterances from training graphs, without times. Kaldi: ``TrainingGraphToSupervisionE2e``."""
from __future__ import annotations

import dataclasses

from nnet3py.chain.acceptor import SupervisionError
from nnet3py.egs.supervision import Supervision
from nnet3py.graphs.hmms import to_pdfs
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import breadth_first, without_epsilons


def pdf_graph(graph: Fst, model: TransitionModel) -> Fst:
    """A training graph, whose input labels are transition-ids, as an acceptor of pdf-ids plus 1 without epsilons.

    SupervisionError for a graph without a path; FormatError for labels that are not transition-ids of the model.
    """
    labels = graph.input_labels
    acceptor = dataclasses.replace(graph, output_labels=labels, stored=None)
    pdfs = to_pdfs(without_epsilons(acceptor) if (labels == 0).any() else acceptor, model)
    if pdfs.start < 0 or not pdfs.num_arcs:
        raise SupervisionError("its training graph is empty")
    return pdfs


def end_to_end_supervision(graph: Fst, model: TransitionModel, num_frames: int) -> Supervision:
    """The supervision of an utterance without times. Kaldi: TrainingGraphToSupervisionE2e.

    Parameters
    ----------
    graph : the utterance's training graph, of transition-ids
    model : whose they are
    num_frames : of the network's output

    Returns
    -------
    A supervision with one FST of pdf-ids plus 1.

    Raises
    ------
    SupervisionError : the graph has no path, or none so short
    FormatError : labels that are not transition-ids of the model
    """
    fst = pdf_graph(graph, model)
    if fst.start != 0:
        fst = breadth_first(fst)        # training takes state 0 for the start
    shortest = shortest_path(fst)
    if shortest is None:
        raise SupervisionError("its training graph is empty")
    if shortest > num_frames:
        raise SupervisionError(f"there are too many phones for too few frames; the shortest path of its training graph "
                               f"has {shortest} frames, but there are {num_frames}")
    return Supervision(frames_per_sequence=num_frames, label_dim=model.num_pdfs, e2e_fsts=[fst])


def shortest_path(fst: Fst) -> int | None:
    """How many arcs the shortest path from the start to a final state has; None if there is none."""
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
