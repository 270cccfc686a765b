"""Small matrices on the GPU, by one block of threads: eigenvectors, orthogonalization, the orthonormal constraint.

The operations are those of ``ops/cpu/small_matrices.py``. Eigenvalues are found by the textbook method: Householder
reflections to tridiagonal form, then QR steps with Wilkinson's shift (Golub and Van Loan, Matrix Computations, 8.3).
Threads share the computations on whole matrices; the rotations of a QR step, of which each depends on the one before,
are computed by one thread, and then applied by all. Orthogonalization is rare, so its code is simple rather than fast.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cuda.launch import operation
from nnet3py.ops.cuda.threads import (
    MOST_THREADS,
    block_rows,
    cuda,
    device_function,
    formula,
    is_first_of_block,
    launch_square,
    max_over_block,
    places_in_block,
    row,
    sum_down_column,
    sum_over_block,
    team_columns,
)
from nnet3py.ops.formulas import random as formulas
from nnet3py.ops.formulas.updates import (
    LARGEST_INVERSE_FACTOR,
    ORTHOGONALITY,
    SUSPECT,
    TRACE,
    orthonormal_move,
)

# -- eigenvalues -------------------------------------------------------------------------------------------------------


# The matrix is scaled to a largest element near 1. An element beside the diagonal is set to 0 if it is at most
PRECISION = np.float32(2.0**-23)       # ... this times the sum of its neighbors on the diagonal,
NEGLIGIBLE = np.float32(2.0**-100)     # ... or this,
SMALLEST_SQUARE = np.float32(1.0e-30)  # smallest square that is not rounded to few digits
MOST_STEPS = 30                        # QR steps for each eigenvalue; two or three are usual
COARSE = np.float32(2.0**-24)          # ... or, after half of the steps, this: not more than the rounding errors
FIRST, LAST = range(2)                 # indexes into ``control``: the rows that a QR step works on
ZERO, HALF, ONE, TWO, DOUBLE_ZERO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2), np.float64(0)
NOT_A_NUMBER = np.float32(np.nan)


@device_function
def _root(value):
    return np.float32(math.sqrt(value))


@device_function
def _scaled(value, exponent):
    """Return ``value`` times 2^``exponent``, which is exact."""
    return np.float32(math.ldexp(value, exponent))


@device_function
def _exponent(value):
    """Return the exponent of the smallest power of two above ``value``; 0 for 0."""
    return math.frexp(value)[1] if value > ZERO else 0


@device_function
def _reflector(shared, x, count, v):
    """Compute the Householder reflection I - b v vᵀ that maps ``x`` (``count``,) to (0, …, 0, |x|).

    Sets ``v``, whose last element is 1; returns b and |x|. If only the last element of x is not 0, returns b = 0 and
    that element, with its sign.
    """
    last, largest = count - 1, ZERO
    for i in places_in_block(count):
        largest = abs(x[i]) if abs(x[i]) > largest else largest
    exponent = _exponent(max_over_block(shared, largest))      # without scaling, squares could underflow
    part = ZERO
    for i in places_in_block(last):
        value = _scaled(x[i], -exponent)
        part += value * value
    rest = sum_over_block(shared, part)
    if rest == ZERO:
        return ZERO, x[last]
    end = _scaled(x[last], -exponent)
    size = _root(end * end + rest)
    pivot = end - size if end <= ZERO else -rest / (end + size)
    square = pivot * pivot
    if square > SMALLEST_SQUARE:
        b = TWO * square / (rest + square)
    else:
        b = TWO / (ONE + (end + size) * ((end + size) / rest))
    scale = ONE / pivot
    for i in places_in_block(last):
        v[i] = _scaled(x[i], -exponent) * scale
    if is_first_of_block():
        v[last] = ONE
    cuda.syncthreads()
    return b, _scaled(size, exponent)


@device_function
def _weighted_row_sum(shared, matrix, weights, count, dst, cols):
    """Set ``dst[j]`` to the sum over i below ``count`` of ``weights[i] matrix[i, j]``."""
    for first in range(0, cols, cuda.blockDim.x):
        j, part = first + cuda.threadIdx.x, ZERO
        if j < cols:
            for i in block_rows(count):
                part += weights[i] * row(matrix, i)[j]
        total = sum_down_column(shared, part)
        if j < cols and cuda.threadIdx.y == 0:
            dst[j] = total
    cuda.syncthreads()


@device_function
def _tridiagonalize(shared, a, vectors, diagonal, beside, v, p):
    """Reduce the symmetric ``a`` to tridiagonal T with a = vectorsᵀ T vectors, from the last row upwards.

    T is returned in ``diagonal`` and ``beside``; ``a`` is overwritten, ``v`` and ``p`` are work space.
    """
    n = a.shape[0]
    for i in block_rows(n):
        target = row(vectors, i)
        for j in team_columns(n):
            target[j] = ONE if np.int64(j) == i else ZERO
    for k in range(n - 1, 0, -1):
        b, norm = _reflector(shared, row(a, k), k, v)
        if is_first_of_block():
            beside[k - 1] = norm
            diagonal[k] = a[k, k]
        if b == ZERO:
            continue
        _weighted_row_sum(shared, a, v, k, p, k)      # the matrix is symmetric
        part = ZERO
        for i in places_in_block(k):
            part += b * p[i] * v[i]
        half = HALF * b * sum_over_block(shared, part)
        for i in places_in_block(k):
            p[i] = b * p[i] - half * v[i]
        cuda.syncthreads()
        for i in block_rows(k):
            target = row(a, i)
            for j in team_columns(k):
                target[j] -= v[i] * p[j] + p[i] * v[j]
        cuda.syncthreads()
        _weighted_row_sum(shared, vectors, v, k, p, n)
        for i in block_rows(k):
            target, factor = row(vectors, i), b * v[i]
            for j in team_columns(n):
                target[j] -= factor * p[j]
        cuda.syncthreads()
    if is_first_of_block():
        diagonal[0] = a[0, 0]
    cuda.syncthreads()


@device_function
def _rotation(x, z):
    """Return cosine and sine of the rotation that turns (x, z) into (r, 0)."""
    if z == ZERO:
        return ONE, ZERO
    if abs(z) > abs(x):
        ratio = -x / z
        s = ONE / _root(ONE + ratio * ratio)
        return s * ratio, s
    ratio = -z / x
    c = ONE / _root(ONE + ratio * ratio)
    return c, c * ratio


@device_function
def _find_rotations(diagonal, beside, first, last, cosines, sines):
    """Make a QR step on rows ``first`` to ``last`` of the tridiagonal matrix; called by a single thread.

    Sets ``cosines`` and ``sines`` to the rotations, which must then be applied to the eigenvectors.
    """
    half, corner = (diagonal[last - 1] - diagonal[last]) * HALF, beside[last - 1]
    exponent = _exponent(abs(half) if abs(half) > abs(corner) else abs(corner))
    half, corner = _scaled(half, -exponent), _scaled(corner, -exponent)      # as in _reflector
    root = _root(half * half + corner * corner)
    shift = diagonal[last] - _scaled(corner * corner / (half + root if half >= ZERO else half - root), exponent)
    x, z = diagonal[first] - shift, beside[first]
    for k in range(first, last):
        c, s = _rotation(x, z)
        p, q, r = diagonal[k], beside[k], diagonal[k + 1]
        cc, ss, cs = c * c, s * s, c * s
        if k > first:
            beside[k - 1] = c * x - s * z
        diagonal[k] = cc * p - TWO * cs * q + ss * r
        diagonal[k + 1] = ss * p + TWO * cs * q + cc * r
        beside[k] = cs * (p - r) + (cc - ss) * q
        cosines[k], sines[k] = c, s
        if k < last - 1:
            x, z = beside[k], -s * beside[k + 1]
            beside[k + 1] *= c


@device_function
def _find_part(control, diagonal, beside):
    """Set ``control`` to the first and last row of the block of the tridiagonal matrix for the next QR step.

    The last row is 0 if the matrix is diagonal, that is, if the method has converged.
    """
    last = control[LAST]
    while last > 0 and beside[last - 1] == ZERO:
        last -= 1
    first = last - 1
    while first > 0 and beside[first - 1] != ZERO:
        first -= 1
    control[FIRST], control[LAST] = first, last


@operation(over=2, shape=launch_square)
def symmetric_eigen(values, vectors, matrix, work):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    control = cuda.shared.array(2, np.int64)
    n = matrix.shape[0]
    beside, v, p = row(work, 0), row(work, 1), row(work, 2)
    largest = ZERO
    for i in block_rows(n):
        for j in team_columns(n):
            value = abs(row(matrix, i)[j])
            largest = value if value > largest else largest
    exponent = _exponent(max_over_block(shared, largest))
    for i in block_rows(n):
        source = row(matrix, i)
        for j in team_columns(n):
            source[j] = _scaled(source[j], -exponent)
    if is_first_of_block():
        control[FIRST], control[LAST] = 0, n - 1
    cuda.syncthreads()
    _tridiagonalize(shared, matrix, vectors, values, beside, v, p)
    nothing = NEGLIGIBLE
    for step in range(MOST_STEPS * n):
        if 2 * step == MOST_STEPS * n:      # elements of very different sizes, for which rotations round to nothing
            nothing = COARSE
        for i in places_in_block(n - 1):
            size = abs(beside[i])
            if size <= PRECISION * (abs(values[i]) + abs(values[np.int64(i) + 1])) or size <= nothing:
                beside[i] = ZERO
        cuda.syncthreads()
        if is_first_of_block():
            _find_part(control, values, beside)
            if control[LAST] > 0:
                _find_rotations(values, beside, control[FIRST], control[LAST], v, p)
        cuda.syncthreads()
        first, last = control[FIRST], control[LAST]
        if last == 0:
            break
        for j in places_in_block(n):
            upper = row(vectors, first)[j]
            for k in range(first, last):
                lower = row(vectors, k + 1)[j]
                row(vectors, k)[j] = v[k] * upper - p[k] * lower
                upper = p[k] * upper + v[k] * lower
            row(vectors, last)[j] = upper
        cuda.syncthreads()
    has_converged = control[LAST] == 0
    for i in places_in_block(n):
        values[i] = _scaled(values[i], exponent) if has_converged else NOT_A_NUMBER


# -- orthogonal rows ---------------------------------------------------------------------------------------------------


MOST_ROUNDS = 20                # times that a row is orthogonalized against the rows before it
KEPT = np.float32(0.01)         # if less of a row's squared norm is left, digits were lost, and it is done again
TRUSTED = np.float32(LARGEST_INVERSE_FACTOR)

_block_words, _normal_pair = formula(formulas.block_words), formula(formulas.normal_pair)


@device_function
def _dot(shared, a, b):
    part = ZERO
    for j in places_in_block(a.shape[0]):
        part += a[j] * b[j]
    return sum_over_block(shared, part)


@device_function
def _count_deviations(shared, square, gram, lengths):
    """Set ``square`` to Q Qᵀ of the directions Q; return the number of elements that differ from the unit matrix's."""
    part = ZERO
    for i in block_rows(gram.shape[0]):
        for j in team_columns(gram.shape[0]):
            value = gram[i, j] / (lengths[i] * lengths[j])
            square[i, j] = value
            deviation = abs(value - (ONE if np.int64(j) == i else ZERO))
            part += ZERO if deviation <= ORTHOGONALITY else ONE
    return sum_over_block(shared, part)


