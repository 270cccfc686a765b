"""The sums over paths of chain training, on the CPU. Kaldi: ``chain-denominator.cc`` and the numerators.

The denominator works on a block of sequences at a time, with a column for each sequence, so that the inner loops run
along sequences and no sum crosses them: the result of a sequence depends neither on the width of its block nor on the
number of threads. Sums over arcs are float32, in the arcs' order.

"Entries" are the pairs of a pdf and the state that it leads to, see ``chain/den_graph.py``. A frame's matrices lie
below each other: frame t of a matrix of (T rows, columns) is its rows t rows to (t + 1) rows.

``alpha`` and ``beta`` are work space of ``chain_work_rows`` rows (``ops/table.py``), of which a GPU needs more than is
used here. In the end the first rows of ``beta``, one for each state, hold the backward sums of frame 0.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cpu.element_formulas import exp
from nnet3py.ops.cpu.jit import inline, kernel, row

ZERO, ONE = np.float32(0), np.float32(1)
NOTHING = np.float32(-np.inf)      # log 0


@kernel("mat mat f32 int int")
def chain_exp(dst, src, limit, first, num_sequences):
    """``dst[t cols + p, s] = exp(src[t num_sequences + first + s, p])``, src within +-limit; NaN counts as -limit."""
    cols, width = src.shape[1], dst.shape[1]
    for t in range(src.shape[0] // num_sequences):
        for p in range(cols):
            d = row(dst, t * cols + p)
            for s in range(width):
                value = src[t * num_sequences + first + s, p]
                value = value if value > -limit else -limit
                d[s] = exp(value if value < limit else limit)


@inline
def _sum_of_arcs(dst, src, first_row, probs, others, begin, end):
    """``dst`` = the sum of ``probs[k] src[first_row + others[k]]`` over arcs k; by twos, which halves dst's traffic."""
    k = begin
    if (end - begin) % 2:
        a, p = row(src, first_row + others[k]), probs[k]
        for s in range(dst.shape[0]):
            dst[s] = p * a[s]
        k += 1
    else:
        for s in range(dst.shape[0]):
            dst[s] = ZERO
    while k < end:
        a, p = row(src, first_row + others[k]), probs[k]
        b, q = row(src, first_row + others[k + 1]), probs[k + 1]
        for s in range(dst.shape[0]):
            dst[s] += p * a[s] + q * b[s]
        k += 2


@inline
def _leak(dst, total, initial, leaky):
    """Add ``leaky initial[i] total`` to each row i of ``dst``."""
    for i in range(initial.shape[0]):
        d, scale = row(dst, i), leaky * initial[i]
        for s in range(d.shape[0]):
            d[s] += scale * total[s]


@kernel("mat mat mat mat vec vec lvec ivec lvec ivec f32")
def chain_forward(sums, alpha, arriving, y, initial, probs, arc_starts, sources, state_entries, entry_pdfs, leaky):
    """The leaky forward pass: sums over paths to each entry and frame. Kaldi: DenominatorComputation::Forward."""
    num_states, num_entries, width = initial.shape[0], entry_pdfs.shape[0], sums.shape[1]
    num_frames = sums.shape[0] - 1
    num_pdfs = y.shape[0] // num_frames
    total = row(sums, 0)
    for s in range(width):
        total[s] = ZERO
    for i in range(num_states):
        a = row(alpha, i)
        for s in range(width):
            a[s] = initial[i]
            total[s] += initial[i]
    _leak(alpha, total, initial, leaky)
    for t in range(num_frames):
        v_row = t * num_entries
        for d in range(num_entries):
            _sum_of_arcs(row(arriving, v_row + d), alpha, 0, probs, sources, arc_starts[d], arc_starts[d + 1])
        before, total = row(sums, t), row(sums, t + 1)
        for s in range(width):
            total[s] = ZERO
        for i in range(num_states):
            a = row(alpha, i)
            for s in range(width):
                a[s] = ZERO
            for d in range(state_entries[i], state_entries[i + 1]):
                v, emitted = row(arriving, v_row + d), row(y, t * num_pdfs + entry_pdfs[d])
                for s in range(width):
                    a[s] += v[s] * emitted[s]
            for s in range(width):
                a[s] /= before[s]
                total[s] += a[s]
        _leak(alpha, total, initial, leaky)


