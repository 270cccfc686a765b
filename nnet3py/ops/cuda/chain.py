"""Objectives on the GPU: sparse supervision, and the sums over paths of chain training.

The operations are those of ``ops/cpu/chain.py``.

A launch computes a frame of all sequences: neighboring threads work on neighboring sequences. A frame needs the sum
over states of the frame before: each block of threads of the launch before has stored its part of the sum in ``alpha``
or ``beta``, so no block waits for another inside a launch. Parts are summed in a fixed order: results are the same in
each run.

The forward pass of T frames takes T + 2 launches, the backward pass T + 1; either is a CUDA graph from the second
minibatch of a shape on. A launch of the backward pass computes the posteriors of the frame of the launch before:
posteriors replace the exponentials in ``y``, which are read until then.

``alpha`` and ``beta`` have the states' sums of three frames, then CHAIN_PARTIAL_SUMS rows of partial sums for each.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda.graphs import replay
from nnet3py.ops.cuda.launch import THREADS, kernel, launch_2d, operation
from nnet3py.ops.cuda.memory import results, summed_by_host
from nnet3py.ops.cuda.threads import (
    MOST_THREADS,
    block_column,
    block_rows,
    column_blocks,
    cuda,
    device_function,
    is_first_of_block,
    launch_columns,
    launch_parts,
    own_columns,
    own_rows,
    row,
    sum_down_column,
    sum_over_block,
)
from nnet3py.ops.table import documented
from nnet3py.ops.training_operations import CHAIN_PARTIAL_SUMS

ZERO, ONE = np.float32(0), np.float32(1)
DOUBLE_ZERO, DOUBLE_ONE = np.float64(0), np.float64(1)


@operation()
def chain_exp(dst, src, limit, first, num_sequences):
    first_col, first_row = cuda.grid(2)
    col_step, row_step = cuda.gridsize(2)
    cols = src.shape[1]
    for r in range(first_row, dst.shape[0], row_step):
        t, p = r // cols, r % cols
        for s in range(first_col, dst.shape[1], col_step):
            value = src[t * num_sequences + first + s, p]
            value = value if value > -limit else -limit
            dst[r, s] = math.exp(value if value < limit else limit)


@operation()
def chain_add_posteriors(dst, src, first, num_sequences, alpha):
    first_col, first_row = cuda.grid(2)
    col_step, row_step = cuda.gridsize(2)
    cols, width = dst.shape[1], src.shape[1]
    for r in range(first_row, dst.shape[0], row_step):
        t, s = r // num_sequences, r % num_sequences - first
        if 0 <= s < width:
            for p in range(first_col, cols, col_step):
                dst[r, p] += alpha * src[t * cols + p, s]


@operation()
def chain_out_of_range(dst, src, limit, scale):
    first_col, first_row = cuda.grid(2)
    col_step, row_step = cuda.gridsize(2)
    for i in range(first_row, dst.shape[0], row_step):
        for j in range(first_col, dst.shape[1], col_step):
            x = src[i, j]
            if x > limit:
                dst[i, j] -= scale * (x - limit)
            elif x < -limit:
                dst[i, j] -= scale * (x + limit)


@kernel("mat mat ivec ivec")
def _gather(dst, src, rows, columns):
    first_col = cuda.grid(2)[0]
    for k in range(first_col, dst.shape[1], cuda.gridsize(2)[0]):
        dst[0, k] = src[rows[k], columns[k]]


@documented
def chain_gather(dst: DeviceArray, src: DeviceArray, rows: DeviceArray, columns: DeviceArray) -> None:
    _gather(dst.reshape(1, dst.shape[0]), src, rows, columns)


# -- the denominator ---------------------------------------------------------------------------------------------------


@device_function
def _sum_over_rows(shared, value):
    """Return, in each thread, the sum of ``value`` over the threads of the block with the same x (column)."""
    x, y, width = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockDim.x
    shared[y * width + x] = value
    cuda.syncthreads()
    total = ZERO
    for other in range(cuda.blockDim.y):
        total += shared[other * width + x]
    cuda.syncthreads()
    return total


@device_function
def _finished_sum(shared, work, first_row, column):
    """Return the sum of the parts that blocks stored by ``_leave_part``; all threads of a block call it together."""
    part = ZERO
    if column < work.shape[1]:
        for block in range(cuda.threadIdx.y, cuda.gridDim.y, cuda.blockDim.y):
            part += work[first_row + block, column]
    return _sum_over_rows(shared, part)


@device_function
def _leave_part(shared, work, first_row, column, part):
    """Store the block's sum of ``part`` in ``work``, for the next launch."""
    total = _sum_over_rows(shared, part)
    if column < work.shape[1] and cuda.threadIdx.y == 0:
        work[first_row + cuda.blockIdx.y, column] = total


