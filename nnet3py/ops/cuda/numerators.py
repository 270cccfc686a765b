"""Sums over the paths of each sequence's own graph on the GPU, a block of threads for each.

The operations are those of ``ops/cpu/numerators.py``. Threads of a block share the nodes of a level, or the states of a
frame, and wait for each other before the next. A node's arcs are summed in their order: results are the same in each
run.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cuda.launch import MAX_BLOCKS, Shape, forced, operation
from nnet3py.ops.cuda.threads import MOST_THREADS, cuda, device_function, formula, max_over_block, row, sum_over_block
from nnet3py.ops.formulas import functions

exp, _log_add = formula(functions.exp), formula(functions.log_add)

ZERO, ONE, NOTHING = np.float32(0), np.float32(1), np.float32(-np.inf)
DOUBLE_ZERO, DOUBLE_NOTHING = np.float64(0), np.float64(-np.inf)
NODES = 64          # threads of a block: a level has few nodes, the graph of a sequence some hundred states


def launch_sequences(rows: int, cols: int) -> Shape:
    """Return grid and block: a block for each sequence."""
    shape = forced()
    if shape:
        return (shape[0][0], 1), (shape[1][0], 1)
    return (min(rows, MAX_BLOCKS), 1), (NODES, 1)


@device_function
def _forward(first, num_levels, level_starts, alpha, scores, costs, finals, sources, in_starts, in_arcs):
    """Set ``alpha`` to the log-sums over the paths to each node of a graph; return the log-sum over all paths.

    All threads of the block call it, and get the result.
    """
    total = DOUBLE_NOTHING
    if cuda.threadIdx.x == 0:
        alpha[level_starts[first]] = DOUBLE_ZERO
    for level in range(first + 1, first + num_levels):
        cuda.syncthreads()
        for i in range(level_starts[level] + cuda.threadIdx.x, level_starts[level + 1], cuda.blockDim.x):
            value = DOUBLE_NOTHING
            for place in range(in_starts[i], in_starts[i + 1]):
                k = in_arcs[place]
                value = _log_add(value, alpha[sources[k]] + (np.float64(scores[k]) - np.float64(costs[k])))
            alpha[i] = value
    cuda.syncthreads()
    for i in range(level_starts[first + num_levels - 1], level_starts[first + num_levels]):
        total = _log_add(total, alpha[i] - np.float64(finals[i]))
    return total


@operation(over=3, shape=launch_sequences)
def chain_numerator(posteriors, alpha, beta, sums, scores, costs, finals, sources, nexts, in_starts, in_arcs,
                    out_starts, out_arcs, level_starts, num_levels, weight):
    for s in range(cuda.blockIdx.x, sums.shape[0], cuda.gridDim.x):
        first = s * num_levels
        total = _forward(first, num_levels, level_starts, alpha, scores, costs, finals, sources, in_starts, in_arcs)
        for back in range(num_levels):
            level = first + num_levels - 1 - back
            for i in range(level_starts[level] + cuda.threadIdx.x, level_starts[level + 1], cuda.blockDim.x):
                value = -np.float64(finals[i])
                for place in range(out_starts[i], out_starts[i + 1]):
                    k = out_arcs[place]
                    arc = np.float64(scores[k]) - np.float64(costs[k]) + beta[nexts[k]]
                    value = _log_add(value, arc)
                    posteriors[k] = weight * np.float32(math.exp(alpha[i] + arc - total))
                beta[i] = value
            cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            sums[s, 0] = total
            sums[s, 1] = beta[level_starts[first]]


@device_function
def _expected_accuracy(first, num_levels, level_starts, left, alpha, total, scores, costs, finals, accuracies, sources,
                       in_starts, in_arcs):
    """Set ``left`` to the expected accuracies of the paths to each node of a graph; return that of all paths.

    All threads of the block call it, and get the result.
    """
    expected = DOUBLE_ZERO
    if cuda.threadIdx.x == 0:
        left[level_starts[first]] = DOUBLE_ZERO
    for level in range(first + 1, first + num_levels):
        cuda.syncthreads()
        for i in range(level_starts[level] + cuda.threadIdx.x, level_starts[level + 1], cuda.blockDim.x):
            value = DOUBLE_ZERO
            if alpha[i] > DOUBLE_NOTHING:
                for place in range(in_starts[i], in_starts[i + 1]):
                    k = in_arcs[place]
                    arc = np.float64(scores[k]) - np.float64(costs[k])
                    share = math.exp(alpha[sources[k]] + arc - alpha[i])
                    value += share * (left[sources[k]] + np.float64(accuracies[k]))
            left[i] = value
    cuda.syncthreads()
    for i in range(level_starts[first + num_levels - 1], level_starts[first + num_levels]):
        if np.float64(finals[i]) < -DOUBLE_NOTHING:
            expected += math.exp(alpha[i] - np.float64(finals[i]) - total) * left[i]
    return expected


@operation(over=5, shape=launch_sequences)
def lattice_accuracies(derivs, alpha, beta, left, right, sums, scores, costs, finals, accuracies, sources, nexts,
                       in_starts, in_arcs, out_starts, out_arcs, level_starts, num_levels, weight):
    for s in range(cuda.blockIdx.x, sums.shape[0], cuda.gridDim.x):
        first = s * num_levels
        total = _forward(first, num_levels, level_starts, alpha, scores, costs, finals, sources, in_starts, in_arcs)
        expected = _expected_accuracy(first, num_levels, level_starts, left, alpha, total, scores, costs, finals,
                                      accuracies, sources, in_starts, in_arcs)
        for back in range(num_levels):
            level = first + num_levels - 1 - back
            for i in range(level_starts[level] + cuda.threadIdx.x, level_starts[level + 1], cuda.blockDim.x):
                value, accuracy = -np.float64(finals[i]), DOUBLE_ZERO
                for place in range(out_starts[i], out_starts[i + 1]):
                    k = out_arcs[place]
                    value = _log_add(value, np.float64(scores[k]) - np.float64(costs[k]) + beta[nexts[k]])
                beta[i] = value
                for place in range(out_starts[i], out_starts[i + 1]):
                    k = out_arcs[place]
                    arc = np.float64(scores[k]) - np.float64(costs[k]) + beta[nexts[k]]
                    further = np.float64(accuracies[k]) + right[nexts[k]]
                    if arc > DOUBLE_NOTHING:
                        accuracy += math.exp(arc - value) * further
                    share = math.exp(alpha[i] + arc - total)
                    derivs[k] = weight * np.float32(share * (left[i] + further - expected))
                right[i] = accuracy
            cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            sums[s, 0], sums[s, 1] = total, beta[level_starts[first]]
            sums[s, 2], sums[s, 3] = expected, right[level_starts[first]]


@device_function
def _log(value):
    """Return log(value), -inf for 0; ``value`` is not negative."""
    return np.float32(math.log(value)) if value != ZERO else NOTHING


@device_function
def _log_sum_of_arcs(others, weights, scores, states, columns, begin, end):
    """Return log(sum over k in begin..end-1 of exp(weights[k] + scores[columns[k]] + others[states[k]]))."""
    best, scaled = NOTHING, ZERO
    for k in range(begin, end):
        value = weights[k] + scores[columns[k]] + others[states[k]]
        best = value if value > best else best
    if best == NOTHING:
        return best
    for k in range(begin, end):
        scaled += exp(weights[k] + scores[columns[k]] + others[states[k]] - best)
    return best + _log(scaled)


@device_function
def _log_sum(shared, values, begin, end):
    """Return log(sum of exp(values[begin:end])); all threads of the block call it, and get the result."""
    best, part = NOTHING, ZERO
    for i in range(begin + cuda.threadIdx.x, end, cuda.blockDim.x):
        best = values[i] if values[i] > best else best
    best = max_over_block(shared, best)
    for i in range(begin + cuda.threadIdx.x, end, cuda.blockDim.x):
        part += exp(values[i] - best) if best > NOTHING else ZERO
    return best + _log(sum_over_block(shared, part))


@device_function
def _all_finite(shared, scores, begin, end):
    part = ZERO
    for t in range(scores.shape[0]):
        for c in range(begin + cuda.threadIdx.x, end, cuda.blockDim.x):
            part += ZERO if math.isfinite(scores[t, c]) else ONE
    return sum_over_block(shared, part) == ZERO


@operation(over=3, shape=launch_sequences)
def chain_cyclic_numerator(posteriors, alpha, scales, sums, scores, finals, in_weights, out_weights, in_starts,
                           in_sources, in_columns, out_starts, out_nexts, out_columns, column_starts, column_arcs,
                           sources, first_states, first_columns, weight):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    num_frames, step = scores.shape[0], cuda.blockDim.x
    for s in range(cuda.blockIdx.x, sums.shape[0], cuda.gridDim.x):
        begin, end = first_states[s], first_states[s + 1]
        mine, total = begin + cuda.threadIdx.x, DOUBLE_ZERO
        possible = _all_finite(shared, scores, first_columns[s], first_columns[s + 1])
        if not possible:
            total = np.float64(np.nan)
        for i in range(mine, end, step):
            alpha[0, i] = ZERO if i == begin else NOTHING
        for t in range(num_frames):
            cuda.syncthreads()
            if possible:        # the same for all threads of the block
                old, new, x = row(alpha, t), row(alpha, t + 1), row(scores, t)
                for i in range(mine, end, step):
                    new[i] = _log_sum_of_arcs(old, in_weights, x, in_sources, in_columns, in_starts[i],
                                              in_starts[i + 1])
                scale = _log_sum(shared, new, begin, end)
                possible = scale > NOTHING
                total += np.float64(scale)
                for i in range(mine, end, step):
                    new[i] -= scale
                if cuda.threadIdx.x == 0:
                    scales[t, s] = scale
        last, ending = row(alpha, num_frames), NOTHING
        if possible:
            for i in range(mine, end, step):
                last[i] -= finals[i]
            ending = _log_sum(shared, last, begin, end)
            possible = ending > NOTHING
            total += np.float64(ending)
        for i in range(mine, end, step):
            alpha[num_frames + 1 + num_frames % 2, i] = -finals[i] - ending
        for back in range(num_frames):
            cuda.syncthreads()
            t = num_frames - 1 - back
            if possible:
                a, x, g, scale = row(alpha, t), row(scores, t), row(posteriors, t), scales[t, s]
                now, then = row(alpha, num_frames + 1 + t % 2), row(alpha, num_frames + 1 + (t + 1) % 2)
                for c in range(first_columns[s] + cuda.threadIdx.x, first_columns[s + 1], step):
                    posterior = ZERO
                    for place in range(column_starts[c], column_starts[c + 1]):
                        k = column_arcs[place]
                        posterior += exp(a[sources[k]] + out_weights[k] + x[c] + then[out_nexts[k]] - scale)
                    g[c] = weight * posterior
                for i in range(mine, end, step):
                    now[i] = _log_sum_of_arcs(then, out_weights, x, out_nexts, out_columns, out_starts[i],
                                              out_starts[i + 1]) - scale
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            sums[s, 0] = total
