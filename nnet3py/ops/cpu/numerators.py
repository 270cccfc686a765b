"""Log-sums over the paths of each sequence's own graph on the CPU, for numerators of chain training and for lattices.

``chain/numerator.py`` describes the tables. Threads share the sequences.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import inline, row
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.formulas import functions

exp, _log_add = formula(functions.exp), formula(functions.log_add)

ZERO, NOTHING = np.float32(0), np.float32(-np.inf)


@inline
def _forward(begin, last_level, end, alpha, scores, costs, finals, sources, in_starts, in_arcs):
    """Set ``alpha`` to the log-sums over the paths to each node of a graph; return the log-sum over all paths."""
    alpha[begin], total = 0.0, -np.inf
    for i in range(begin + 1, end):
        value = -np.inf
        for place in range(in_starts[i], in_starts[i + 1]):
            k = in_arcs[place]
            value = _log_add(value, alpha[sources[k]] + (np.float64(scores[k]) - costs[k]))
        alpha[i] = value
    for i in range(last_level, end):
        total = _log_add(total, alpha[i] - finals[i])
    return total


@operation(rows_of="sums", cost="scores.shape[0] * 50 // sums.shape[0]")
def chain_numerator(first, last, posteriors, alpha, beta, sums, scores, costs, finals, sources, nexts, in_starts,
                    in_arcs, out_starts, out_arcs, level_starts, num_levels, weight):
    for s in range(first, last):
        begin, end = level_starts[s * num_levels], level_starts[(s + 1) * num_levels]
        total = _forward(begin, level_starts[(s + 1) * num_levels - 1], end, alpha, scores, costs, finals, sources,
                         in_starts, in_arcs)
        for back in range(end - begin):
            i = end - 1 - back
            value = -np.float64(finals[i])
            for place in range(out_starts[i], out_starts[i + 1]):
                k = out_arcs[place]
                arc = np.float64(scores[k]) - costs[k] + beta[nexts[k]]
                value = _log_add(value, arc)
                posteriors[k] = weight * np.float32(math.exp(alpha[i] + arc - total))
            beta[i] = value
        sums[s, 0], sums[s, 1] = total, beta[begin]


@operation(rows_of="sums", cost="scores.shape[0] * 100 // sums.shape[0]")
def lattice_accuracies(first, last, derivs, alpha, beta, left, right, sums, scores, costs, finals, accuracies, sources,
                       nexts, in_starts, in_arcs, out_starts, out_arcs, level_starts, num_levels, weight):
    for s in range(first, last):
        begin, end = level_starts[s * num_levels], level_starts[(s + 1) * num_levels]
        last_level = level_starts[(s + 1) * num_levels - 1]
        total = _forward(begin, last_level, end, alpha, scores, costs, finals, sources, in_starts, in_arcs)
        expected, left[begin] = 0.0, 0.0
        for i in range(begin + 1, end):
            value = 0.0
            if alpha[i] > -np.inf:
                for place in range(in_starts[i], in_starts[i + 1]):
                    k = in_arcs[place]
                    share = math.exp(alpha[sources[k]] + (np.float64(scores[k]) - costs[k]) - alpha[i])
                    value += share * (left[sources[k]] + accuracies[k])
            left[i] = value
        for i in range(last_level, end):
            if finals[i] < np.inf:
                expected += math.exp(alpha[i] - finals[i] - total) * left[i]
        for back in range(end - begin):
            i = end - 1 - back
            value, accuracy = -np.float64(finals[i]), 0.0
            for place in range(out_starts[i], out_starts[i + 1]):
                k = out_arcs[place]
                value = _log_add(value, np.float64(scores[k]) - costs[k] + beta[nexts[k]])
            beta[i] = value
            for place in range(out_starts[i], out_starts[i + 1]):
                k = out_arcs[place]
                arc = np.float64(scores[k]) - costs[k] + beta[nexts[k]]
                further = accuracies[k] + right[nexts[k]]
                if arc > -np.inf:
                    accuracy += math.exp(arc - value) * further
                derivs[k] = weight * np.float32(math.exp(alpha[i] + arc - total) * (left[i] + further - expected))
            right[i] = accuracy
        sums[s, 0], sums[s, 1], sums[s, 2], sums[s, 3] = total, beta[begin], expected, right[begin]


@inline
def _log_sum_of_arcs(others, weights, scores, states, columns, begin, end):
    """Return log(sum over k in begin..end-1 of exp(weights[k] + scores[columns[k]] + others[states[k]]))."""
    best = NOTHING
    for k in range(begin, end):
        best = max(best, weights[k] + scores[columns[k]] + others[states[k]])
    if best == NOTHING:
        return best
    scaled = ZERO
    for k in range(begin, end):
        scaled += exp(weights[k] + scores[columns[k]] + others[states[k]] - best)
    return best + np.float32(math.log(scaled))


@inline
def _log_sum(values, begin, end):
    """Return log(sum of exp(values[begin:end]))."""
    best = NOTHING
    for i in range(begin, end):
        best = max(best, values[i])
    if best == NOTHING:
        return best
    scaled = ZERO
    for i in range(begin, end):
        scaled += exp(values[i] - best)
    return best + np.float32(math.log(scaled))


@inline
def _all_finite(scores, begin, end):
    for t in range(scores.shape[0]):
        x = row(scores, t)
        for c in range(begin, end):
            if not math.isfinite(x[c]):
                return False
    return True


@inline
def _cyclic_forward(s, begin, end, alpha, scales, scores, finals, in_weights, in_starts, in_sources, in_columns):
    """Run the scaled forward pass of a sequence; return the log-sum over its paths, and the one of the last frame."""
    first, log_total = row(alpha, 0), 0.0
    for i in range(begin, end):
        first[i] = NOTHING
    first[begin] = ZERO
    for t in range(scores.shape[0]):
        old, new, x = row(alpha, t), row(alpha, t + 1), row(scores, t)
        for i in range(begin, end):
            new[i] = _log_sum_of_arcs(old, in_weights, x, in_sources, in_columns, in_starts[i], in_starts[i + 1])
        scale = _log_sum(new, begin, end)
        scales[t, s] = scale
        if not scale > NOTHING:
            return -np.inf, NOTHING
        log_total += scale
        for i in range(begin, end):
            new[i] -= scale
    last = row(alpha, scores.shape[0])
    for i in range(begin, end):
        last[i] -= finals[i]
    ending = _log_sum(last, begin, end)
    return (log_total + ending if ending > NOTHING else -np.inf), ending


@operation(rows_of="sums", cost="scores.shape[0] * out_weights.shape[0] * 20 // sums.shape[0]")
def chain_cyclic_numerator(first, last, posteriors, alpha, scales, sums, scores, finals, in_weights, out_weights,
                           in_starts, in_sources, in_columns, out_starts, out_nexts, out_columns, column_starts,
                           column_arcs, sources, first_states, first_columns, weight):
    num_frames = scores.shape[0]
    for s in range(first, last):
        begin, end = first_states[s], first_states[s + 1]
        if not _all_finite(scores, first_columns[s], first_columns[s + 1]):
            sums[s, 0] = np.nan
            continue
        sums[s, 0], ending = _cyclic_forward(s, begin, end, alpha, scales, scores, finals, in_weights, in_starts,
                                             in_sources, in_columns)
        if not sums[s, 0] > -np.inf:
            continue
        for i in range(begin, end):
            alpha[num_frames + 1 + num_frames % 2, i] = -finals[i] - ending
        for back in range(num_frames):
            t = num_frames - 1 - back
            a, x, g = row(alpha, t), row(scores, t), row(posteriors, t)
            now, then = row(alpha, num_frames + 1 + t % 2), row(alpha, num_frames + 1 + (t + 1) % 2)
            for c in range(first_columns[s], first_columns[s + 1]):
                total = ZERO
                for place in range(column_starts[c], column_starts[c + 1]):
                    k = column_arcs[place]
                    log_posterior = a[sources[k]] + out_weights[k] + x[c] + then[out_nexts[k]] - scales[t, s]
                    if log_posterior > NOTHING:
                        total += exp(log_posterior)
                g[c] = weight * total
            for i in range(begin, end):
                now[i] = _log_sum_of_arcs(then, out_weights, x, out_nexts, out_columns, out_starts[i],
                                          out_starts[i + 1]) - scales[t, s]
