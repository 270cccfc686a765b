"""Slow, obvious numpy twins of the structural, normalizing and dropout operations."""
from __future__ import annotations

import numpy as np


def copy_cols(dst, src, indexes):
    for j, c in enumerate(indexes):
        dst[:, j] = src[:, c] if c >= 0 else 0


def _blocks(matrix, width):
    return [matrix[:, start:start + width] for start in range(0, matrix.shape[1], width)]


def multiply_blocks(dst, src):
    dst[...] = np.prod(_blocks(src, dst.shape[1]), axis=0)


def multiply_blocks_backprop(dx, x, dy):
    factors = _blocks(x, dy.shape[1])
    for k, block in enumerate(_blocks(dx, dy.shape[1])):
        block[...] = dy * np.prod(factors[:k] + factors[k + 1:], axis=0)


def add_sum_of_blocks(dst, src, alpha):
    for block in _blocks(src, dst.shape[1]):
        dst += alpha * block


def add_to_blocks(dst, src, alpha):
    for block in _blocks(dst, src.shape[1]):
        block += alpha * src


def sum_column_groups(dst, src, groups):
    for j, (begin, end) in enumerate(groups):
        dst[:, j] = src[:, begin:end].sum(axis=1)


def copy_to_column_groups(dst, src, groups):
    for j, (begin, end) in enumerate(groups):
        dst[:, begin:end] = src[:, j, None]


def copy_row_pieces(dst, src, places):
    for i, (row, begin) in enumerate(places):
        dst[i] = src[row, begin:begin + dst.shape[1]]


def copy_to_row_pieces(dst, src, places):
    for i, (row, begin) in enumerate(places):
        dst[row, begin:begin + src.shape[1]] = src[i]


def clip_elements(dx, counters, dy, limit, store):
    dx[...] = np.clip(dy, -limit, limit)
    counters[3] += store


def clip_rows(dx, counters, dy, limit, store):
    ratio = (dy * dy).sum(axis=1) / limit ** 2
    dx[...] = dy / np.sqrt(np.maximum(ratio, 1))[:, None]
    counters += np.array([(ratio >= 1).sum(), len(dy), 0, 1]) * store


def _sum_of_norms(matrix):
    return np.sqrt((matrix * matrix).sum(axis=1)).sum()


def clip_gradient_repair(dx, updated_counters, x, counters, proportion_threshold, target, scale, draw):
    if counters[1] == 0 or draw > 0.5 or counters[0] / counters[1] <= proportion_threshold:
        return
    proportion = counters[0] / counters[1]
    updated_counters[2] += 1
    excess = np.maximum(abs(x) - target, 0) * np.where(x > 0, 1, -1)
    before, of_repair = _sum_of_norms(dx), _sum_of_norms(excess)
    if of_repair != 0:
        dx -= 2 * scale * proportion * before / of_repair * excess
    after = _sum_of_norms(dx)
    if after != 0:
        dx *= before / after


def truncate_gradient(dx, counters, dy, zeroing, scale, clipping_threshold, zeroing_threshold, store):
    dx[...] = scale * dy
    square = (dx * dx).sum(axis=1)
    ratio = square / clipping_threshold ** 2
    zeroed = (zeroing == -1) & (square > zeroing_threshold ** 2)
    dx *= (np.maximum(ratio, 1) ** -0.5 * ~zeroed)[:, None]
    counters += np.array([(ratio >= 1).sum(), zeroed.sum(), len(dy), -zeroing.sum()]) * store


FLOOR = 2.0 ** -66


def normalize_rows(dst, src, target_rms):
    dim = src.shape[1]
    scale = np.maximum((src * src).sum(axis=1) / (dim * target_rms ** 2), FLOOR) ** -0.5
    dst[:, :dim] = scale[:, None] * src
    if dst.shape[1] > dim:
        dst[:, dim] = np.log(target_rms) - np.log(scale)