@kernel("mat mat mat mat vec vec lvec ivec lvec ivec ivec ivec f32")
def chain_backward(y, arriving, beta, sums, initial, probs, arc_starts, entries, pdf_starts, pdf_entries, entry_pdfs,
                   entry_states, leaky):
    """The leaky backward pass, which turns ``y`` into posteriors. Kaldi: DenominatorComputation::Backward."""
    num_states, num_entries, width = initial.shape[0], entry_pdfs.shape[0], sums.shape[1]
    num_frames, num_pdfs = sums.shape[0] - 1, pdf_starts.shape[0] - 1
    total, acc = row(beta, num_states), row(beta, num_states + 1)
    last = row(sums, num_frames)
    start_total = ZERO
    for i in range(num_states):
        start_total += initial[i]
    for i in range(num_states):
        b = row(beta, i)
        for s in range(width):
            b[s] = ONE / (last[s] * (ONE + leaky * start_total))
    for t in range(num_frames - 1, -1, -1):
        for s in range(width):
            total[s] = ZERO
        for i in range(num_states):
            b = row(beta, i)
            for s in range(width):
                total[s] += initial[i] * b[s]
        for i in range(num_states):
            b = row(beta, i)
            for s in range(width):
                b[s] += leaky * total[s]
        before = row(sums, t)
        for n in range(num_pdfs):
            emitted = row(y, t * num_pdfs + n)
            for s in range(width):
                emitted[s] /= before[s]
                acc[s] = ZERO
            for k in range(pdf_starts[n], pdf_starts[n + 1]):
                d = pdf_entries[k]
                v, b = row(arriving, t * num_entries + d), row(beta, entry_states[d])
                for s in range(width):
                    leaving = emitted[s] * b[s]
                    acc[s] += v[s] * leaving
                    v[s] = leaving
            for s in range(width):
                emitted[s] = acc[s]
        for i in range(num_states):
            _sum_of_arcs(row(beta, i), arriving, t * num_entries, probs, entries, arc_starts[i], arc_starts[i + 1])


