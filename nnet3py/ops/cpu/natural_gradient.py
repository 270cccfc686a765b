"""The small matrices of the natural gradient's update on the CPU; ``components/natural_gradient.py`` has the algebra.

``spectrum`` holds the R values d and then ρ; ``settings`` the numbers of rows and columns, the forgetting factor η, the
rows' sum of squares and α, in the order of the constants below. Eigenvalues are those of Z / ``scale``. Kaldi:
``OnlineNaturalGradient::PreconditionDirectionsInternal``.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops import natural_gradient_formulas as formulas
from nnet3py.ops.cpu.jit import inline, kernel, row
from nnet3py.ops.natural_gradient_formulas import (
    DELTA,
    DIM,
    EPSILON,
    ETA,
    LARGEST_CONDITION,
    NUM_ROWS,
    ONE,
    SIZE,
)

_bound = formulas.bind(inline)
_smoothing, _direction_length, _moment = _bound.smoothing, _bound.direction_length, _bound.moment


@kernel("mat vec mat mat vec dvec")
def natural_gradient_moments(z, scale, square, cross, spectrum, settings):
    """``z`` = Z / ``scale``, the new estimate along the old directions; ``scale[0]`` is its trace, at least 1.

    ``square`` is J Jᵀ and ``cross`` W Jᵀ, with J the moment of rows and their projections.
    """
    rank, total = z.shape[0], 0.0
    smoothing = _smoothing(spectrum, rank, settings)
    for i in range(rank):
        total += _moment(i, i, smoothing, square, cross, spectrum, settings)
    scale[0] = np.float32(max(1.0, total))
    for i in range(rank):
        for j in range(rank):
            z[i, j] = np.float32(_moment(i, j, smoothing, square, cross, spectrum, settings) / np.float64(scale[0]))


@inline
def _sort_falling(order, values):
    """``order`` = the places of ``values`` by falling absolute value; equal ones stay in order."""
    for i in range(values.shape[0]):
        k = i
        while k > 0 and abs(values[order[k - 1]]) < abs(values[i]):
            order[k] = order[k - 1]
            k -= 1
        order[k] = i


@kernel("mat vec vec vec vec vec mat vec vec dvec ivec")
def natural_gradient_directions(mix, kept, new_spectrum, lengths, verdict, eigenvalues, vectors, spectrum, scale,
                                settings, order):
    """What makes the new W of J and the old W: W' = ``mix`` (J + diag(``kept``) W), and the new d and ρ.

    ``lengths`` are those of the rows of W'; ``verdict[0]`` is 1 if their orthogonality has to be checked, 2 if an
    eigenvalue is not finite, else 0. ``eigenvalues``, in any order, and the rows of ``vectors`` are those of Z / scale;
    ``order`` is work space.
    """
    rank = eigenvalues.shape[0]
    keep, per_row = ONE - np.float32(settings[ETA]), np.float32(settings[ETA]) / np.float32(settings[NUM_ROWS])
    smoothing, rho = _smoothing(spectrum, rank, settings), spectrum[rank]
    _sort_falling(order, eigenvalues)
    floor = (rho * keep) * (rho * keep)
    largest, smallest = eigenvalues[order[0]] * scale[0], eigenvalues[order[rank - 1]] * scale[0]
    suspect = largest > LARGEST_CONDITION * smallest
    old_total, root_total, largest_root = np.float32(0), np.float32(0), np.float32(0)
    for i in range(rank):
        value = eigenvalues[order[i]] * scale[0]
        suspect = suspect or value < floor
        lengths[i] = np.float32(math.sqrt(value if value > floor else floor))     # for now, the roots
        old_total += spectrum[i]
        root_total += lengths[i]
        largest_root = max(largest_root, lengths[i])
    dim = np.float32(settings[DIM])
    trace = per_row * np.float32(settings[SIZE]) + keep * (dim * rho + old_total)
    new_rho = ONE / (dim - np.float32(rank)) * (trace - root_total)
    least = max(EPSILON, DELTA * largest_root)
    for i in range(rank):
        d = lengths[i] - new_rho
        new_spectrum[i] = d if d > least else least
    new_spectrum[rank] = new_rho if new_rho > least else least
    new_smoothing = _smoothing(new_spectrum, rank, settings)
    for i in range(rank):
        length = _direction_length(new_spectrum[i], new_smoothing)
        factor = per_row * length / lengths[i]
        lengths[i] = length
        target, source = row(mix, i), row(vectors, order[i])
        for j in range(rank):
            target[j] = factor * source[j] * (ONE / _direction_length(spectrum[j], smoothing))
    for i in range(rank):
        kept[i] = keep / per_row * (spectrum[i] + rho)
    verdict[0] = np.float32(2) if not math.isfinite(root_total) else ONE if suspect else np.float32(0)


@kernel("mat mat f64", reassociate=True)
def preconditioned_size(cross, gram, size):
    """The sum of squares of rows after preconditioning, in float64.

    ``size`` is that of before, ``cross`` the product PᵀP of their projections P = X Wᵀ, ``gram`` is W Wᵀ.
    """
    total = 0.0
    for i in range(cross.shape[0]):
        total -= 2.0 * np.float64(cross[i, i])
        c, g = row(cross, i), row(gram, i)
        for j in range(c.shape[0]):
            total += np.float64(c[j]) * np.float64(g[j])
    return size + total
