"""The small matrices of the natural gradient's update on the GPU, each by one block.

The twins of ``ops/cpu/natural_gradient.py``, which says what ``spectrum`` and ``settings`` hold.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnet3py.ops import natural_gradient_formulas as formulas
from nnet3py.ops.cuda.launch import kernel
from nnet3py.ops.cuda.memory import results
from nnet3py.ops.cuda.reduce import MOST_THREADS, launch_square, max_over_block, sum_over_block
from nnet3py.ops.cuda.threads import (
    block_rows,
    cuda,
    device_function,
    is_first_of_block,
    places_in_block,
    row,
    team_columns,
)
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

ZERO, TWO, DOUBLE_ZERO = np.float32(0), np.float32(2), np.float64(0)
HALF, DOUBLE_ONE, DOUBLE_TWO = np.float64(0.5), np.float64(1), np.float64(2)

_bound = formulas.bind(device_function)
_smoothing, _direction_length, _moment = _bound.smoothing, _bound.direction_length, _bound.moment


@kernel("mat vec mat mat vec dvec", shape=launch_square)
def natural_gradient_moments(z, scale, square, cross, spectrum, settings):
    """``z`` = Z / ``scale``, the new estimate along the old directions; ``scale[0]`` is its trace, at least 1.

    ``square`` is J Jᵀ and ``cross`` W Jᵀ, with J the moment of rows and their projections.
    """
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    rank = z.shape[0]
    smoothing = _smoothing(spectrum, rank, settings)
    part = DOUBLE_ZERO
    for i in places_in_block(rank):
        part += _moment(i, i, smoothing, square, cross, spectrum, settings)
    total = sum_over_block(shared, part)
    divisor = np.float32(DOUBLE_ONE if total < DOUBLE_ONE else total)
    if is_first_of_block():
        scale[0] = divisor
    for i in block_rows(rank):
        target = row(z, i)
        for j in team_columns(rank):
            value = _moment(i, j, smoothing, square, cross, spectrum, settings)
            target[j] = np.float32(value / np.float64(divisor))


@device_function
def _sort_falling(order, values):
    """``order`` = the places of ``values`` by falling absolute value; equal ones stay in order.

    Each thread counts how many values come before its own. Values that are no numbers leave places out, which keep
    some place that exists.
    """
    for i in places_in_block(values.shape[0]):
        order[i] = np.int32(i)
    cuda.syncthreads()
    for i in places_in_block(values.shape[0]):
        size, before = abs(values[i]), 0
        for k in range(values.shape[0]):
            other = abs(values[k])
            if other > size or (other == size and k < np.int64(i)):
                before += 1
        order[before] = np.int32(i)
    cuda.syncthreads()


@device_function
def _find_roots(shared, roots, eigenvalues, order, scale, floor):
    """The roots of the eigenvalues, in falling order, their sum, and how many were below ``floor``."""
    total, below = ZERO, ZERO
    for i in places_in_block(eigenvalues.shape[0]):
        value = eigenvalues[order[i]] * scale
        roots[i] = np.float32(math.sqrt(value if value > floor else floor))
        total += roots[i] if math.isfinite(eigenvalues[i]) else eigenvalues[i] - eigenvalues[i]
        below += ONE if value < floor else ZERO
    return sum_over_block(shared, total), sum_over_block(shared, below)


@kernel("mat vec vec vec vec vec mat vec vec dvec ivec", shape=launch_square)
def natural_gradient_directions(mix, kept, new_spectrum, lengths, verdict, eigenvalues, vectors, spectrum, scale,
                                settings, order):
    """What makes the new W of J and the old W: W' = ``mix`` (J + diag(``kept``) W), and the new d and ρ.

    ``lengths`` are those of the rows of W'; ``verdict[0]`` is 1 if their orthogonality has to be checked, 2 if an
    eigenvalue is not finite, else 0. ``eigenvalues``, in any order, and the rows of ``vectors`` are those of Z / scale;
    ``order`` is work space.
    """
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    rank = eigenvalues.shape[0]
    keep, per_row = ONE - np.float32(settings[ETA]), np.float32(settings[ETA]) / np.float32(settings[NUM_ROWS])
    smoothing, rho = _smoothing(spectrum, rank, settings), spectrum[rank]
    _sort_falling(order, eigenvalues)
    largest, smallest = eigenvalues[order[0]] * scale[0], eigenvalues[order[rank - 1]] * scale[0]
    root_total, num_below = _find_roots(shared, lengths, eigenvalues, order, scale[0], (rho * keep) * (rho * keep))
    old_part, largest_root = ZERO, ZERO
    for i in places_in_block(rank):
        old_part += spectrum[i]
        largest_root = lengths[i] if lengths[i] > largest_root else largest_root
    old_total, largest_root = sum_over_block(shared, old_part), max_over_block(shared, largest_root)
    dim = np.float32(settings[DIM])
    trace = per_row * np.float32(settings[SIZE]) + keep * (dim * rho + old_total)
    new_rho = ONE / (dim - np.float32(rank)) * (trace - root_total)
    least = DELTA * largest_root
    least = EPSILON if least < EPSILON else least
    for i in places_in_block(rank):
        d = lengths[i] - new_rho
        new_spectrum[i] = d if d > least else least
        kept[i] = keep / per_row * (spectrum[i] + rho)
    if is_first_of_block():
        new_spectrum[rank] = new_rho if new_rho > least else least
        suspect = largest > LARGEST_CONDITION * smallest or num_below > ZERO
        verdict[0] = TWO if not math.isfinite(root_total) else ONE if suspect else ZERO
    cuda.syncthreads()
    new_smoothing = _smoothing(new_spectrum, rank, settings)
    for i in block_rows(rank):
        factor = per_row * _direction_length(new_spectrum[i], new_smoothing) / lengths[i]
        target, source = row(mix, i), row(vectors, order[i])
        for j in team_columns(rank):
            target[j] = factor * source[j] * (ONE / _direction_length(spectrum[j], smoothing))
    cuda.syncthreads()
    for i in places_in_block(rank):
        lengths[i] = _direction_length(new_spectrum[i], new_smoothing)


@kernel("dvec mat mat f64", over=1, shape=launch_square)
def _preconditioned_size(result, cross, gram, size):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    part = DOUBLE_ZERO
    for i in block_rows(cross.shape[0]):
        c, g = row(cross, i), row(gram, i)
        for j in team_columns(c.shape[0]):
            part += np.float64(c[j]) * np.float64(g[j])
            if j == i:
                part -= DOUBLE_TWO * np.float64(c[j])
    total = sum_over_block(shared, part)
    if is_first_of_block():
        result[0] = size + total


def preconditioned_size(cross: Any, gram: Any, size: float) -> float:
    """The sum of squares of rows after preconditioning, in float64; the host waits for it.

    ``size`` is that of before, ``cross`` the product PᵀP of their projections P = X Wᵀ, ``gram`` is W Wᵀ.
    """
    _preconditioned_size(results().place(1), cross, gram, size)
    return float(results().read(1)[0])
