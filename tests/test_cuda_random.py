"""The GPU's random stream without a GPU: run in numba's simulator, against the host's; and compiled to PTX.

See tests/cuda_checks.py: run as a program, in a process of its own, this file compares the two.
"""
from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import COMPUTE_CAPABILITIES, check_in_simulator, check_ptx

SEEDS = [0, 12345, 2**64 - 3]
RANGES = [1, 2, 4, 1000, 2**31 + 5]


def test_in_the_simulator():
    check_in_simulator(__file__, len(SEEDS) * 2)


@pytest.mark.parametrize("name", ["_draw_integer", "_draw_uniform"])
@pytest.mark.parametrize("compute_capability", COMPUTE_CAPABILITIES)
def test_compiles_to_ptx(name, compute_capability):
    from nnet3py.ops.cuda import random

    check_ptx(random, name, compute_capability)


def draw(random, ops, minibatch: int, seed: int, for_kernels: bool) -> list[float]:
    """Draws of all kinds, in turns, of two calls of a component."""
    random.begin_minibatch(seed, minibatch)
    found: list = []
    integer, uniform = ((random.draw_integer, random.draw_uniform) if for_kernels
                        else (random.integer, random.uniform))
    matrix = ops.scratch(2, 3)
    for call in range(2):
        random.select(7, call)
        for n in RANGES:
            found += [integer(n), uniform()]
        random.fill_uniform(matrix)
        found += ops.copy_out(matrix).ravel().tolist()
        found += [uniform(), random.integer(10), uniform()]     # the host takes its share of the same words
    return [float(value.copy_to_host()[0]) if hasattr(value, "copy_to_host") else float(np.float32(value))
            if isinstance(value, float) else value for value in found]


def simulate() -> int:
    """Compare the draws; returns the number of cases."""
    from nnet3py.ops import get_ops
    from nnet3py.ops.resources import Random

    ops, host, cases = get_ops("cuda"), get_ops("cpu"), 0
    for seed in SEEDS:
        for minibatch in (0, 3):
            wanted = draw(Random(host), host, minibatch, seed, False)
            assert draw(ops.random, ops, minibatch, seed, True) == wanted
            assert draw(ops.random, ops, minibatch, seed, False) == wanted
            cases += 1
    return cases


if __name__ == "__main__":
    print(simulate())
