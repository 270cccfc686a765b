"""Slow, obvious numpy twins of the operations of chain training."""
from __future__ import annotations

import numpy as np


def frames(matrix, count):
    """A matrix whose frames lie below each other, as (frames, rows, columns)."""
    return matrix.reshape(count, len(matrix) // max(count, 1), matrix.shape[1])


def chain_exp(dst, src, limit, first, num_sequences):
    num_frames = len(src) // num_sequences
    clipped = np.clip(np.where(np.isnan(src), -limit, src), -limit, limit)
    by_frame = clipped.reshape(num_frames, num_sequences, -1)[:, first:first + dst.shape[1]]
    dst[...] = np.exp(by_frame).transpose(0, 2, 1).reshape(dst.shape)


def chain_add_posteriors(dst, src, first, num_sequences, alpha):
    num_frames, width = len(dst) // num_sequences, src.shape[1]
    for t in range(num_frames):
        for s in range(width):
            dst[t * num_sequences + first + s] += alpha * frames(src, num_frames)[t, :, s]


def chain_out_of_range(dst, src, limit, scale):
    dst -= scale * (np.maximum(src - limit, 0) + np.minimum(src + limit, 0))


def matrices_of_arcs(entry_pdfs, entry_states, into_starts, sources, probs, num_states):
    """For each entry its pdf, its state and the probabilities (states,) of arriving by it from each state."""
    for d in range(len(entry_pdfs)):
        arriving = np.zeros(num_states)
        np.add.at(arriving, sources[into_starts[d]:into_starts[d + 1]], probs[into_starts[d]:into_starts[d + 1]])
        yield int(entry_pdfs[d]), int(entry_states[d]), arriving


def chain_forward(sums, alpha, arriving, y, initial, probs, arc_starts, sources, state_entries, entry_pdfs, leaky):
    num_frames = len(sums) - 1
    entry_states = np.repeat(np.arange(len(initial)), np.diff(state_entries))
    entries = list(matrices_of_arcs(entry_pdfs, entry_states, arc_starts, sources, probs, len(initial)))
    alpha = alpha[:len(initial)]
    alpha[...] = initial[:, None]
    sums[0] = alpha.sum(axis=0)
    alpha += leaky * initial[:, None] * sums[0]
    for t in range(num_frames):
        for d, (_, _, weights) in enumerate(entries):
            frames(arriving, num_frames)[t, d] = weights @ alpha
        alpha[...] = 0
        for d, (pdf, state, _) in enumerate(entries):
            alpha[state] += frames(arriving, num_frames)[t, d] * frames(y, num_frames)[t, pdf] / sums[t]
        sums[t + 1] = alpha.sum(axis=0)
        alpha += leaky * initial[:, None] * sums[t + 1]


def chain_backward(y, arriving, beta, sums, initial, probs, arc_starts, entries, pdf_starts, pdf_entries, entry_pdfs,
                   entry_states, leaky):
    num_frames, num_states = len(sums) - 1, len(initial)
    now = np.ones((num_states, sums.shape[1])) / (sums[-1] * (1 + leaky * initial.sum()))
    for t in range(num_frames - 1, -1, -1):
        beta[num_states] = initial @ now
        now = now + leaky * beta[num_states]
        emitted = frames(y, num_frames)[t] / sums[t]
        posteriors = np.zeros_like(emitted)
        leaving = np.stack([emitted[pdf] * now[state] for pdf, state in zip(entry_pdfs, entry_states, strict=True)])
        np.add.at(posteriors, entry_pdfs, frames(arriving, num_frames)[t] * leaving)
        frames(y, num_frames)[t] = posteriors
        frames(arriving, num_frames)[t] = leaving
        now = np.stack([probs[arc_starts[i]:arc_starts[i + 1]] @ leaving[entries[arc_starts[i]:arc_starts[i + 1]]]
                        for i in range(num_states)])
        beta[num_states + 1] = posteriors[-1]
    beta[:num_states] = now


def chain_gather(dst, src, rows, columns):
    dst[...] = src[rows, columns]


def chain_numerator(posteriors, alpha, beta, scores, costs, finals, arc_starts, nexts):
    alpha[...], beta[...] = -np.inf, -finals
    alpha[0] = 0
    sources = np.repeat(np.arange(len(finals)), np.diff(arc_starts))
    for k in range(len(nexts)):
        alpha[nexts[k]] = np.logaddexp(alpha[nexts[k]], alpha[sources[k]] - costs[k] + scores[k])
    total = np.logaddexp.reduce(alpha - finals)
    for k in range(len(nexts) - 1, -1, -1):
        arc = scores[k] - costs[k] + beta[nexts[k]]
        posteriors[k] = np.exp(alpha[sources[k]] + arc - total)
        beta[sources[k]] = np.logaddexp(beta[sources[k]], arc)
    return total


def chain_cyclic_numerator(posteriors, alpha, scales, scores, finals, in_weights, out_weights, in_starts, in_sources,
                           in_columns, out_starts, out_nexts, out_columns):
    sources, probs = np.repeat(np.arange(len(finals)), np.diff(out_starts)), np.exp(out_weights)
    num_frames = len(scores)
    sums = np.zeros((num_frames + 1, len(finals)))
    sums[0, 0] = 1
    for t in range(num_frames):
        np.add.at(sums[t + 1], out_nexts, sums[t, sources] * probs * np.exp(scores[t, out_columns]))
    after, total = np.exp(-finals), sums[-1] @ np.exp(-finals)
    posteriors[...] = 0
    for t in range(num_frames - 1, -1, -1):
        arcs = probs * np.exp(scores[t, out_columns]) * after[out_nexts]
        np.add.at(posteriors[t], out_columns, sums[t, sources] * arcs / total)
        after = np.bincount(sources, arcs, len(finals))
    return float(np.log(total))
