"""Normalization of supervisions: the costs of the denominator graph, added to the paths that a supervision allows.

Kaldi: ``GetNormalizationFst``, ``AddWeightToSupervisionFst``. A supervision is cut out of an utterance, so its first
frame can be in any state of the graph, at the cost of the state's probability (``initial_probs``).
"""
from __future__ import annotations

import dataclasses
import logging

import numpy as np

from nnet3py.chain.acceptor import (
    Acceptor,
    SupervisionError,
    breadth_first,
    composed,
    connected,
    determinized,
    minimized,
)
from nnet3py.chain.den_graph import initial_probs
from nnet3py.egs.chain_example import Supervision
from nnet3py.errors import Nnet3Error
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import without_epsilons

logger = logging.getLogger(__name__)


def normalization_fst(den_fst: Fst) -> Fst:
    """Make the graph whose paths may begin and end anywhere in the denominator graph. Kaldi: normalization.fst.

    Parameters
    ----------
    den_fst : the denominator graph

    Returns
    -------
    An acceptor, for :class:`Normalizer`, its arcs sorted by label. The start is a new state, the last one; the former
    start is kept if an arc leads to it. Of arcs from the new start with equal label and destination the cheapest is
    kept.

    Raises
    ------
    Nnet3Error : an FST that cannot be a denominator graph
    """
    probs = initial_probs(den_fst)
    num_states = den_fst.num_states
    nothing = np.zeros(num_states, dtype=np.int32)
    labels = np.concatenate((den_fst.input_labels, nothing))
    entered = Fst.from_arcs(
        num_states, np.append(np.zeros(num_states, dtype=np.float32), np.float32(np.inf)),
        np.concatenate((den_fst.sources, np.full(num_states, num_states))), labels, labels,
        np.concatenate((den_fst.weights, -np.log(probs))),
        np.concatenate((den_fst.next_states, np.arange(num_states))))
    return sorted_by_label(without_epsilons(entered))


def sorted_by_label(fst: Fst) -> Fst:
    """Return the acceptor with the arcs of each state sorted by label."""
    order = np.lexsort((fst.input_labels, fst.sources))
    labels = fst.input_labels[order]
    return dataclasses.replace(fst, input_labels=labels, output_labels=labels, weights=fst.weights[order],
                               next_states=fst.next_states[order], stored=None)


class Normalizer:
    """Normalizer of supervisions, which adds the costs of the denominator graph's paths to their FSTs.

    Parameters
    ----------
    normalization_fst : the graph, as chain-make-den-fst writes it
    scale : factor of its costs

    Raises Nnet3Error for an FST that is not a normalization FST: it has no states, epsilons, invalid costs, or is no
    acceptor.
    """

    def __init__(self, normalization_fst: Fst, scale: float = 1.0) -> None:
        fst = normalization_fst
        if not scale >= 0.0:
            raise Nnet3Error(f"Invalid scale on normalization FST; must be >= 0.0: {scale}")
        if fst.start < 0 or not fst.num_arcs:
            raise Nnet3Error("the normalization FST is empty")
        if not fst.is_acceptor or int(fst.input_labels.min()) < 1:
            raise Nnet3Error("the normalization FST has epsilons, or is not an acceptor",
                             "use the normalization.fst that chain-make-den-fst wrote")
        if not fst.is_final.all():
            logger.warning("Not all states of the normalization FST are final: is it the denominator FST?")
        self._num_pdfs = int(fst.input_labels.max())
        self._warned_of_costs = False
        finals = np.where(fst.is_final, fst.final_weights, np.float32(0.0)) * np.float32(scale)
        acceptor = Acceptor.from_fst(dataclasses.replace(
            fst, weights=fst.weights * np.float32(scale),
            final_weights=np.where(fst.is_final, finals, fst.final_weights)))
        self._start, self._finals = acceptor.start, acceptor.finals
        self._arcs: list[dict[int, list[tuple[np.float32, int]]]] = []
        for arcs in acceptor.arcs:
            by_label: dict[int, list[tuple[np.float32, int]]] = {}
            for label, cost, target in arcs:
                by_label.setdefault(label, []).append((cost, target))
            self._arcs.append(by_label)

    def __call__(self, supervision: Supervision) -> Supervision:
        """Return the supervision with the costs; the argument does not change.

        Raises SupervisionError if no path is possible, or there are too many states; Nnet3Error if the denominator has
        pdfs that the supervision cannot have. Normalizing a supervision twice adds the costs twice.
        """
        if supervision.label_dim < self._num_pdfs:
            raise Nnet3Error(f"the normalization FST has pdfs up to {self._num_pdfs - 1}, but the supervision is of "
                             f"{supervision.label_dim}", "were they made with the same tree?")
        if supervision.fst is None:
            return dataclasses.replace(supervision, e2e_fsts=[self._composed(_prepared(fst)).fst()
                                                              for fst in supervision.e2e_fsts])
        fst = supervision.fst
        if not self._warned_of_costs and fst.weights.any() and (fst.input_labels != 0).all():       # not just cut out
            logger.warning("A supervision seems to have the costs of the normalization FST already; they are counted "
                           "twice (logged only once)")
            self._warned_of_costs = True
        acceptor = minimized(determinized(_prepared(supervision.fst)))
        result = minimized(determinized(self._composed(acceptor)))
        return dataclasses.replace(supervision, fst=result.fst())

    def _composed(self, acceptor: Acceptor) -> Acceptor:
        result = composed(acceptor, self._arcs, self._finals, self._start)
        if result.start < 0:
            raise SupervisionError("FST was empty after composing with normalization FST")
        return result


def _prepared(fst: Fst) -> Acceptor:
    """Return the FST as an acceptor without epsilons, trimmed to states that lead to a final one."""
    if not fst.is_acceptor:
        raise SupervisionError("a supervision's FST must be an acceptor")
    is_epsilon = fst.input_labels == 0
    if not is_epsilon.any():
        return connected(Acceptor.from_fst(fst))
    end = int(fst.arc_starts[fst.start + 1])
    begin = int(fst.arc_starts[fst.start])
    only_first = (is_epsilon.sum() == is_epsilon[begin:end].sum() == end - begin and not fst.weights[begin:end].any()
                  and not (fst.next_states == fst.start).any())
    if not only_first or not np.isinf(fst.final_weights[fst.start]):
        return Acceptor.from_fst(without_epsilons(fst))
    acceptor = Acceptor.from_fst(fst)       # newly cut: epsilons lead from the start to where a path may begin
    targets = fst.next_states[begin:end].tolist()
    acceptor.arcs[fst.start] = [arc for target in targets for arc in acceptor.arcs[target]]
    return connected(breadth_first(acceptor))