@kernel("mat mat int int f32")
def chain_add_posteriors(dst, src, first, num_sequences, alpha):
    """``dst[t num_sequences + first + s, p] += alpha src[t cols + p, s]``."""
    cols, width = dst.shape[1], src.shape[1]
    for t in range(dst.shape[0] // num_sequences):
        for p in range(cols):
            g = row(src, t * cols + p)
            for s in range(width):
                dst[t * num_sequences + first + s, p] += alpha * g[s]


@kernel("mat mat f32 f32")
def chain_out_of_range(dst, src, limit, scale):
    """``dst -= scale`` times how far ``src`` lies above ``limit``, or, negative, below ``-limit``."""
    for i in range(dst.shape[0]):
        d, x = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            if x[j] > limit:
                d[j] -= scale * (x[j] - limit)
            elif x[j] < -limit:
                d[j] -= scale * (x[j] + limit)


# -- numerators: the sums over an utterance's own paths, with logarithms ---------------------------------------------


@kernel("vec mat ivec ivec")
def chain_gather(dst, src, rows, columns):
    """``dst[k] = src[rows[k], columns[k]]``."""
    for k in range(dst.shape[0]):
        dst[k] = src[rows[k], columns[k]]


@inline
def _log_add(a, b):
    """log(exp(a) + exp(b)); minus infinity stands for 0."""
    high, low = (a, b) if a > b else (b, a)
    return high if low == -np.inf else high + math.log1p(math.exp(low - high))


@kernel("vec dvec dvec vec vec vec lvec ivec")
def chain_numerator(posteriors, alpha, beta, scores, costs, finals, arc_starts, nexts):
    """Sums over the paths of an FST sorted by time; returns the log of that over all. Kaldi: NumeratorComputation."""
    num_states = finals.shape[0]
    for i in range(num_states):
        alpha[i] = -np.inf
    alpha[0] = 0.0
    total = -np.inf
    for i in range(num_states):
        if finals[i] < np.inf:
            total = _log_add(total, alpha[i] - finals[i])
        for k in range(arc_starts[i], arc_starts[i + 1]):
            alpha[nexts[k]] = _log_add(alpha[nexts[k]], alpha[i] - costs[k] + scores[k])
    for i in range(num_states - 1, -1, -1):
        sum_of_arcs = -np.float64(finals[i])
        for k in range(arc_starts[i], arc_starts[i + 1]):
            arc = scores[k] - np.float64(costs[k]) + beta[nexts[k]]
            sum_of_arcs = _log_add(sum_of_arcs, arc)
            posteriors[k] = math.exp(alpha[i] + arc - total)
        beta[i] = sum_of_arcs
    return total


@inline
def _log_sum_of_arcs(others, weights, scores, states, columns, begin, end):
    """log(sum over arcs of exp(weight + score of its column + value of the state at its other end))."""
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
def _log_sum(values):
    """log(sum of exp(values))."""
    best = NOTHING
    for i in range(values.shape[0]):
        best = max(best, values[i])
    if best == NOTHING:
        return best
    scaled = ZERO
    for i in range(values.shape[0]):
        scaled += exp(values[i] - best)
    return best + np.float32(math.log(scaled))


@kernel("mat mat vec mat vec vec vec lvec ivec ivec lvec ivec ivec")
def chain_cyclic_numerator(posteriors, alpha, scales, scores, finals, in_weights, out_weights, in_starts, in_sources,
                           in_columns, out_starts, out_nexts, out_columns):
    """Sums over paths of an FST that may have cycles, a frame for each arc; returns the log of that over all.

    Where no path is as long as the scores, it returns minus infinity and the posteriors are undefined.
    Kaldi: GenericNumeratorComputation.
    """
    num_frames, num_states = scores.shape[0], finals.shape[0]
    first, log_total = row(alpha, 0), 0.0
    for i in range(num_states):
        first[i] = NOTHING
    first[0] = ZERO
    for t in range(num_frames):
        old, new, x = row(alpha, t), row(alpha, t + 1), row(scores, t)
        for i in range(num_states):
            new[i] = _log_sum_of_arcs(old, in_weights, x, in_sources, in_columns, in_starts[i], in_starts[i + 1])
        scales[t] = _log_sum(new)
        if not scales[t] > NOTHING:
            return -np.inf
        log_total += scales[t]
        for i in range(num_states):
            new[i] -= scales[t]
    last, now, then = row(alpha, num_frames), row(alpha, num_frames + 1), row(alpha, num_frames + 2)
    for i in range(num_states):
        last[i] -= finals[i]
    end = _log_sum(last)
    if not end > NOTHING:
        return -np.inf
    for i in range(num_states):
        then[i] = -finals[i] - end
    for t in range(num_frames - 1, -1, -1):
        a, x, g = row(alpha, t), row(scores, t), row(posteriors, t)
        for c in range(g.shape[0]):
            g[c] = ZERO
        for i in range(num_states):
            for k in range(out_starts[i], out_starts[i + 1]):
                c = out_columns[k]
                log_posterior = a[i] + out_weights[k] + x[c] + then[out_nexts[k]] - scales[t]
                if log_posterior > NOTHING:
                    g[c] += exp(log_posterior)
            now[i] = _log_sum_of_arcs(then, out_weights, x, out_nexts, out_columns, out_starts[i],
                                      out_starts[i + 1]) - scales[t]
        now, then = then, now
    return log_total + end
