"""Objectives on the CPU: sparse supervision, and the sums over paths of chain training.

The denominator (Kaldi: ``chain-denominator.cc``) works on a block of sequences at a time, with a column for each
sequence, so that the inner loops run along sequences and no sum crosses them: the result of a sequence depends neither
on the width of its block nor on the number of threads. Sums over arcs are float32, in the arcs' order.

An "entry" is a pair of a pdf and the state that arcs with this pdf enter, see ``chain/den_graph.py``. The matrices of
T frames with R rows each are stored below each other in one matrix of T R rows: frame t is rows t R to (t + 1) R - 1.

``alpha`` and ``beta`` are work space of ``chain_work_rows`` rows (``ops/training_operations.py``), of which a GPU uses
more than the CPU. After the backward pass the first rows of ``beta``, one for each state, hold the backward sums of
frame 0.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import inline, row
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.formulas import functions

exp = formula(functions.exp)

ZERO, ONE = np.float32(0), np.float32(1)


@operation()
def chain_exp(dst, src, limit, first, num_sequences):
    cols, width = src.shape[1], dst.shape[1]
    for t in range(src.shape[0] // num_sequences):
        for p in range(cols):
            d = row(dst, t * cols + p)
            for s in range(width):
                d[s] = src[t * num_sequences + first + s, p]
            for s in range(width):          # a loop of its own, which LLVM can vectorize
                value = d[s] if d[s] > -limit else -limit
                d[s] = exp(value if value < limit else limit)


@inline
def _sum_of_arcs(dst, src, first_row, probs, others, begin, end):
    """Set ``dst`` to the sum of ``probs[k] src[first_row + others[k]]`` over arcs k from ``begin`` to ``end`` - 1."""
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


@operation()
def chain_forward(sums, alpha, arriving, y, initial, probs, arc_starts, sources, state_entries, entry_pdfs, leaky):
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


@operation()
def chain_backward(y, arriving, beta, sums, initial, probs, arc_starts, entries, pdf_starts, pdf_entries, entry_pdfs,
                   entry_states, leaky):
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


@operation()
def chain_add_posteriors(dst, src, first, num_sequences, alpha):
    cols, width = dst.shape[1], src.shape[1]
    for t in range(dst.shape[0] // num_sequences):
        for p in range(cols):
            g = row(src, t * cols + p)
            for s in range(width):
                dst[t * num_sequences + first + s, p] += alpha * g[s]


@operation()
def chain_out_of_range(dst, src, limit, scale):
    for i in range(dst.shape[0]):
        d, x = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            if x[j] > limit:
                d[j] -= scale * (x[j] - limit)
            elif x[j] < -limit:
                d[j] -= scale * (x[j] + limit)


@operation()
def chain_log_probs(totals, sums, initial, leaky):
    last, leak = sums.shape[0] - 1, np.float64(0)
    for i in range(initial.shape[0]):
        leak += initial[i]
    for s in range(totals.shape[1]):
        total = math.log(sums[last, s] * (1.0 + leaky * leak))
        for t in range(last):
            total += math.log(np.float64(sums[t, s]))
        totals[0, s] = total


@operation()
def chain_checks(totals, beta, y, sums, initial, num_pdfs, leaky):
    for s in range(totals.shape[1]):
        product, posterior = 0.0, 0.0
        for i in range(initial.shape[0]):
            product += initial[i] * (1.0 + leaky * sums[0, s]) * beta[i, s]
        for p in range(num_pdfs):
            posterior += y[p, s]
        totals[1, s], totals[2, s] = product, posterior


@operation()
def chain_gather(dst, src, rows, columns):
    for k in range(dst.shape[0]):
        dst[k] = src[rows[k], columns[k]]


# -- outputs against sparse supervision --------------------------------------------------------------------------------


@operation()
def sum_product_sparse(src, row_starts, columns, values):
    total = 0.0
    for r in range(src.shape[0]):
        s = row(src, r)
        for k in range(row_starts[r], row_starts[r + 1]):
            total += s[columns[k]] * np.float64(values[k])
    return total


@operation()
def copy_from_sparse(dst, row_starts, columns, values):
    for r in range(dst.shape[0]):
        d = row(dst, r)
        for c in range(d.shape[0]):
            d[c] = 0.0
        for k in range(row_starts[r], row_starts[r + 1]):
            d[columns[k]] += values[k]
