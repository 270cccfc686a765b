"""The denominator graph: all that a phone language model allows, as HMM states. Kaldi: ``CreateDenominatorFst``.

An acceptor of pdf-ids + 1, one arc per frame; its costs are those of the language model and of the transitions.
"""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.chain.minimize import PUSH_DELTA, merge_states
from nnet3py.errors import FormatError
from nnet3py.fst.operations import push_special, reversed_fst
from nnet3py.graphs.context import expand_context
from nnet3py.graphs.hmms import add_self_loops, expand_hmms, to_pdfs
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import connected, renumbered, without_epsilons

logger = logging.getLogger(__name__)

_NUM_PASSES = 3
_FEW_ARCS = 3
_LARGEST_COST = 80.0      # exp of minus that is still a float32
_SHOWN_PDFS = 20          # unseen pdfs that get a warning each


def make_den_fst(tree: ContextDependency, model: TransitionModel, phone_lm: Fst) -> Fst:
    """The denominator graph of a phone language model. Kaldi: chain-make-den-fst.

    Parameters
    ----------
    tree, model : of the chain system
    phone_lm : an acceptor of phones with costs; all states must be reachable and reach a final one

    Returns
    -------
    An acceptor of pdf-ids + 1 without epsilons. Its start is any state. States with many arcs come first.

    Raises
    ------
    FormatError : a language model that cannot be used, phones that the topology does not have
    Nnet3Error : a tree and a model that do not belong together
    """
    check_phone_lm(phone_lm, model)
    check_system(tree, model)
    _log_size("phone-LM FST", phone_lm)
    in_context, windows = expand_context(phone_lm, tree.context_width, tree.central_position)
    _log_size("context-dependent LM FST", in_context)
    hmms = expand_hmms(in_context, windows, tree, model)
    fst = add_self_loops(hmms, model)
    _log_size("transition-id FST", fst)
    fst = without_epsilons(to_pdfs(fst, model))
    _log_size("transition-id FST after epsilon removal", fst)
    fst = _minimized(fst)
    _warn_of_unseen_pdfs(fst, model.num_pdfs)
    return fst


def check_phone_lm(phone_lm: Fst, model: TransitionModel) -> None:
    """FormatError for a phone language model from which no denominator graph can be made."""
    if phone_lm.start < 0 or phone_lm.num_arcs == 0:
        raise FormatError(f"the phone language model has {phone_lm.num_states} states and {phone_lm.num_arcs} arcs, "
                          "expected some of both and a start")
    if not phone_lm.is_acceptor or phone_lm.weights.ndim != 1:
        raise FormatError("expected an acceptor with costs as phone language model, found a transducer or a lattice")
    costs = np.concatenate((phone_lm.weights, phone_lm.final_weights[phone_lm.is_final]))
    wrong = ~(np.abs(costs) < _LARGEST_COST)
    if wrong.any():
        raise FormatError(f"the phone language model has the cost {costs[wrong][0]:g}, expected the logs of "
                          f"probabilities, between -{_LARGEST_COST:g} and {_LARGEST_COST:g}")
    useless = phone_lm.num_states - connected(phone_lm).num_states
    if useless:
        raise FormatError(f"{useless} of {phone_lm.num_states} states of the phone language model cannot be reached "
                          "from its start or reach no final state", hint="OpenFst's fstconnect removes them")
    phones = sorted(set(phone_lm.input_labels.tolist()))
    unknown = [phone for phone in phones if phone and phone not in model.topology.entry_of_phone]
    if unknown:
        raise FormatError(f"the phone language model has the label {unknown[0]}, which is not a phone of the topology",
                          hint="are language model and transition model of one set of phones?")


def check_system(tree: ContextDependency, model: TransitionModel) -> None:
    """FormatError if tree and transition model have different numbers of pdfs."""
    if tree.num_pdfs != model.num_pdfs:
        raise FormatError(f"the tree has {tree.num_pdfs} pdfs, but the transition model {model.num_pdfs}",
                          hint="are tree and model of one system?")


def _minimized(fst: Fst) -> Fst:
    for number in range(1, _NUM_PASSES + 1):
        fst = reversed_fst(merge_states(push_special(reversed_fst(fst), PUSH_DELTA)))
        _log_size("transition-id FST after reversed minimization", fst, f" (pass {number})")
        fst = merge_states(push_special(fst, PUSH_DELTA))
        _log_size("transition-id FST after regular minimization", fst, f" (pass {number})")
    fst = without_epsilons(fst)
    _log_size("transition-id FST after regular minimization and epsilon removal", fst)
    return _busiest_first(push_special(fst, PUSH_DELTA))


def _busiest_first(fst: Fst) -> Fst:
    """The graph with its states sorted by how many arcs they have, most first."""
    leaving = np.diff(fst.arc_starts)
    entering = np.bincount(fst.next_states, minlength=fst.num_states)
    logger.info("Number of states is %d and arcs %d; number of states with in-degree <= %d is %d and with out-degree "
                "<= %d is %d", fst.num_states, fst.num_arcs, _FEW_ARCS, (entering <= _FEW_ARCS).sum(), _FEW_ARCS,
                (leaving <= _FEW_ARCS).sum())
    return renumbered(fst, np.argsort(-(leaving + entering), kind="stable"))


def _log_size(what: str, fst: Fst, pass_number: str = "") -> None:
    logger.info("Number of states and arcs in %s is %d and %d%s", what, fst.num_states, fst.num_arcs, pass_number)


def _warn_of_unseen_pdfs(fst: Fst, num_pdfs: int) -> None:
    seen = np.zeros(num_pdfs + 1, dtype=bool)
    seen[fst.input_labels] = True
    unseen = np.flatnonzero(~seen[1:])
    for pdf in unseen[:_SHOWN_PDFS].tolist():
        logger.warning("Pdf-id %d is not seen in denominator graph.", pdf)
    if len(unseen) > _SHOWN_PDFS:
        logger.warning("%d more pdf-ids are not seen in denominator graph.", len(unseen) - _SHOWN_PDFS)
