"""Slow, obvious numpy forms of the operations of chain training."""
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


def chain_log_probs(found, sums, initial, leaky):
    found[0] = np.log(sums[:-1]).sum(axis=0) + np.log(sums[-1] * (1 + leaky * initial.sum()))


def chain_checks(found, beta, y, sums, initial, num_pdfs, leaky):
    found[1] = (initial[:, None] * (1 + leaky * sums[0]) * beta[:len(initial)]).sum(axis=0)
    found[2] = y[:num_pdfs].sum(axis=0)


def chain_numerator(posteriors, alpha, beta, sums, scores, costs, finals, sources, nexts, in_starts, in_arcs,
                    out_starts, out_arcs, level_starts, num_levels, weight):
    alpha[...], beta[...] = -np.inf, -finals
    starts = level_starts[:-1:num_levels]
    alpha[starts] = 0
    for k in np.argsort(sources, kind="stable"):
        alpha[nexts[k]] = np.logaddexp(alpha[nexts[k]], alpha[sources[k]] - costs[k] + scores[k])
    for s, (begin, end) in enumerate(zip(starts, [*starts[1:], len(finals)], strict=True)):
        sums[s, 0] = np.logaddexp.reduce(alpha[begin:end] - finals[begin:end])
    graphs = np.searchsorted(starts, sources, side="right") - 1
    for k in np.argsort(-sources, kind="stable"):
        arc = scores[k] - costs[k] + beta[nexts[k]]
        posteriors[k] = weight * np.exp(alpha[sources[k]] + arc - sums[graphs[k], 0])
        beta[sources[k]] = np.logaddexp(beta[sources[k]], arc)
    sums[:, 1] = beta[starts]


def lattice_accuracies(derivs, alpha, beta, left, right, sums, scores, costs, finals, accuracies, sources, nexts,
                       in_starts, in_arcs, out_starts, out_arcs, level_starts, num_levels, weight):
    """Sums of probabilities, and of probabilities times accuracies, without logarithms and without means."""
    starts = level_starts[:-1:num_levels]
    graphs, probs, ends = np.searchsorted(starts, sources, side="right") - 1, np.exp(scores - costs), np.exp(-finals)
    before, after = np.zeros((2, len(finals))), np.stack([ends, np.zeros(len(ends))])
    before[0, starts] = 1
    for k in np.argsort(sources, kind="stable"):
        total, correct = before[:, sources[k]]
        before[:, nexts[k]] += probs[k] * total, probs[k] * (correct + accuracies[k] * total)
    for k in np.argsort(-sources, kind="stable"):
        total, correct = after[:, nexts[k]]
        after[:, sources[k]] += probs[k] * total, probs[k] * (correct + accuracies[k] * total)
    totals, expected = after[0, starts], after[1, starts] / after[0, starts]
    through = before[0, sources] * probs * after[0, nexts] / totals[graphs]
    with np.errstate(invalid="ignore", divide="ignore"):
        alpha[...], beta[...] = np.log(before[0]), np.log(after[0])
        left[...], right[...] = (np.where(x[0] > 0, x[1] / x[0], 0) for x in (before, after))
    derivs[...] = weight * through * (left[sources] + accuracies + right[nexts] - expected[graphs])
    sums[...] = np.stack([np.log(totals)] * 2 + [expected] * 2, axis=1)


def chain_cyclic_numerator(posteriors, alpha, scales, sums, scores, finals, in_weights, out_weights, in_starts,
                           in_sources, in_columns, out_starts, out_nexts, out_columns, column_starts, column_arcs,
                           sources, first_states, first_columns, weight):
    for s, (begin, end) in enumerate(zip(first_states[:-1], first_states[1:], strict=True)):
        columns, arcs = slice(*first_columns[s:s + 2]), slice(out_starts[begin], out_starts[end])
        sums[s, 0] = _cyclic(posteriors[:, columns], scores[:, columns], finals[begin:end], out_weights[arcs],
                             sources[arcs] - begin, out_nexts[arcs] - begin, out_columns[arcs] - first_columns[s])
    posteriors *= weight


def _cyclic(posteriors, scores, finals, weights, sources, nexts, columns):
    probs, num_frames = np.exp(weights), len(scores)
    sums = np.zeros((num_frames + 1, len(finals)))
    sums[0, 0] = 1
    for t in range(num_frames):
        np.add.at(sums[t + 1], nexts, sums[t, sources] * probs * np.exp(scores[t, columns]))
    after, total = np.exp(-finals), sums[-1] @ np.exp(-finals)
    posteriors[...] = 0
    for t in range(num_frames - 1, -1, -1):
        arcs = probs * np.exp(scores[t, columns]) * after[nexts]
        np.add.at(posteriors[t], columns, sums[t, sources] * arcs / total)
        after = np.bincount(sources, arcs, len(finals))
    return float(np.log(total))
