"""Norms and small matrices of the natural gradient's preconditioners on the GPU; a block computes a whole matrix.

``ops/cpu/natural_gradient.py`` describes the arguments. Only ``natural_gradient_fault`` copies numbers to the host.
"""
from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda.launch import Shape, kernel, operation
from nnet3py.ops.cuda.memory import results, stream, touch_host, upload
from nnet3py.ops.cuda.threads import (
    MOST_PARTS,
    MOST_THREADS,
    block_rows,
    cuda,
    device_function,
    formula,
    is_first_of_block,
    launch_block,
    launch_parts,
    launch_square,
    max_over_block,
    own_columns,
    own_rows,
    places_in_block,
    row,
    sum_over_block,
    team_columns,
)
from nnet3py.ops.formulas import updates as formulas
from nnet3py.ops.formulas.updates import (
    DELTA,
    DOUBLE_ONE,
    DOUBLE_ZERO,
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
from nnet3py.ops.table import documented

_local = threading.local()
DOUBLE_TWO, NOT_A_NUMBER = np.float64(2), np.float64(np.nan)

_smoothing, _direction_length, _moment = map(formula, (
    formulas.smoothing, formulas.direction_length, formulas.moment))
_factor, _put_difference = formula(formulas.factor), formula(formulas.put_difference)


# -- sizes and the factor ----------------------------------------------------------------------------------------------


@kernel("dvec mat", over=1, shape=launch_parts)
def _sums_of_squares(parts, x):
    """Set ``parts[k]`` to the sum of squares of the elements that block k of threads reads."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    part = DOUBLE_ZERO
    for i in own_rows(x.shape[0]):
        source = row(x, i)
        for j in own_columns(source.shape[0]):
            part += np.float64(source[j]) * np.float64(source[j])
    whole = sum_over_block(shared, part)
    if is_first_of_block():
        parts[cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x] = whole


@kernel("dvec int dvec f64 bool", shape=launch_block)
def _put_sum(numbers, place, parts, more, further):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    part = DOUBLE_ZERO
    for k in places_in_block(parts.shape[0]):
        part += parts[k]
    whole = sum_over_block(shared, part)
    if is_first_of_block():
        numbers[place] = (numbers[place] + whole if further else whole) + more


def _put_sum_of_squares(numbers: Any, place: int, x: Any, more: float, further: bool) -> None:
    shape, parts = _parts(*x.shape)
    _sums_of_squares.launch(shape, parts, x)
    _put_sum(numbers, place, parts, more, further)


def _parts(rows: int, cols: int) -> tuple[Shape, Any]:
    """Return grid and block for a sum over a matrix, and a float64 device array with an element for each block."""
    shape = launch_parts(max(rows, 1), max(cols, 1))
    return shape, results().place(MOST_PARTS)[:shape[0][0] * shape[0][1]]


@documented
def natural_gradient_size(numbers: DeviceArray, x: DeviceArray, more: float, further: bool) -> None:
    _put_sum_of_squares(numbers, SIZE, x, more, further)


@documented
def natural_gradient_rest(numbers: DeviceArray, x: DeviceArray) -> None:
    _put_sum_of_squares(numbers, REST, x, 0.0, False)


@operation(over=1, shape=launch_square)
def preconditioned_size(numbers, cross, gram):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    part = DOUBLE_ZERO
    for i in block_rows(cross.shape[0]):
        c, g = row(cross, i), row(gram, i)
        for j in team_columns(c.shape[0]):
            part += np.float64(c[j]) * np.float64(g[j])
            if np.int64(j) == i:
                part -= DOUBLE_TWO * np.float64(c[j])
    whole = sum_over_block(shared, part)
    if is_first_of_block():
        _put_difference(numbers, numbers[SIZE] + whole)


@kernel("dvec dvec mat mat mat int bool", over=2, shape=launch_parts)
def _sums_of_rests(parts, numbers, x, projected, w, start, ones):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    if numbers[WANTED] == DOUBLE_ZERO:
        return
    part, last = DOUBLE_ZERO, w.shape[1] - 1
    for i in own_rows(x.shape[0]):
        source, along = row(x, i), row(projected, i)
        for j in own_columns(source.shape[0]):
            value = source[j]
            for r in range(along.shape[0]):
                value -= along[r] * w[r, start + np.int64(j)]
            part += np.float64(value) * np.float64(value)
            if ones and j == np.uint64(0):
                value = ONE
                for r in range(along.shape[0]):
                    value -= along[r] * w[r, last]
                part += np.float64(value) * np.float64(value)
    whole = sum_over_block(shared, part)
    if is_first_of_block():
        parts[cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x] = whole


@kernel("dvec dvec", shape=launch_block)
def _add_rests(numbers, parts):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    if numbers[WANTED] == DOUBLE_ZERO:
        return
    part = DOUBLE_ZERO
    for k in places_in_block(parts.shape[0]):
        part += parts[k]
    whole = sum_over_block(shared, part)
    if is_first_of_block():
        numbers[REST] += whole


@documented
def exact_size(numbers: DeviceArray, x: DeviceArray, projected: DeviceArray, w: DeviceArray, start: int,
               ones: bool) -> None:
    shape, parts = _parts(*x.shape)
    _sums_of_rests.launch(shape, parts, numbers, x, projected, w, start, ones)
    _add_rests(numbers, parts)


@kernel("vec dvec dvec dvec f64 bool", shape=launch_block)
def _put_factor(factor, failures, inner, outer, rate, both):
    if is_first_of_block():
        value = _factor(inner)
        if both:
            value *= _factor(outer)
        factor[0] = np.float32(value * rate)
        if value == DOUBLE_ZERO:
            failures[0] += DOUBLE_ONE


# factors of 0, for rows that cannot be preconditioned, are counted
@documented
def natural_gradient_factor(factor: DeviceArray, inner: DeviceArray, outer: DeviceArray, rate: float,
                            both: bool) -> None:
    _put_factor(factor, natural_gradient_failures(), inner, outer, rate, both)


def natural_gradient_failures() -> Any:
    """Return the count of factors that this thread's operations set to 0: float64 (1,), in device memory."""
    failures = _local.__dict__.get("failures")
    if failures is None:
        failures = _local.failures = upload(np.zeros(1))
    return failures


@documented
def natural_gradient_fault(numbers: Any) -> int:
    touch_host()
    host = np.empty(numbers.shape)
    numbers.copy_to_host(host, stream=stream())
    stream().synchronize()
    return formulas.fault(host[SIZE], host[TRACE])


# -- the update --------------------------------------------------------------------------------------------------------


@device_function
def _put_inverse_lengths(inverse, spectrum, rank, smoothing):
    for i in places_in_block(rank):
        inverse[i] = ONE / _direction_length(spectrum[i], smoothing)
    cuda.syncthreads()


@operation(shape=launch_square)
def natural_gradient_moments(z, numbers, inverse, square, cross, spectrum, num_rows, dim, eta, alpha):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    rank = z.shape[0]
    _put_inverse_lengths(inverse, spectrum, rank, _smoothing(spectrum, rank, dim, alpha))
    part = DOUBLE_ZERO
    for i in places_in_block(rank):
        part += _moment(i, i, inverse, square, cross, spectrum, num_rows, eta)
    whole = sum_over_block(shared, part)
    scale = np.float64(np.float32(DOUBLE_ONE if whole < DOUBLE_ONE else whole))
    if is_first_of_block():
        numbers[TRACE] = scale
    for i in block_rows(rank):
        target = row(z, i)
        for j in team_columns(rank):
            target[j] = np.float32(_moment(i, j, inverse, square, cross, spectrum, num_rows, eta) / scale)


@device_function
def _sort_falling(order, values):
    """Set ``order`` to the permutation that sorts ``values`` by descending absolute value; stable.

    Each thread counts the values that come before its own. With NaN among the values, ``order`` is not a permutation,
    but all its elements are valid indexes.
    """
    for i in places_in_block(values.shape[0]):
        order[i] = np.float32(i)
    cuda.syncthreads()
    for i in places_in_block(values.shape[0]):
        size, before = abs(values[i]), 0
        for k in range(values.shape[0]):
            other = abs(values[k])
            if other > size or (other == size and k < np.int64(i)):
                before += 1
        order[before] = np.float32(i)
    cuda.syncthreads()


@device_function
def _find_roots(shared, roots, eigenvalues, order, scale, floor):
    """Set ``roots`` to the square roots of the eigenvalues times ``scale``, floored at ``floor``, in ``order``.

    Returns the sum of the roots, which is not finite if an eigenvalue is not, and the number of values below the floor.
    """
    whole, below = ZERO, ZERO
    for i in places_in_block(eigenvalues.shape[0]):
        value = eigenvalues[int(order[i])] * scale
        roots[i] = np.float32(math.sqrt(value if value > floor else floor))
        whole += roots[i] if math.isfinite(eigenvalues[i]) else eigenvalues[i]
        below += ONE if value < floor else ZERO
    return sum_over_block(shared, whole), sum_over_block(shared, below)


@operation(shape=launch_square)
def natural_gradient_directions(mix, kept, lengths, spectrum, numbers, order, inverse, eigenvalues, vectors, num_rows,
                                dim, eta, alpha):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    rank = eigenvalues.shape[0]
    scale, size = np.float32(numbers[TRACE]), np.float32(numbers[SIZE])
    keep, per_row = ONE - np.float32(eta), np.float32(eta) / np.float32(num_rows)
    rho = spectrum[rank]
    _sort_falling(order, eigenvalues)
    largest, smallest = eigenvalues[int(order[0])] * scale, eigenvalues[int(order[rank - 1])] * scale
    root_total, num_below = _find_roots(shared, lengths, eigenvalues, order, scale, (rho * keep) * (rho * keep))
    old_part, largest_root = ZERO, ZERO
    for i in places_in_block(rank):
        old_part += spectrum[i]
        largest_root = lengths[i] if lengths[i] > largest_root else largest_root
    old_total, largest_root = sum_over_block(shared, old_part), max_over_block(shared, largest_root)
    trace = per_row * size + keep * (np.float32(dim) * rho + old_total)
    new_rho = ONE / (np.float32(dim) - np.float32(rank)) * (trace - root_total)
    least = DELTA * largest_root
    least = EPSILON if least < EPSILON else least
    for i in places_in_block(rank):
        kept[i] = keep / per_row * (spectrum[i] + rho)
        d = lengths[i] - new_rho
        spectrum[i] = d if d > least else least
    if is_first_of_block():
        spectrum[rank] = new_rho if new_rho > least else least
        numbers[SUSPECT] = DOUBLE_ONE if largest > LARGEST_CONDITION * smallest or num_below > ZERO else DOUBLE_ZERO
        if not math.isfinite(root_total):
            numbers[TRACE] = NOT_A_NUMBER
    cuda.syncthreads()
    smoothing = _smoothing(spectrum, rank, dim, alpha)
    for i in block_rows(rank):
        factor = per_row * _direction_length(spectrum[i], smoothing) / lengths[i]
        target, source = row(mix, i), row(vectors, int(order[i]))
        for j in team_columns(rank):
            target[j] = factor * source[j] * inverse[j]
    cuda.syncthreads()
    for i in places_in_block(rank):
        lengths[i] = _direction_length(spectrum[i], smoothing)