@device_function
def _factorize(square):
    """Compute the Cholesky factor L of ``square`` in its lower triangle; return False if it has none."""
    n, possible = square.shape[0], True
    for k in range(n):
        pivot = square[k, k]
        cuda.syncthreads()
        if not pivot > ZERO:
            possible = False
            break
        root = np.float32(math.sqrt(pivot))
        for place in places_in_block(n):
            i = np.int64(place)
            if i >= k:
                square[i, k] = square[i, k] / root if i > k else root
        cuda.syncthreads()
        for i in block_rows(n):
            if i > k:
                for place in team_columns(n):
                    j = np.int64(place)
                    if k < j <= i:
                        square[i, j] -= square[i, k] * square[j, k]
        cuda.syncthreads()
    return possible


@device_function
def _invert(shared, inverse, square):
    """Set ``inverse`` to the inverse of the lower triangle of ``square``; return how many elements are too large."""
    n, part = square.shape[0], ZERO
    for place in places_in_block(n):
        j = np.int64(place)
        for i in range(n):
            value = ONE if i == j else ZERO
            for k in range(j, i):
                value -= square[i, k] * inverse[k, j]
            value = value / square[i, i] if i >= j else ZERO
            inverse[i, j] = value
            part += ZERO if value < TRUSTED else ONE
    return sum_over_block(shared, part)


