"""The denominator graph: the HMM states of all phone sequences of a language model. Kaldi: ``CreateDenominatorFst``.

An acceptor of pdf-ids + 1 with one arc per frame; its costs are those of the language model and of the transitions. It
is made small by merging states as OpenFst 1.7 does in Kaldi (``DenGraphMinimizeWrapper``): states whose arcs are in
different orders are not merged. Since costs are rounded before, merging these too would change the objective. So the
order of arcs matters in the steps before. Probabilities of paths are summed (log semiring).
"""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.fst.operations import OPENFST_DELTA, push_special, reversed_fst
from nnet3py.graphs.context import expand_context
from nnet3py.graphs.hmms import add_self_loops, expand_hmms, to_pdfs
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import connected, without_epsilons

logger = logging.getLogger(__name__)


_NUM_PASSES = 3
_FEW_ARCS = 3              # states with so many arcs at most are counted in the log
_LARGEST_COST = 80.0      # exp of minus that is still a float32
_SHOWN_PDFS = 20          # unseen pdfs that get a warning each


def make_den_fst(tree: ContextDependency, model: TransitionModel, phone_lm: Fst) -> Fst:
    """Make the denominator graph of a phone language model. Kaldi: chain-make-den-fst.

    Parameters
    ----------
    tree, model : the tree and the transition model of the chain system
    phone_lm : an acceptor of phones with costs; all states must lie on a path from the start to a final state

    Returns
    -------
    An acceptor of pdf-ids + 1 without epsilons. The start may be any state. States with many arcs come first.

    Raises
    ------
    FormatError : a language model that cannot be used, phones that the topology does not have
    Nnet3Error : tree and model have different numbers of pdfs
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
    """Raise FormatError for a phone language model from which no denominator graph can be made."""
    if phone_lm.start < 0 or phone_lm.num_arcs == 0:
        raise FormatError(f"the phone language model has {phone_lm.num_states} states and {phone_lm.num_arcs} arcs, "
                          "expected at least one of each, and a start state")
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
                          hint="do language model and transition model have the same phones?")


def check_system(tree: ContextDependency, model: TransitionModel) -> None:
    """Raise FormatError if tree and transition model have different numbers of pdfs."""
    if tree.num_pdfs != model.num_pdfs:
        raise FormatError(f"the tree has {tree.num_pdfs} pdfs, but the transition model {model.num_pdfs}",
                          hint="do tree and final.mdl come from the same folder?")


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
    """Return the graph with its states sorted by number of arcs, descending."""
    leaving = np.diff(fst.arc_starts)
    entering = np.bincount(fst.next_states, minlength=fst.num_states)
    logger.info("Number of states is %d and arcs %d; number of states with in-degree <= %d is %d and with out-degree "
                "<= %d is %d", fst.num_states, fst.num_arcs, _FEW_ARCS, (entering <= _FEW_ARCS).sum(), _FEW_ARCS,
                (leaving <= _FEW_ARCS).sum())
    return fst.selected(np.argsort(-(leaving + entering), kind="stable"))


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


PUSH_DELTA = 0.01 * OPENFST_DELTA          # by how much the sums of states may differ
COST_STEP = np.float32(10.0 * OPENFST_DELTA)
_EPSILON = 0
_NOT_FINAL = np.uint64(0xD6E8FEB86659FD93)  # added to the bits of states that are not final


def _with_costs(fst: Fst, finals: np.ndarray, weights: np.ndarray) -> Fst:
    return Fst(fst.start, finals.astype(np.float32), fst.arc_starts, fst.input_labels, fst.input_labels,
               weights.astype(np.float32), fst.next_states)


def merge_states(fst: Fst) -> Fst:
    """Return the graph with costs rounded to multiples of 10/1024, and with states merged that then have the same arcs.

    Arcs are the same if label, cost and (merged) destination are equal. States whose arcs are in different orders are
    not merged. Merged states are numbered by their first members. Their arcs have no duplicates, and are sorted by
    (label, cost) in order of first appearance, then by destination.
    Kaldi: MinimizeAcceptorNoPush; epsilons are labels like any other.
    """
    fst = connected(_with_costs(fst, _rounded(fst.final_weights), _rounded(fst.weights)))
    if fst.num_states == 0:
        return fst
    letters, final_letters = _letters(fst)
    classes = _refined(fst, letters, _first_classes(fst, letters, final_letters))
    _, first, classes = np.unique(classes, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))                    # classes by their first states
    classes = place[classes]
    sources, targets = classes[fst.sources], classes[fst.next_states]
    order = np.lexsort((targets, letters, sources))
    chosen = order[_differ_from_before(sources[order], letters[order], targets[order])]
    finals = np.full(len(first), NO_WEIGHT, dtype=np.float32)
    finals[classes] = fst.final_weights
    labels = fst.input_labels[chosen]
    return Fst.from_arcs(int(classes[fst.start]), finals, sources[chosen], labels, labels, fst.weights[chosen],
                         targets[chosen])


def _differ_from_before(*columns: np.ndarray) -> np.ndarray:
    """Return which rows of the columns differ from the row before, bool (rows,)."""
    differ = np.zeros(len(columns[0]), dtype=bool)
    differ[:1] = True
    for column in columns:
        differ[1:] |= column[1:] != column[:-1]
    return differ


def _rounded(costs: np.ndarray) -> np.ndarray:
    steps: np.ndarray = np.floor(costs / COST_STEP + np.float32(0.5)) * COST_STEP
    return steps


def _letters(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct pairs (label, cost) by first appearance; return those of arcs and of final costs.

    They are int64 (arcs,) and int64 (states,), -1 for a state that is not final.
    """
    final = np.flatnonzero(fst.is_final)
    labels = np.concatenate((fst.input_labels, np.full(len(final), _EPSILON))).astype(np.int64)
    costs = np.round(np.concatenate((fst.weights, fst.final_weights[final])).astype(np.float64) / COST_STEP)
    place = np.concatenate((fst.sources, final))
    order = np.argsort(place, kind="stable")                            # a state's final cost after its arcs
    pairs = ((costs.astype(np.int64) << 32) + labels)[order]            # labels are below 2 ** 31
    _, first, numbers = np.unique(pairs, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    letters = np.empty(len(place), dtype=np.int64)
    letters[order] = rank[numbers]
    final_letters = np.full(fst.num_states, -1, dtype=np.int64)
    final_letters[final] = letters[fst.num_arcs:]
    return letters[:fst.num_arcs], final_letters


def _scattered(values: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each value, uint64 (the finalizer of splitmix64)."""
    bits = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _sums(sources: np.ndarray, bits: np.ndarray, num_states: int) -> np.ndarray:
    """Return the sum of the hashes ``bits`` of each source state, uint64 (states,): equal sums for equal sets."""
    total = np.zeros(num_states, dtype=np.uint64)
    np.add.at(total, sources, bits)
    return total


def _first_classes(fst: Fst, letters: np.ndarray, final_letters: np.ndarray) -> np.ndarray:
    """Return class numbers, int64 (states,): states with the same sequence of letters have the same class.

    Letters are the numbers from :func:`_letters`; repeated neighbors count once, and that of the final cost comes last.
    """
    sources = fst.sources
    begins = _differ_from_before(letters, sources)
    kept_sources, kept = sources[begins], letters[begins]
    counts = np.bincount(kept_sources, minlength=fst.num_states)
    position = np.arange(len(kept)) - np.repeat(np.cumsum(counts) - counts, counts)
    largest = int(max(letters.max(initial=0), final_letters.max())) + 1
    bits = _sums(kept_sources, _scattered(position * largest + kept), fst.num_states)
    last = np.full(fst.num_states, -1, dtype=np.int64)
    last[kept_sources] = kept                                           # the last letter of each state stays
    ends = np.where(last == final_letters, -1, final_letters)           # a repetition of the last letter
    bits += np.where(ends >= 0, _scattered(counts * largest + ends), np.uint64(0))
    bits += np.where(fst.is_final, np.uint64(0), _NOT_FINAL)
    return np.unique(bits, return_inverse=True)[1]


def _refined(fst: Fst, letters: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Split classes until all states of a class have arcs with the same letters to the same classes."""
    num_classes = int(classes.max()) + 1
    sources = fst.sources.astype(np.int64)
    while True:
        targets = letters * num_classes + classes[fst.next_states]
        order = np.lexsort((targets, sources))
        ordered_sources, ordered = sources[order], targets[order]
        new = _differ_from_before(ordered, ordered_sources)
        bits = _sums(ordered_sources[new], _scattered(ordered[new]), fst.num_states)
        finer = np.unique(bits + _scattered(-1 - classes), return_inverse=True)[1]
        now = int(finer.max()) + 1
        if now == num_classes:
            return classes
        classes, num_classes = finer, now
