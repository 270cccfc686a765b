"""Supervision that fixes the order of phones in a piece of an utterance, but not their times.

Kaldi: ``ConvertSupervisionToUnconstrained``, and ``TrainingGraphToSupervisionE2e`` of whole utterances.
"""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.chain.acceptor import (
    Acceptor,
    SupervisionError,
    determinized,
    minimized,
)
from nnet3py.egs.supervision import Supervision
from nnet3py.errors import Nnet3Error
from nnet3py.fst.openfst import from_openfst, load_kaldifst, to_openfst
from nnet3py.graphs.hmms import add_self_loops, to_pdfs
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers import fst_operations
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import without_epsilons


def unconstrained(supervision: Supervision, model: TransitionModel, random: np.random.Generator) -> Supervision:
    """A newly cut supervision without its times: one FST with cycles. Kaldi: ConvertSupervisionToUnconstrained.

    Parameters
    ----------
    supervision : of transition-ids, as :class:`SupervisionMaker` makes them with ``convert_to_pdfs=False``
    model : whose they are
    random : draws the path that becomes ``alignment_pdfs``

    Returns
    -------
    The supervision, of pdf-ids plus 1.

    Raises
    ------
    SupervisionError : nothing is left, or there are too many states
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
    order = minimized(determinized(Acceptor.from_fst(without_epsilons(_relabeled(
        fst, np.where(is_later_loop, 0, fst.input_labels))))))
    cyclic = add_self_loops(order.fst(), model, 0.0, check=False)
    by_pdf = determinized(Acceptor.from_fst(without_epsilons(to_pdfs(cyclic, model))))
    return dataclasses.replace(supervision, fst=None, e2e_fsts=[_minimized_cyclic(by_pdf.fst())],
                               label_dim=model.num_pdfs, alignment_pdfs=pdfs.astype(np.int32))


def _check_self_loops(fst: Fst, model: TransitionModel, is_loop: np.ndarray) -> None:
    """Nnet3Error if a self-loop follows a transition of another state: the labels are not transition-ids, then."""
    states = model.transition_id_to_state[fst.input_labels].astype(np.int64)
    width = model.num_transition_states + 1
    entered = fst.next_states.astype(np.int64) * width + states
    if not np.isin(fst.sources[is_loop].astype(np.int64) * width + states[is_loop], entered).all():
        raise Nnet3Error("the labels of a supervision are not transition-ids of the model in an order that it allows",
                         "make it with chain-get-supervision --convert-to-pdfs=false and the same model")


def _relabeled(fst: Fst, labels: np.ndarray) -> Fst:
    labels = labels.astype(np.int32)
    return dataclasses.replace(fst, input_labels=labels, output_labels=labels, stored=None)


def _random_path(fst: Fst, random: np.random.Generator) -> np.ndarray:
    """int32, the labels of a random path on which all arcs of a state are equally likely."""
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
        raise SupervisionError("nothing is left of the supervision without times")
    return result
