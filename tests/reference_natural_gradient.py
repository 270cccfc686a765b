"""The natural gradient's sizes and small matrices, slowly: those of ``nnet3py/ops/*/natural_gradient.py``."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cpu.plain import orthonormalize_rows

SIZE, REST, WANTED, TRACE, SUSPECT = range(5)
EPSILON, DELTA, LARGEST_CONDITION = np.float32(1.0e-10), np.float32(5.0e-4), 1.0e6


def direction_lengths(d, rho, alpha, dim):
    """√e of the estimate (d, ρ): the lengths of the rows of W."""
    beta = rho * (1.0 + alpha) + alpha * d.sum(dtype=np.float64) / dim
    return np.sqrt(1.0 / (beta / d.astype(np.float64) + 1.0))


def natural_gradient_size(numbers, x, more, further):
    numbers[SIZE] = (x.astype(np.float64) ** 2).sum() + more + (numbers[SIZE] if further else 0.0)


def natural_gradient_rest(numbers, x):
    numbers[REST] = (x.astype(np.float64) ** 2).sum()


def preconditioned_size(numbers, cross, gram):
    rest = numbers[SIZE] - 2.0 * np.trace(cross, dtype=np.float64) + (cross.astype(np.float64) * gram).sum()
    wanted = numbers[SIZE] > 0 and not rest > 0.01 * numbers[SIZE]
    numbers[REST], numbers[WANTED] = (0.0, 1.0) if wanted else (rest, 0.0)


def exact_size(numbers, x, projected, w, start, ones):
    if numbers[WANTED]:
        whole = np.hstack([x, np.ones((len(x), 1), x.dtype)]) if ones else x
        columns = [*range(start, start + x.shape[1])] + ([-1] if ones else [])
        numbers[REST] += ((whole - projected @ w[:, columns]).astype(np.float64) ** 2).sum()


def natural_gradient_factor(factor, inner, outer, rate, both):
    factor[0] = rate
    for numbers in (inner, outer)[:1 + both]:
        if natural_gradient_fault(numbers):
            factor[0] = 0.0
            break
        elif numbers[SIZE] > 0:
            factor[0] *= np.sqrt(numbers[SIZE] / numbers[REST]) if numbers[REST] > 0 else np.inf


def natural_gradient_fault(numbers):
    return 1 if not numbers[SIZE] < 1e38 else 2 if not np.isfinite(numbers[TRACE]) else 0


def add_mat_by(dst, src, factor):
    if factor[0]:
        dst += factor[0] * src


def add_mat_mat_by(dst, a, b, factor):
    if factor[0]:
        dst += factor[0] * (a.T @ b)


def add_row_sum_by(dst, src, factor):
    if factor[0]:
        dst += factor[0] * src.sum(axis=0)


def orthogonalize(w, gram, square, moment, lengths, numbers):
    """By LAPACK: the same span row by row, and random rows where there is nothing new."""
    if not numbers[SUSPECT] or not np.isfinite(numbers[TRACE]):
        return
    if np.abs(gram / np.outer(lengths, lengths) - np.eye(len(w))).max() <= 1e-3:
        return
    orthonormalize_rows(w)
    w *= lengths[:, None]
    gram[...] = w @ w.T


def natural_gradient_moments(z, numbers, inverse, square, cross, spectrum, num_rows, dim, eta, alpha):
    d, rho = spectrum[:-1], spectrum[-1]
    per_row, keep = eta / num_rows, 1.0 - eta
    inverse[:] = 1.0 / direction_lengths(d, rho, alpha, dim)
    scales = np.outer(inverse, inverse).astype(np.float64)
    a = (d + rho).astype(np.float64)
    wide = 0.5 * per_row ** 2 * (square + square.T).astype(np.float64) * scales
    wide += 0.5 * per_row * keep * (cross + cross.T).astype(np.float64) * np.add.outer(a, a) * scales
    wide[np.diag_indices_from(wide)] += keep ** 2 * a ** 2
    numbers[TRACE] = np.float32(np.maximum(1.0, np.trace(wide)))
    z[...] = wide / numbers[TRACE]


def natural_gradient_directions(mix, kept, lengths, spectrum, numbers, order, inverse, eigenvalues, vectors, num_rows,
                                dim, eta, alpha):
    d, rho = spectrum[:-1].copy(), spectrum[-1]
    per_row, keep = eta / num_rows, 1.0 - eta
    order[:] = np.argsort(-np.abs(eigenvalues), kind="stable")
    falling = order.astype(int)
    values = eigenvalues[falling].astype(np.float64) * numbers[TRACE]
    floor = (rho * keep) ** 2
    roots = np.sqrt(np.maximum(values, floor))
    trace = per_row * numbers[SIZE] + keep * (dim * rho + d.sum(dtype=np.float64))
    new_rho = (trace - roots.sum()) / (dim - len(d))
    least = max(EPSILON, DELTA * roots.max())
    spectrum[:-1], spectrum[-1] = np.maximum(roots - new_rho, least), max(new_rho, least)
    lengths[:] = direction_lengths(spectrum[:-1], spectrum[-1], alpha, dim)
    mix[...] = (per_row * lengths / roots)[:, None] * vectors[falling] * inverse
    kept[:] = keep / per_row * (d + rho)
    numbers[SUSPECT] = values[0] > LARGEST_CONDITION * values[-1] or (values < floor).any()
    if not np.isfinite(roots).all():
        numbers[TRACE] = np.nan