@device_function
def _multiply(dst, a, b, trans_b):
    """Compute ``dst = a b``, or ``a bᵀ`` if ``trans_b``."""
    inner = a.shape[1]
    for i in block_rows(dst.shape[0]):
        for j in team_columns(dst.shape[1]):
            total = ZERO
            for k in range(inner):
                total += a[i, k] * (b[j, k] if trans_b else b[k, j])
            dst[i, j] = total
    cuda.syncthreads()


@device_function
def _copy(dst, src):
    for i in block_rows(dst.shape[0]):
        for j in team_columns(dst.shape[1]):
            row(dst, i)[j] = row(src, i)[j]
    cuda.syncthreads()


@device_function
def _draw(target, i, attempt):
    """Fill a row with normal numbers that depend only on ``i`` and ``attempt``."""
    for place in places_in_block(target.shape[0]):
        w0, w1, _, _ = _block_words(np.int64(place), attempt, i, np.uint64(0), np.uint64(0))
        target[place], _ = _normal_pair(w0, w1)
    cuda.syncthreads()


@device_function
def _orthonormalize_rows(shared, rows):
    """Orthonormalize rows in place (Gram-Schmidt); a row that depends on rows before it becomes a random one."""
    for i in range(rows.shape[0]):
        target = row(rows, i)
        for attempt in range(MOST_ROUNDS):
            before = _dot(shared, target, target)
            after = ZERO
            if before > ZERO and math.isfinite(before):
                for k in range(i):
                    along = _dot(shared, row(rows, k), target)
                    for j in places_in_block(target.shape[0]):
                        target[j] -= along * row(rows, k)[j]
                    cuda.syncthreads()
                after = _dot(shared, target, target)
            if after > KEPT * before:
                for j in places_in_block(target.shape[0]):
                    target[j] /= np.float32(math.sqrt(after))
                cuda.syncthreads()
                break
            if not after > ZERO:      # else orthogonalize once more, since digits were lost
                _draw(target, i, attempt)