@kernel("mat mat mat mat vec vec lvec ivec lvec ivec f32 int")
def _forward_frame(sums, alpha, arriving, y, initial, probs, arc_starts, sources, state_entries, entry_pdfs, leaky, t):
    """Compute the states' sums after frame t: initial probabilities for t = -1; for t = T only ``sums[T]`` is set."""
    shared = cuda.shared.array(THREADS, np.float32)
    num_states, num_entries, num_frames = initial.shape[0], entry_pdfs.shape[0], sums.shape[0] - 1
    num_pdfs, parts = y.shape[0] // num_frames, 3 * num_states
    now, then = t % 2 if t >= 0 else 1, (t + 1) % 2
    for first in range(cuda.blockIdx.x * cuda.blockDim.x, sums.shape[1], cuda.gridDim.x * cuda.blockDim.x):
        j = first + cuda.threadIdx.x
        part, total = ZERO, ONE
        if t >= 0:
            total = _finished_sum(shared, alpha, parts + now * CHAIN_PARTIAL_SUMS, j)
            if j < sums.shape[1] and cuda.blockIdx.y == 0 and cuda.threadIdx.y == 0:
                sums[t, j] = total
        if j < sums.shape[1] and t < num_frames:
            for i in range(cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y, num_states,
                           cuda.gridDim.y * cuda.blockDim.y):
                new = initial[i]
                if t >= 0:
                    new = ZERO
                    for d in range(state_entries[i], state_entries[i + 1]):
                        v = ZERO
                        for k in range(arc_starts[d], arc_starts[d + 1]):
                            source = sources[k]
                            v += probs[k] * (alpha[now * num_states + source, j] + leaky * initial[source] * total)
                        arriving[t * num_entries + d, j] = v
                        new += v * y[t * num_pdfs + entry_pdfs[d], j]
                    new /= total
                alpha[then * num_states + i, j] = new
                part += new
        _leave_part(shared, alpha, parts + then * CHAIN_PARTIAL_SUMS, j, part)


@documented
def chain_forward(sums: DeviceArray, alpha: DeviceArray, arriving: DeviceArray, y: DeviceArray, initial: DeviceArray,
                  probs: DeviceArray, arc_starts: DeviceArray, sources: DeviceArray, state_entries: DeviceArray,
                  entry_pdfs: DeviceArray, leaky: float) -> None:
    replay(_forward_frames, sums, alpha, arriving, y, initial, probs, arc_starts, sources, state_entries, entry_pdfs,
           float(leaky))


def _forward_frames(sums: Any, *args: Any) -> None:
    shape = _launch(args[3].shape[0], sums.shape[1])
    for t in range(-1, sums.shape[0]):
        _forward_frame.launch(shape, sums, *args, t)


@device_function
def _beta(beta, initial, state, column, time, num_frames, end):
    """Return the backward sum of a state without the leak; ``end`` is its value after the last frame."""
    return end if time == num_frames else beta[time % 3 * initial.shape[0] + state, column]


@kernel("mat mat mat mat vec vec lvec ivec lvec ivec ivec ivec f32 int")
def _backward_frame(y, arriving, beta, sums, initial, probs, arc_starts, entries, pdf_starts, pdf_entries, entry_pdfs,
                    entry_states, leaky, t):
    """Compute the backward sums of frame t if t >= 0, and the posteriors of frame t + 1 if there is one."""
    shared = cuda.shared.array(THREADS, np.float32)
    num_states, num_entries, num_frames = initial.shape[0], entry_pdfs.shape[0], sums.shape[0] - 1
    num_pdfs, parts = pdf_starts.shape[0] - 1, 3 * num_states
    first_row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    row_step = cuda.gridDim.y * cuda.blockDim.y
    for first in range(cuda.blockIdx.x * cuda.blockDim.x, sums.shape[1], cuda.gridDim.x * cuda.blockDim.x):
        j = first + cuda.threadIdx.x
        end, part, next_leak, later_leak = ZERO, ZERO, ZERO, ZERO
        if j < sums.shape[1]:
            end = ONE / (sums[num_frames, j] * (ONE + leaky * sums[0, j]))
            next_leak = later_leak = leaky * sums[0, j] * end
        if t + 1 < num_frames:
            next_leak = leaky * _finished_sum(shared, beta, parts + (t + 1) % 3 * CHAIN_PARTIAL_SUMS, j)
        if t + 2 < num_frames:
            later_leak = leaky * _finished_sum(shared, beta, parts + (t + 2) % 3 * CHAIN_PARTIAL_SUMS, j)
        if j < sums.shape[1] and t >= 0:
            for i in range(first_row, num_states, row_step):
                new = ZERO
                for k in range(arc_starts[i], arc_starts[i + 1]):
                    d = entries[k]
                    b = _beta(beta, initial, entry_states[d], j, t + 1, num_frames, end) + next_leak
                    new += probs[k] * y[t * num_pdfs + entry_pdfs[d], j] * b
                new /= sums[t, j]
                beta[t % 3 * num_states + i, j] = new
                part += initial[i] * new
        if j < sums.shape[1] and t + 1 < num_frames:
            for n in range(first_row, num_pdfs, row_step):
                total = ZERO
                for k in range(pdf_starts[n], pdf_starts[n + 1]):
                    d = pdf_entries[k]
                    b = _beta(beta, initial, entry_states[d], j, t + 2, num_frames, end) + later_leak
                    total += arriving[(t + 1) * num_entries + d, j] * b
                y[(t + 1) * num_pdfs + n, j] *= total / sums[t + 1, j]
        if t >= 0:
            _leave_part(shared, beta, parts + t % 3 * CHAIN_PARTIAL_SUMS, j, part)


