"""Loops of compression and decoding for ``compressed_code.py``; the bits are those of ``compressed.py``.

All arrays are flat. Imported only to be compiled.
"""
from __future__ import annotations

import numpy as np

_SIXTY_THIRD = 1.0 / 63.0
_HIGH_PART = float(np.float32(_SIXTY_THIRD))          # exact products with floats; see compressed.py
_LOW_PART = _SIXTY_THIRD - _HIGH_PART
_SCRATCH_ROWS = 1024                                  # decoded at a time, so that the target's rows stay in the cache
_LARGEST = np.float32(3.4028234663852886e38)


def decode_columns(percentiles, codes, places, ranges, percentile_step, count, target, scratch):
    """Decode ``count`` matrices of the CM layout; ``scratch`` has 1024 floats."""
    for m in range(count):
        at, codes_at = places[5 * m], places[5 * m + 1]
        begin, num_rows, num_cols = places[5 * m + 2], places[5 * m + 3], places[5 * m + 4]
        minimum, step = np.float64(ranges[2 * m]), np.float64(ranges[2 * m + 1] * percentile_step)
        for first in range(0, num_rows, _SCRATCH_ROWS):
            length = min(num_rows - first, _SCRATCH_ROWS)
            for col in range(num_cols):
                here, there = at + 8 * col, begin + first * num_cols + col
                p0 = np.float32(minimum + step * np.float64(percentiles[here] + 256 * percentiles[here + 1]))
                p25 = np.float32(minimum + step * np.float64(percentiles[here + 2] + 256 * percentiles[here + 3]))
                p75 = np.float32(minimum + step * np.float64(percentiles[here + 4] + 256 * percentiles[here + 5]))
                p100 = np.float32(minimum + step * np.float64(percentiles[here + 6] + 256 * percentiles[here + 7]))
                low, middle, high = p25 - p0, p75 - p25, p100 - p75
                base = np.float64(p75)
                column = codes_at + col * num_rows + first
                for row in range(length):
                    code = np.float32(codes[column + row])
                    below = np.float32(np.float64(p0) + np.float64(low * code) * (1.0 / 64.0))
                    between = np.float32(np.float64(p25) + np.float64(middle * (code - np.float32(64))) * (1.0 / 128.0))
                    product = np.float64(high * (code - np.float32(192)))
                    large = product * _HIGH_PART
                    total = base + large
                    part = total - base
                    lost = (base - (total - part)) + (large - part)
                    above = np.float32(total + (lost + product * _LOW_PART))
                    scratch[row] = below if code <= np.float32(64) else between if code <= np.float32(192) else above
                for row in range(length):
                    target[there + row * num_cols] = scratch[row]


def decode_uniform(codes, minimum, step, count, target):
    """Decode ``count`` codes of the CM2 or CM3 layout."""
    for i in range(count):
        target[i] = np.float32(np.float64(minimum) + np.float64(step) * np.float64(codes[i]))


def find_ranges(values, places, count, ranges):
    """Find minimum and range of ``count`` matrices; the range is NaN if an element is not finite."""
    for m in range(count):
        begin, end = places[3 * m], places[3 * m] + places[3 * m + 1] * places[3 * m + 2]
        lowest = highest = values[begin]
        for i in range(begin, end):
            lowest, highest = min(lowest, values[i]), max(highest, values[i])
            if not abs(values[i]) <= _LARGEST:
                highest = np.float32(np.nan)
                break
        ranges[2 * m], ranges[2 * m + 1] = lowest, np.float32(highest - lowest)


def compress_columns(values, places, ranges, percentile_step, count, percentiles, codes, column, coded, counts):
    """Compress ``count`` matrices in the CM layout; scratch memory: ``column`` and ``coded`` (rows), ``counts`` (513).
    """
    percentiles_at = 0
    for m in range(count):
        begin, num_rows, num_cols = places[3 * m], places[3 * m + 1], places[3 * m + 2]
        minimum, scale = ranges[2 * m], ranges[2 * m + 1]
        step = scale * percentile_step
        if not (scale > np.float32(0) and scale <= _LARGEST):
            percentiles_at += 4 * num_cols
            continue
        for col in range(num_cols):
            lowest, highest = 65535, 0
            for row in range(num_rows):
                value = values[begin + row * num_cols + col]
                column[row] = value
                fraction = min(max((value - minimum) / scale, np.float32(0)), np.float32(1))
                coded[row] = np.int32(np.float64(fraction * np.float32(65535)) + 0.499)
            # The order statistics of the values have the codes that are the order statistics of the values' codes.
            # They are found by counting first their upper and then their lower bytes, which takes no branches.
            for i in range(256):
                counts[i] = 0
            for row in range(num_rows):
                code = np.int32(coded[row])
                lowest, highest = min(lowest, code), max(highest, code)
                counts[code >> 8] += 1
            upper, before, first, second = 0, 0, 0, 0
            for quartile in range(1, 4, 2):
                rank = num_rows // 4 * quartile
                while before + counts[upper] <= rank:
                    before += counts[upper]
                    upper += 1
                for i in range(256, 513):
                    counts[i] = 0
                for row in range(num_rows):
                    code = np.int32(coded[row])
                    counts[256 + (code & 255) if (code >> 8) == upper else 512] += 1
                lower, below_it = 256, before
                while below_it + counts[lower] <= rank:
                    below_it += counts[lower]
                    lower += 1
                first, second = second, 256 * upper + lower - 256
            q0 = min(lowest, 65532)
            q25 = min(max(first, q0 + 1), 65533)
            q75 = min(max(second, q25 + 1), 65534)
            q100 = min(max(highest, q75 + 1), 65535)
            percentiles[percentiles_at], percentiles[percentiles_at + 1] = q0, q25
            percentiles[percentiles_at + 2], percentiles[percentiles_at + 3] = q75, q100
            percentiles_at += 4
            p0 = np.float32(np.float64(minimum) + np.float64(step) * np.float64(q0))
            p25 = np.float32(np.float64(minimum) + np.float64(step) * np.float64(q25))
            p75 = np.float32(np.float64(minimum) + np.float64(step) * np.float64(q75))
            p100 = np.float32(np.float64(minimum) + np.float64(step) * np.float64(q100))
            low, middle, high = p25 - p0, p75 - p25, p100 - p75
            for row in range(num_rows):
                value = column[row]
                below, between = value < p25, value < p75
                base = p0 if below else p25 if between else p75
                size = low if below else middle if between else high
                steps = np.float32(64) if below else np.float32(128) if between else np.float32(63)
                fraction = np.float64((value - base) / size * steps) + 0.5
                fraction = min(max(fraction, 0.0), np.float64(steps)) if fraction == fraction else 0.0
                codes[begin + col * num_rows + row] = np.int32(fraction) + (0 if below else 64 if between else 192)