def normalize_rows_backprop(dx, x, dy, target_rms, beta):
    dim = x.shape[1]
    e = dy[:, :dim].copy()
    square = (x * x).sum(axis=1)
    ratio = square / (dim * target_rms ** 2)
    scale = np.maximum(ratio, FLOOR) ** -0.5
    towards = -np.where(ratio > FLOOR, scale ** 3, 0) * (e * x).sum(axis=1) / (dim * target_rms ** 2)
    if dy.shape[1] > dim:
        towards += dy[:, dim] / np.maximum(square, dim * FLOOR)
    dx[...] = (beta * dx if beta else 0) + scale[:, None] * e + towards[:, None] * x


ROWS_OF_A_SUM = 64


def put_sums(sums, *terms):
    """The sums of each term over each ROWS_OF_A_SUM rows, term by term."""
    starts = range(0, len(terms[0]), ROWS_OF_A_SUM)
    parts = [term[start:start + ROWS_OF_A_SUM].sum(axis=0) for term in terms for start in starts]
    sums[...] = np.array(parts).reshape(sums.shape)


def column_moments(sums, src):
    put_sums(sums, src, src * src)


def column_products(sums, y, dy):
    put_sums(sums, dy, y * dy)


def batch_norm_propagate(dst, memo, src, sums, epsilon, target_rms):
    first, second = np.split(sums, 2)
    memo[0], memo[1] = first.sum(axis=0) / len(src), second.sum(axis=0) / len(src)
    memo[2] = target_rms * (np.maximum(memo[1] - memo[0] ** 2, 0) + epsilon) ** -0.5
    memo[3:] = 0
    dst[...] = (src - memo[0]) * memo[2]


def batch_norm_backprop(dx, memo, y, dy, sums, target_rms):
    first, second = np.split(sums, 2)
    memo[3] = first.sum(axis=0) / len(dy)
    memo[4] = -second.sum(axis=0) / len(dy) / target_rms ** 2 * memo[2]
    dx[...] = memo[2] * (dy - memo[3]) + memo[4] * y


def batch_norm_relu_backprop(dx, squares, memo, y, dy, sums, active, floor, repair, target_rms):
    between = np.empty(dy.shape, dy.dtype)
    batch_norm_backprop(between, memo, y, dy, sums, target_rms)
    put_sums(squares, between * between)
    dx[...] = np.where(active > floor, between, 0) - repair


def batch_norm_store_stats(count, total, total_square, memo, num_rows):
    count += num_rows
    total += num_rows * memo[0]
    total_square += num_rows * memo[1]


def dropout_elements(dst, src, draws, proportion):
    dst[...] = src * (draws > proportion)


def dropout_rows(dst, src, draws, proportion):
    dst[...] = src * (draws[:, :1] > proportion)


def dropout_backprop(dx, x, y, dy):
    dx[...] = np.where(x != 0, dy * (y / np.where(x != 0, x, 1)), dy)


def binary_mask(mask, proportion, kept):
    mask[...] = (mask > proportion) * kept


def complementary_masks(mask, draws, proportion):
    mask[:, 0] = draws[:, 0] > proportion
    mask[:, 1] = 1 - proportion > draws[:, 0]


def time_mask(mask, draws, rows, starts, start_kept, longest_zeroed, longest_kept):
    for s, (begin, end) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        numbers = iter(draws[0, begin + s:end + s + 1])
        keep, values = next(numbers) < start_kept, []
        while len(values) < end - begin:
            longest = longest_kept if keep else longest_zeroed
            length = 1 + min(int(next(numbers) * longest), longest - 1)
            values += [float(keep)] * min(length, end - begin)
            keep = not keep
        mask[rows[begin:end]] = values[:end - begin]


def continuous_mask(mask, proportion):
    mask[...] = 4 * proportion * mask + 1 - 2 * proportion


def specaugment_mask(mask, draws, max_zeroed):
    width = mask.shape[1]
    for row, draw in zip(mask, draws, strict=True):
        row[:] = 1
        zeroed = int(draw[0] * (max_zeroed + 1))
        if zeroed:
            row[(int(draw[1] * width) + np.arange(zeroed)) % width] = 0
            for start in (draw[2:] * width).astype(int):
                for k in range(width // 2 // 2):
                    a, b = (start + k) % width, (start + width // 2 - k) % width
                    row[[a, b]] = row[[b, a]]


def mul_mask_rows(dst, src, mask, indexes):
    dst[...] = src * mask[indexes]
