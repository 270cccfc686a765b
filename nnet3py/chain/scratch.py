"""Scratch space whose size varies from minibatch to minibatch, taken in few different sizes."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

SMALLEST = 1024          # float32 elements


def scratch_floats(ops: Ops, *shape: int) -> Any:
    """An uninitialized contiguous float32 array of the device; valid as long as ``ops.scratch_vector``'s."""
    size = math.prod(shape)
    return ops.scratch_vector(1 << (max(size, SMALLEST) - 1).bit_length())[:size].reshape(*shape)


def scratch_doubles(ops: Ops, *shape: int) -> Any:
    """The same of float64."""
    return scratch_floats(ops, 2 * math.prod(shape)).view(np.float64).reshape(*shape)