@operation(shape=launch_square)
def orthogonalize(w, gram, square, moment, lengths, numbers):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    if numbers[SUSPECT] == DOUBLE_ZERO or not math.isfinite(numbers[TRACE]):
        return
    if _count_deviations(shared, square, gram, lengths) == ZERO:
        return
    rank = w.shape[0]
    trusted = _factorize(square)
    if trusted:
        trusted = _invert(shared, moment, square) == ZERO
    if trusted:
        for i in block_rows(rank):
            for j in team_columns(rank):
                square[i, j] = moment[i, j] * lengths[i] / lengths[j]
        cuda.syncthreads()
        _multiply(moment, square, w, False)
        _copy(w, moment)
    else:
        _orthonormalize_rows(shared, w)
        for i in block_rows(rank):
            for j in team_columns(w.shape[1]):
                row(w, i)[j] *= lengths[i]
        cuda.syncthreads()
    _multiply(gram, w, w, True)


# -- the orthonormal constraint ----------------------------------------------------------------------------------------


_move = formula(orthonormal_move)


@operation(shape=launch_square)
def orthonormal_step(p, ratio, constraint):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    trace, trace_of_square = DOUBLE_ZERO, DOUBLE_ZERO
    for i in block_rows(p.shape[0]):
        r = row(p, i)
        for place in team_columns(r.shape[0]):
            j = np.int64(place)
            value = np.float64(r[j])
            trace_of_square += value * value
            if i == j:
                trace += value
    trace, trace_of_square = sum_over_block(shared, trace), sum_over_block(shared, trace_of_square)
    factor, square, new_ratio = _move(trace, trace_of_square, p.shape[0], constraint)
    if is_first_of_block():
        ratio[0] = new_ratio
    for i in block_rows(p.shape[0]):
        r = row(p, i)
        for place in team_columns(r.shape[0]):
            j = np.int64(place)
            value = r[j] - square if i == j else r[j]
            r[j] = factor * value if factor != ZERO else ZERO
