"""Loops of edit distances over lattices: minimum Bayes risk and oracles. Imported only to be compiled.

The arcs into state s are ``enter_starts[s]`` to ``enter_starts[s + 1]`` - 1 of ``sources``, ``words`` and ``shares``.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from nnet3py.engine.inline import inline
from nnet3py.lattices.path_loops import log_add

_NOTHING_MORE = 9.999999747378752e-06        # 1e-5 as a float: makes words against nothing a little more expensive


@intrinsic
def _fused(typingctx, first, second, total):
    """Return ``first * second + total`` rounded once (fused multiply-add), as Kaldi's programs are compiled.

    Several alignments are often equally good; then rounding decides, and must be Kaldi's.
    """
    def code(context, builder, signature, args):
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), code


_plus_product: Any = _fused


@inline
def _loss(first, second):
    return 0.0 if first == second else 1.0


@inline
def _loss_against_nothing(word):
    return 0.0 if word == 0 else 1.0 + _NOTHING_MORE


def arc_shares(enter_starts, sources, log_likes, alphas, shares):
    """Compute forward log-likelihoods ``alphas`` and, in ``shares``, the probability of each arc given its destination.

    Return the log-likelihood of all paths.
    """
    alphas[0] = 0.0
    for state in range(1, len(alphas)):
        total = -math.inf
        for i in range(enter_starts[state], enter_starts[state + 1]):
            total = log_add(total, alphas[sources[i]] + log_likes[i])
        alphas[state] = total
        for i in range(enter_starts[state], enter_starts[state + 1]):
            shares[i] = math.exp(alphas[sources[i]] + log_likes[i] - total)
    return alphas[len(alphas) - 1]


@inline
def _arc_distances(word, expected, source, reference, distances, choices):
    """Compute expected distances at the end of an arc from those at its source, one for each prefix of ``reference``.

    ``choices`` gets the last step of each alignment: 1 aligns the arc's word with a word of the reference, 2 the arc's
    word with nothing, 3 a word of the reference with nothing.
    """
    nothing = _loss_against_nothing(word)
    distances[0] = expected[source, 0] + nothing
    for q in range(1, len(reference)):
        both = expected[source, q - 1] + _loss(word, reference[q])
        arc_only = expected[source, q] + nothing
        reference_only = distances[q - 1] + _loss(0, reference[q])
        if both <= arc_only and both <= reference_only:
            distances[q], choices[q] = both, 1
        elif arc_only < both and arc_only <= reference_only:
            distances[q], choices[q] = arc_only, 2
        else:
            distances[q], choices[q] = reference_only, 3


def statistics(enter_starts, sources, words, shares, times, reference, expected, back, distances, choices, passed,
               gamma, begins, ends):
    """Align a lattice with ``reference``, whose words begin at place 1; return the expected edit distance.

    ``gamma`` gets the probability of each word at each place, ``begins`` and ``ends`` get gamma times the word's times.
    ``expected``, ``back``, ``gamma``, ``begins``, ``ends`` must be filled with 0.
    """
    num_states, length = len(times), len(reference) - 1
    for q in range(1, length + 1):
        expected[0, q] = expected[0, q - 1] + _loss(0, reference[q])
    for state in range(1, num_states):
        for i in range(enter_starts[state], enter_starts[state + 1]):
            _arc_distances(words[i], expected, sources[i], reference, distances, choices)
            for q in range(length + 1):
                expected[state, q] = _plus_product(shares[i], distances[q], expected[state, q])
    back[num_states - 1, length] = 1.0
    for state in range(num_states - 1, 0, -1):
        for i in range(enter_starts[state], enter_starts[state + 1]):
            source, word = sources[i], words[i]
            _arc_distances(word, expected, source, reference, distances, choices)
            for q in range(length + 1):
                passed[q] = 0.0
            for q in range(length, 0, -1):
                passed[q] += shares[i] * back[state, q]
                here = passed[q]
                if choices[q] == 1:
                    back[source, q - 1] += here
                    gamma[q, word] += here
                    begins[q, word] += times[source] * here
                    ends[q, word] += times[state] * here
                elif choices[q] == 2:
                    back[source, q] += here
                else:
                    passed[q - 1] += here
                    gamma[q, 0] += here
                    begins[q, 0] += times[state] * here
                    ends[q, 0] += times[state] * here
            passed[0] += shares[i] * back[state, 0]
            back[source, 0] += passed[0]
    for q in range(length + 1):
        passed[q] = 0.0
    for q in range(length, 0, -1):
        passed[q] += back[0, q]
        passed[q - 1] += passed[q]
        gamma[q, 0] += passed[q]
        begins[q, 0] += times[0] * passed[q]
        ends[q, 0] += times[0] * passed[q]
    return expected[num_states - 1, length]


FAR = np.int32(1 << 30)
INSERTED, MATCHED, DELETED, PASSED = range(4)         # how a place is reached: what is done with an arc's word


def distances(arc_starts, next_states, words, sources, reference, costs, came_arcs, came_how):
    """Compute the edit distances between the best path to each state and each prefix of ``reference``.

    ``costs`` int32 (states, words + 1) gets them; ``came_arcs`` and ``came_how`` get the last arc and step (such as
    MATCHED) of these paths. The lattice begins at state 0 and is topologically sorted; word 0 is ignored.
    """
    num_states, length = costs.shape[0], len(reference)
    for state in range(num_states):
        for place in range(length + 1):
            costs[state, place] = FAR
    costs[0, 0] = 0
    for state in range(num_states):
        for place in range(length):
            if costs[state, place] < FAR and costs[state, place] + 1 < costs[state, place + 1]:
                costs[state, place + 1] = costs[state, place] + 1
                came_arcs[state, place + 1], came_how[state, place + 1] = -1, DELETED
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            target, word = next_states[arc], words[arc]
            for place in range(length + 1):
                here = costs[state, place]
                if here >= FAR:
                    continue
                how, cost = (PASSED, here) if word == 0 else (INSERTED, here + 1)
                if cost < costs[target, place]:
                    costs[target, place] = cost
                    came_arcs[target, place], came_how[target, place] = arc, how
                if word != 0 and place < length:
                    cost = here + (0 if word == reference[place] else 1)
                    if cost < costs[target, place + 1]:
                        costs[target, place + 1] = cost
                        came_arcs[target, place + 1], came_how[target, place + 1] = arc, MATCHED
