"""Rows that are to be orthogonal, on the GPU: by one block, which does nothing where nothing is to be done.

The twin of ``ops/cpu/orthogonal.py``. What it does is rare, so it is plain rather than fast.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cuda.formulas import formula
from nnet3py.ops.cuda.launch import operation
from nnet3py.ops.cuda.reduce import MOST_THREADS, launch_square, sum_over_block
from nnet3py.ops.cuda.threads import (
    block_rows,
    cuda,
    device_function,
    places_in_block,
    row,
    team_columns,
)
from nnet3py.ops.formulas import random as formulas
from nnet3py.ops.formulas.natural_gradient import (
    DOUBLE_ZERO,
    LARGEST_INVERSE_FACTOR,
    ONE,
    ORTHOGONALITY,
    SUSPECT,
    TRACE,
    ZERO,
)

MOST_ROUNDS = 20                # of orthogonalizing one row against those before it
KEPT = np.float32(0.01)         # of a row's square, for what was taken from it not to count as much
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
    """``square`` = Q Qᵀ; returns how many elements are not close to those of the unit matrix."""
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
    """``square`` = L Lᵀ becomes L below and on its diagonal (Cholesky); returns whether that was possible."""
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
    """``inverse`` = the inverse of the triangle L; returns how many elements are too large to be trusted."""
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
    """``dst = a b``, or a bᵀ."""
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
    """Random numbers, the same in every run."""
    for place in places_in_block(target.shape[0]):
        w0, w1, _, _ = _block_words(np.int64(place), attempt, i, np.uint64(0), np.uint64(0))
        target[place], _ = _normal_pair(w0, w1)
    cuda.syncthreads()


@device_function
def _orthonormalise_rows(shared, rows):
    """Gram-Schmidt, in place; a row without a new direction becomes a random one."""
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
            if not after > ZERO:      # else once more, for the digits that were lost
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
        _orthonormalise_rows(shared, w)
        for i in block_rows(rank):
            for j in team_columns(w.shape[1]):
                row(w, i)[j] *= lengths[i]
        cuda.syncthreads()
    _multiply(gram, w, w, True)
