"""The small matrices of the natural gradient's update, slowly: twins of ``nnet3py/ops/*/natural_gradient.py``."""
from __future__ import annotations

import numpy as np

EPSILON, DELTA, LARGEST_CONDITION = np.float32(1.0e-10), np.float32(5.0e-4), 1.0e6


def direction_lengths(d, rho, alpha, dim):
    """√e of the estimate (d, ρ): the lengths of the rows of W."""
    beta = rho * (1.0 + alpha) + alpha * d.sum(dtype=np.float64) / dim
    return np.sqrt(1.0 / (beta / d.astype(np.float64) + 1.0))


def natural_gradient_moments(z, scale, square, cross, spectrum, settings):
    num_rows, dim, eta, _, alpha = settings
    d, rho = spectrum[:-1], spectrum[-1]
    per_row, keep = eta / num_rows, 1.0 - eta
    inverse = 1.0 / direction_lengths(d, rho, alpha, dim)
    a = (d + rho).astype(np.float64)
    wide = 0.5 * per_row ** 2 * (square + square.T).astype(np.float64) * np.outer(inverse, inverse)
    crossing = (cross + cross.T).astype(np.float64) * np.add.outer(a, a)
    wide += 0.5 * per_row * keep * crossing * np.outer(inverse, inverse)
    wide[np.diag_indices_from(wide)] += keep ** 2 * a ** 2
    scale[0] = max(1.0, np.trace(wide))
    z[...] = wide / np.float64(scale[0])


def natural_gradient_directions(mix, kept, new_spectrum, lengths, verdict, eigenvalues, vectors, spectrum, scale,
                                settings, order):
    num_rows, dim, eta, size, alpha = settings
    d, rho = spectrum[:-1], spectrum[-1]
    per_row, keep = eta / num_rows, 1.0 - eta
    order[:] = np.argsort(-np.abs(eigenvalues), kind="stable")
    values = eigenvalues[order].astype(np.float64) * scale[0]
    floor = (rho * keep) ** 2
    roots = np.sqrt(np.maximum(values, floor))
    trace = per_row * size + keep * (dim * rho + d.sum(dtype=np.float64))
    new_rho = (trace - roots.sum()) / (dim - len(d))
    least = max(EPSILON, DELTA * roots.max())
    new_spectrum[:-1], new_spectrum[-1] = np.maximum(roots - new_rho, least), max(new_rho, least)
    lengths[:] = direction_lengths(new_spectrum[:-1], new_spectrum[-1], alpha, dim)
    mix[...] = (per_row * lengths / roots)[:, None] * vectors[order] / direction_lengths(d, rho, alpha, dim)
    kept[:] = keep / per_row * (d + rho)
    verdict[0] = (2 if not np.isfinite(roots).all()
                  else 1 if values[0] > LARGEST_CONDITION * values[-1] or (values < floor).any() else 0)


def preconditioned_size(cross, gram, size):
    return size - 2.0 * np.trace(cross, dtype=np.float64) + (cross.astype(np.float64) * gram).sum()
