"""Sums over the paths of a graph, the slow and plain way, for the tests of graphs."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nnet3py.chain.den_graph import initial_probs
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.transducers.fst import Fst

Path = tuple[tuple[int, ...], float]


def paths(fst: Fst, longest: int) -> Iterator[Path]:
    """Labels without epsilons and cost of every complete path of at most ``longest`` arcs."""
    starts = fst.arc_starts

    def follow(state: int, labels: tuple[int, ...], cost: float, left: int) -> Iterator[Path]:
        if np.isfinite(fst.final_weights[state]):
            yield labels, cost + float(fst.final_weights[state])
        if left:
            for arc in range(starts[state], starts[state + 1]):
                label = int(fst.input_labels[arc])
                yield from follow(int(fst.next_states[arc]), (*labels, label) if label else labels,
                                  cost + float(fst.weights[arc]), left - 1)

    yield from follow(fst.start, (), 0.0, longest)


def log_sum(fst: Fst, scores: np.ndarray) -> float:
    """The log of the sum over all complete paths of as many arcs as ``scores`` (frames, labels) has rows.

    A path's part is exp(scores of its labels - cost). The graph has no epsilons.
    """
    alpha = np.zeros(fst.num_states)
    alpha[fst.start] = 1.0
    probs = np.exp(-fst.weights.astype(np.float64))
    total = 0.0
    for row in scores:
        alpha = np.bincount(fst.next_states, alpha[fst.sources] * probs * np.exp(row[fst.input_labels]),
                            fst.num_states)
        scale = alpha.sum()
        alpha /= scale
        total += np.log(scale)
    return float(total + np.log(alpha @ np.exp(-fst.final_weights.astype(np.float64))))


def denominator_log_prob(fst: Fst, output: np.ndarray, leaky: float) -> float:
    """The denominator's log-probability of one sequence (frames, pdfs), as plainly as it can be written."""
    initial = initial_probs(fst).astype(np.float64)
    probs = np.exp(-fst.weights.astype(np.float64))
    alpha, total = initial * (1.0 + leaky), 0.0
    for row in output:
        alpha = np.bincount(fst.next_states, alpha[fst.sources] * probs * np.exp(row[fst.input_labels - 1]),
                            fst.num_states)
        scale = alpha.sum()
        total += np.log(scale)
        alpha = alpha / scale + leaky * initial
    return float(total + np.log(alpha.sum()))


def hmm_log_sum(phone_paths: Sequence[Path], tree: ContextDependency, model: TransitionModel,
                scores: np.ndarray) -> float:
    """The same for the HMMs of phones, without graphs; labels are transition-ids.

    ``phone_paths`` : phones and cost of each way through the language model
    """
    total = 0.0
    before, after = tree.central_position, tree.context_width - 1 - tree.central_position
    for phones, cost in phone_paths:
        padded = (0,) * before + phones + (0,) * after
        entry = np.zeros(len(scores) + 1)         # probability of entering the phone after so many frames
        entry[0] = np.exp(-cost)
        for first in range(len(phones)):
            entry = _through_phone(padded[first:first + tree.context_width], tree, model, scores, entry)
        total += entry[-1]
    return float(np.log(total))


def _through_phone(window: tuple[int, ...], tree: ContextDependency, model: TransitionModel, scores: np.ndarray,
                   entry: np.ndarray) -> np.ndarray:
    """Probabilities of leaving a phone after so many frames, given those of entering it.

    A place is behind a transition that has been taken, where its state's self-loop can follow it; place 0 is before
    the first one.
    """
    phone = window[tree.central_position]
    states = model.topology.entries[model.topology.entry_of_phone[phone]]
    tids, loops, places = [], [], [(0, 0)]                        # of places: which state was left, which comes
    for number, state in enumerate(states[:-1]):
        transition_state = model.transition_state(
            phone, number, tree.pdf(window, state.forward_pdf_class), tree.pdf(window, state.self_loop_pdf_class))
        ids = [model.transition_id(transition_state, index) for index in range(len(state.transitions))]
        targets = [target for target, _ in state.transitions]
        tids.append({target: one for target, one in zip(targets, ids, strict=True) if target != number})
        loops.append(ids[targets.index(number)] if number in targets else 0)
        places += [(number, target) for target in tids[-1]]
    probs = np.exp(model.log_probs.astype(np.float64))
    alpha = np.zeros((len(scores) + 1, len(places)))
    for t in range(len(scores) + 1):
        alpha[t, 0] += entry[t]
        for place, (left, coming) in enumerate(places):
            if t == len(scores):
                break
            if place and loops[left]:
                alpha[t + 1, place] += alpha[t, place] * probs[loops[left]] * np.exp(scores[t, loops[left]])
            for target, tid in (tids[coming].items() if coming < len(tids) else ()):
                alpha[t + 1, places.index((coming, target), 1)] += alpha[t, place] * probs[tid] * np.exp(scores[t, tid])
    return alpha[:, [place for place, (_, coming) in enumerate(places) if place and coming == len(tids)]].sum(axis=1)