@documented
def chain_backward(y: DeviceArray, arriving: DeviceArray, beta: DeviceArray, sums: DeviceArray, initial: DeviceArray,
                   probs: DeviceArray, arc_starts: DeviceArray, entries: DeviceArray, pdf_starts: DeviceArray,
                   pdf_entries: DeviceArray, entry_pdfs: DeviceArray, entry_states: DeviceArray, leaky: float) -> None:
    replay(_backward_frames, y, arriving, beta, sums, initial, probs, arc_starts, entries, pdf_starts, pdf_entries,
           entry_pdfs, entry_states, float(leaky))


def _backward_frames(y: Any, arriving: Any, beta: Any, sums: Any, initial: Any, *args: Any) -> None:
    shape = _launch(initial.shape[0], sums.shape[1])
    for t in range(sums.shape[0] - 2, -2, -1):
        _backward_frame.launch(shape, y, arriving, beta, sums, initial, *args, t)


def _launch(num_states: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return grid and block over (states, sequences), with at most CHAIN_PARTIAL_SUMS blocks along states."""
    (grid_x, grid_y), block = launch_2d(num_states, width)
    return (grid_x, min(grid_y, CHAIN_PARTIAL_SUMS)), block


@operation(shape=launch_columns)
def chain_log_probs(totals, sums, initial, leaky):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    last = sums.shape[0] - 1
    for first in column_blocks(totals.shape[1]):
        j, mine = block_column(first, totals.shape[1])
        part, leak = DOUBLE_ZERO, DOUBLE_ZERO
        for t in block_rows(last):
            part += _log(np.float64(sums[t, j]))
        for i in block_rows(initial.shape[0]):
            leak += np.float64(initial[i])
        part, leak = sum_down_column(shared, part), sum_down_column(shared, leak)
        if mine:
            totals[0, j] = part + _log(np.float64(sums[last, j]) * (DOUBLE_ONE + leaky * leak))


@device_function
def _log(value):
    return math.log(value) if value > 0.0 else -math.inf if value == 0.0 else math.nan


@operation(shape=launch_columns)
def chain_checks(totals, beta, y, sums, initial, num_pdfs, leaky):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    for first in column_blocks(totals.shape[1]):
        j, mine = block_column(first, totals.shape[1])
        product, posterior = DOUBLE_ZERO, DOUBLE_ZERO
        for i in block_rows(initial.shape[0]):
            product += np.float64(initial[i]) * (DOUBLE_ONE + leaky * np.float64(sums[0, j])) * np.float64(beta[i, j])
        for p in block_rows(num_pdfs):
            posterior += np.float64(y[p, j])
        product, posterior = sum_down_column(shared, product), sum_down_column(shared, posterior)
        if mine:
            totals[1, j] = product
            totals[2, j] = posterior


# -- outputs against sparse supervision --------------------------------------------------------------------------------


# for each element a thread goes through the row's sparse entries, which are few
@operation()
def copy_from_sparse(dst, row_starts, columns, values):
    for i in own_rows(dst.shape[0]):
        d, first, last = row(dst, i), row_starts[i], row_starts[i + 1]
        for place in own_columns(d.shape[0]):
            j, total = np.int64(place), ZERO
            for k in range(first, last):
                if columns[k] == j:
                    total += values[k]
            d[j] = total


@kernel("dvec mat lvec ivec vec")
def _products(parts, src, row_starts, columns, values):
    """Set ``parts[b]`` to the sum of products in the rows that block b computes; a thread computes whole rows."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    part = DOUBLE_ZERO
    for _ in own_rows(1):
        for place in own_columns(src.shape[0]):
            i = np.int64(place)
            s = row(src, i)
            for k in range(row_starts[i], row_starts[i + 1]):
                part += np.float64(s[columns[k]]) * np.float64(values[k])
    total = sum_over_block(shared, part)
    if is_first_of_block():
        parts[cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x] = total


@documented
@summed_by_host
def sum_product_sparse(src: DeviceArray, row_starts: DeviceArray, columns: DeviceArray, values: DeviceArray) -> int:
    if not src.size:
        return 0
    shape = launch_parts(1, src.shape[0])
    count = shape[0][0] * shape[0][1]
    _products.launch(shape, results().place(count), src, row_starts, columns, values)
    return count
