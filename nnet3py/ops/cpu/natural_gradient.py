"""The small matrices of the natural gradient's update on the CPU; ``components/natural_gradient.py`` has the algebra.

``spectrum`` (R + 1,) holds the R values d and then ρ of the estimate F = Qᵀ diag(d) Q + ρ I.
``ops/formulas/updates.py`` describes ``numbers``; ``eta`` is the forgetting factor, ``alpha`` the smoothing factor.
Kaldi: ``OnlineNaturalGradient::PreconditionDirectionsInternal``.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.inline import get_double, set_double, stack_doubles, stack_vector
from nnet3py.engine.jit import inline, row, segment
from nnet3py.engine.numba_target import njit
from nnet3py.engine.team_code import CHUNKS_PER_THREAD, address_of, part_address, share
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.cpu.reductions import BLOCKS, sum_all_products
from nnet3py.ops.formulas import updates as formulas
from nnet3py.ops.formulas.updates import (
    DELTA,
    EPSILON,
    LARGEST_CONDITION,
    ONE,
    REST,
    SIZE,
    SUSPECT,
    TRACE,
    WANTED,
    ZERO,
)

COLUMNS = 256       # columns of a row that are preconditioned at a time: they fit in the first-level cache

_smoothing, _direction_length, _moment = map(formula, (
    formulas.smoothing, formulas.direction_length, formulas.moment))
_factor, _put_difference, _fault = map(formula, (formulas.factor, formulas.put_difference, formulas.fault))


# -- sizes and the factor ----------------------------------------------------------------------------------------------


@operation(reassociate=True)
def natural_gradient_size(numbers, x, more, further):
    total = sum_all_products(x, x)
    numbers[SIZE] = (numbers[SIZE] + total if further else total) + more


@operation(reassociate=True)
def natural_gradient_rest(numbers, x):
    numbers[REST] = sum_all_products(x, x)


@operation(reassociate=True)
def preconditioned_size(numbers, cross, gram):
    total = 0.0
    for i in range(cross.shape[0]):
        total -= 2.0 * np.float64(cross[i, i])
        c, g = row(cross, i), row(gram, i)
        for j in range(c.shape[0]):
            total += np.float64(c[j]) * np.float64(g[j])
    _put_difference(numbers, numbers[SIZE] + total)


@njit(fastmath={"reassoc", "nsz"})
def _sum_block_rests(first, last, sums, x, projected, w, start, ones):
    buffer = stack_vector(COLUMNS)
    for block in range(first, last):
        total = 0.0
        for i in range(block * x.shape[0] // BLOCKS, (block + 1) * x.shape[0] // BLOCKS):
            along = row(projected, i)
            for begin in range(0, x.shape[1], COLUMNS):
                end = min(begin + COLUMNS, x.shape[1])
                part = buffer[:end - begin]
                source = segment(x, i, begin, end)
                for j in range(part.shape[0]):
                    part[j] = source[j]
                for r in range(along.shape[0]):
                    direction = segment(w, r, start + begin, start + end)
                    for j in range(part.shape[0]):
                        part[j] -= along[r] * direction[j]
                for j in range(part.shape[0]):
                    total += np.float64(part[j]) * np.float64(part[j])
            if ones:
                value = ONE
                for r in range(along.shape[0]):
                    value -= along[r] * w[r, w.shape[1] - 1]
                total += np.float64(value) * np.float64(value)
        set_double(sums + block * 8, total)


@operation()
def exact_size(numbers, x, projected, w, start, ones):
    if numbers[WANTED] == 0.0:
        return
    sums = stack_doubles(BLOCKS)
    arguments = (sums, x, projected, w, start, ones)
    share(part_address(_sum_block_rests, arguments), address_of(arguments), BLOCKS,
          x.size * projected.shape[1] // BLOCKS + 1, 1, CHUNKS_PER_THREAD)
    for block in range(BLOCKS):
        numbers[REST] += get_double(sums + block * 8)


@operation()
def natural_gradient_factor(factor, inner, outer, rate, both):
    total = _factor(inner)
    if both:
        total *= _factor(outer)
    factor[0] = np.float32(total * rate)


@operation()
def natural_gradient_fault(numbers):
    return _fault(numbers[SIZE], numbers[TRACE])


# -- the update --------------------------------------------------------------------------------------------------------


@inline
def _put_inverse_lengths(inverse, spectrum, rank, smoothing):
    for i in range(rank):
        inverse[i] = ONE / _direction_length(spectrum[i], smoothing)


@operation()
def natural_gradient_moments(z, numbers, inverse, square, cross, spectrum, num_rows, dim, eta, alpha):
    rank, total = z.shape[0], 0.0
    _put_inverse_lengths(inverse, spectrum, rank, _smoothing(spectrum, rank, dim, alpha))
    for i in range(rank):
        total += _moment(i, i, inverse, square, cross, spectrum, num_rows, eta)
    scale = np.float64(np.float32(1.0 if total < 1.0 else total))
    numbers[TRACE] = scale
    for i in range(rank):
        for j in range(rank):
            z[i, j] = np.float32(_moment(i, j, inverse, square, cross, spectrum, num_rows, eta) / scale)


@inline
def _sort_falling(order, values):
    """Set ``order`` to the permutation that sorts ``values`` by descending absolute value; stable."""
    for i in range(values.shape[0]):
        k = i
        while k > 0 and abs(values[int(order[k - 1])]) < abs(values[i]):
            order[k] = order[k - 1]
            k -= 1
        order[k] = np.float32(i)


@operation()
def natural_gradient_directions(mix, kept, lengths, spectrum, numbers, order, inverse, eigenvalues, vectors, num_rows,
                                dim, eta, alpha):
    rank = eigenvalues.shape[0]
    scale = np.float32(numbers[TRACE])
    keep, per_row = ONE - np.float32(eta), np.float32(eta) / np.float32(num_rows)
    rho = spectrum[rank]
    _sort_falling(order, eigenvalues)
    floor = (rho * keep) * (rho * keep)
    largest, smallest = eigenvalues[int(order[0])] * scale, eigenvalues[int(order[rank - 1])] * scale
    suspect = largest > LARGEST_CONDITION * smallest
    old_total, root_total, largest_root = ZERO, ZERO, ZERO
    for i in range(rank):
        value = eigenvalues[int(order[i])] * scale
        suspect = suspect or value < floor
        lengths[i] = np.float32(math.sqrt(value if value > floor else floor))     # roots; lengths from the last loop on
        old_total += spectrum[i]
        root_total += value if not math.isfinite(value) else lengths[i]
        largest_root = max(largest_root, lengths[i])
        kept[i] = keep / per_row * (spectrum[i] + rho)
    trace = per_row * np.float32(numbers[SIZE]) + keep * (np.float32(dim) * rho + old_total)
    new_rho = ONE / (np.float32(dim) - np.float32(rank)) * (trace - root_total)
    least = max(EPSILON, DELTA * largest_root)
    for i in range(rank):
        d = lengths[i] - new_rho
        spectrum[i] = d if d > least else least
    spectrum[rank] = new_rho if new_rho > least else least
    smoothing = _smoothing(spectrum, rank, dim, alpha)
    for i in range(rank):
        length = _direction_length(spectrum[i], smoothing)
        factor = per_row * length / lengths[i]
        lengths[i] = length
        target, source = row(mix, i), row(vectors, int(order[i]))
        for j in range(rank):
            target[j] = factor * source[j] * inverse[j]
    numbers[SUSPECT] = 1.0 if suspect else 0.0
    if not math.isfinite(root_total):
        numbers[TRACE] = np.nan
