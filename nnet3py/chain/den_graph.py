"""The denominator graph as arrays, for the forward-backward computation. Kaldi: ``chain::DenominatorGraph``.

Arcs that lead to the same state with the same pdf form an *entry*. A graph made from a phone language model has many
arcs, but only about two entries for each state (its phone begins, or continues). What the arcs of an entry share is
computed once.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error, NumericError, ShapeError, within
from nnet3py.io.object_files import read_object
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst
from nnet3py.transducers.state_graphs import starts_by

NUM_STEPS = 100        # the initial probabilities are the average over that many frames
LARGEST_SUM = 100.0    # of the probabilities that leave a state; Kaldi's bound

_HINT = "expected a den.fst, as chain-make-den-fst writes it"


class ArcTable(NamedTuple):
    """Arcs sorted by group: those of group g are ``starts[g]`` to ``starts[g + 1]``."""

    starts: np.ndarray  # int64 (groups + 1,)
    others: np.ndarray  # int32 (arcs,), the state or entry at the arc's other end
    probs: np.ndarray   # float32 (arcs,)


def initial_probs(den_fst: Fst) -> np.ndarray:
    """Compute the probability of starting in each state: an average over 100 frames.

    Parameters
    ----------
    den_fst : the denominator graph

    Returns
    -------
    float32 (states,), with sum 1

    Raises
    ------
    Nnet3Error : a graph that cannot be a denominator graph: no states or arcs, epsilons, a transducer, states that
        cannot be reached, weights that are not costs

    Kaldi: ``DenominatorGraph::SetInitialProbs``.
    """
    _check(den_fst)
    sources, nexts = den_fst.sources, den_fst.next_states
    probs = np.exp(-den_fst.weights.astype(np.float64))
    totals = np.exp(-den_fst.final_weights.astype(np.float64)) + np.bincount(sources, probs, den_fst.num_states)
    wrong = np.flatnonzero(~((totals > 0.0) & (totals < LARGEST_SUM)))
    if len(wrong):
        raise NumericError(f"the probabilities that leave state {wrong[0]} of the denominator FST have the sum "
                           f"{totals[wrong[0]]:g}, expected one between 0 and {LARGEST_SUM:g}", _HINT)
    probs /= totals[sources]
    current: np.ndarray = np.zeros(den_fst.num_states)
    current[den_fst.start] = 1.0
    average = np.zeros(den_fst.num_states)
    for _ in range(NUM_STEPS):
        average += current / NUM_STEPS
        current = np.bincount(nexts, current[sources] * probs, den_fst.num_states)
        total = current.sum()
        if not total > 0.0:
            raise Nnet3Error("every path of the denominator FST ends soon after its start, expected one with cycles",
                             _HINT)
        current = current / total
    result = average.astype(np.float32)
    missing = np.flatnonzero(~(result > 0.0))
    if len(missing):
        raise Nnet3Error(f"{len(missing)} of {den_fst.num_states} states of the denominator FST cannot be reached from "
                         f"its start state {den_fst.start}, such as {missing[0]}", _HINT)
    return result


def _check(fst: Fst) -> None:
    if fst.num_states == 0 or fst.num_arcs == 0 or fst.start < 0:
        raise Nnet3Error(f"the denominator FST has {fst.num_states} states and {fst.num_arcs} arcs, expected some of "
                         "both and a start state", _HINT)
    if fst.weights.ndim != 1:
        raise Nnet3Error("the denominator FST is a lattice", _HINT)
    if not fst.is_acceptor:
        raise Nnet3Error("the denominator FST is a transducer, expected an acceptor of pdfs plus 1", _HINT)
    if not (fst.input_labels > 0).all():
        arc = int(np.argmin(fst.input_labels > 0))
        raise Nnet3Error(f"an arc from state {fst.sources[arc]} of the denominator FST has the label "
                         f"{fst.input_labels[arc]}, expected pdfs plus 1, and no epsilons (0)", _HINT)
    if not np.isfinite(fst.weights).all():
        raise NumericError("the denominator FST has an arc whose cost is not finite", _HINT)


@dataclass(frozen=True)
class DenominatorGraph:
    """A denominator graph of ``num_pdfs`` pdfs, made from an FST.

    Arc probabilities are exp(-cost), not renormalized. Final costs are ignored: paths may end in every state.

    Parameters
    ----------
    den_fst : the graph from :func:`make_den_fst`

    Attributes
    ----------
    num_pdfs : the dimension of the network's output
    initial : float32 (states,), see :func:`initial_probs`
    num_arcs : arcs of the FST
    entry_states, entry_pdfs : int32 (entries,), the state to which each entry leads, rising, and its pdf
    state_entries : int64 (states + 1,), the entries of each state: ``state_entries[i]`` to ``state_entries[i + 1]``
    into : the arcs of each entry; their other ends are the states they leave
    out_of : the arcs that leave each state; their other ends are entries
    pdf_starts : int64 (pdfs + 1,), the place in ``pdf_entries`` where the entries of each pdf begin, and the end
    pdf_entries : int32 (entries,)

    Raises Nnet3Error as :func:`initial_probs`; ShapeError if the FST has pdfs that the network's output does not have.
    """

    initial: np.ndarray
    num_pdfs: int
    num_arcs: int
    entry_states: np.ndarray
    entry_pdfs: np.ndarray
    state_entries: np.ndarray
    into: ArcTable
    out_of: ArcTable
    pdf_starts: np.ndarray
    pdf_entries: np.ndarray

    def __init__(self, den_fst: Fst, num_pdfs: int) -> None:
        initial = initial_probs(den_fst)
        largest = int(den_fst.input_labels.max()) - 1
        if largest >= num_pdfs:
            raise ShapeError(f"the denominator FST has pdf {largest}, but the network's output has the dimension "
                             f"{num_pdfs}, so that its pdfs are 0 to {num_pdfs - 1}",
                             "was the FST made with another tree than the network?")
        num_states = den_fst.num_states
        sources = den_fst.sources
        probs = np.exp(-den_fst.weights.astype(np.float64)).astype(np.float32)
        codes = den_fst.next_states.astype(np.int64) * num_pdfs + (den_fst.input_labels - 1)
        entries, entry_of_arc = np.unique(codes, return_inverse=True)
        entry_states, entry_pdfs = (part.astype(np.int32) for part in np.divmod(entries, num_pdfs))
        by_pdf = np.argsort(entry_pdfs, kind="stable").astype(np.int32)
        arrays = {
            "initial": initial, "num_pdfs": num_pdfs, "num_arcs": den_fst.num_arcs,
            "entry_states": entry_states, "entry_pdfs": entry_pdfs,
            "state_entries": starts_by(entry_states, num_states),
            "into": _grouped(entry_of_arc, sources, probs, len(entries)),
            "out_of": _grouped(sources, entry_of_arc, probs, num_states),
            "pdf_starts": starts_by(entry_pdfs, num_pdfs), "pdf_entries": by_pdf,
        }
        for name, value in arrays.items():
            object.__setattr__(self, name, value)

    @property
    def num_states(self) -> int:
        """The number of states of the hidden Markov model."""
        return len(self.initial)

    @property
    def num_entries(self) -> int:
        """The number of entries: distinct pairs of a pdf and a state to which arcs with this pdf lead."""
        return len(self.entry_states)


def read_den_graph(rxfilename: str, num_pdfs: int) -> DenominatorGraph:
    """Read a denominator graph, den.fst.

    Parameters
    ----------
    rxfilename : the file
    num_pdfs : the dimension of the network's output

    Returns
    -------
    The graph, for :class:`nnet3py.torch.ChainLoss` and :class:`DenominatorComputation`.

    Raises
    ------
    Nnet3Error : a file that holds no denominator graph; the message names the file
    """
    fst = read_object(rxfilename, read_fst)
    with within(rxfilename):
        return DenominatorGraph(fst, num_pdfs)


def _grouped(groups: np.ndarray, others: np.ndarray, probs: np.ndarray, num_groups: int) -> ArcTable:
    """Return the table of arcs sorted by group, then by the state or entry at the other end."""
    order = np.lexsort((others, groups))
    return ArcTable(starts_by(groups, num_groups), others[order].astype(np.int32), probs[order])
