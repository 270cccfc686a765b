"""Slow, obvious numpy forms of the pooling operations."""
from __future__ import annotations

import itertools

import numpy as np


def _groups(src, dst):
    return src.reshape(len(src), dst.shape[1], src.shape[1] // dst.shape[1])


def pnorm(dst, src):
    dst[...] = np.sqrt((_groups(src, dst) ** 2).sum(axis=2))


def pnorm_backprop(dx, x, y, dy):
    norm = y[:, :, None]
    ratio = np.divide(_groups(x, y), norm, out=np.zeros_like(_groups(x, y)), where=norm != 0)
    dx[...] = (ratio * dy[:, :, None]).reshape(x.shape)


def _boxes(matrix, shape):
    """For each box, in order: its number, and a view of its elements, (rows, sizes)."""
    dims, sizes, steps, counts = shape.reshape(4, 3)
    tensor = matrix.reshape(len(matrix), *dims)
    for p, place in enumerate(itertools.product(*map(range, counts))):
        corner = np.array(place) * steps
        x, y, z = (slice(begin, begin + size) for begin, size in zip(corner, sizes, strict=True))
        yield p, tensor[:, x, y, z]


def max_pool(dst, src, shape):
    for p, box in _boxes(src, shape):
        dst[:, p] = np.maximum(box.max(axis=(1, 2, 3)), -1e20)


def max_pool_backprop(dx, x, y, dy, shape):
    total = np.zeros(dx.shape, dx.dtype)
    for (p, values), (_, derivs) in zip(_boxes(x, shape), _boxes(total, shape), strict=True):
        derivs += np.where(values == y[:, p, None, None, None], dy[:, p, None, None, None], 0)
    dx += total
