"""The GPU kernels without a GPU: run in numba's simulator, and compiled to PTX.

The simulator is chosen by an environment variable when numba is imported, so it runs in a process of its own: this
file, run as a program, compares the kernels with the reference under several launch shapes.
"""
from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import COMPUTE_CAPABILITIES, check_in_simulator, check_ptx

LAUNCHES = [((1, 1), (1, 1)), ((2, 1), (3, 2)), ((1, 2), (2, 5))]      # grid and block, off every size below
SIZES = [(0, 3), (1, 1), (5, 1), (3, 0), (7, 5)]
ROW_KERNELS = ["copy_rows"]


def test_in_the_simulator():
    check_in_simulator(__file__, len(LAUNCHES) * len(SIZES))


@pytest.mark.parametrize("name", ROW_KERNELS)
@pytest.mark.parametrize("compute_capability", COMPUTE_CAPABILITIES)
def test_compiles_to_ptx(name, compute_capability):
    from nnet3py.ops.cuda import rows
    check_ptx(rows, name, compute_capability)


def test_launch_covers_the_matrix():
    from nnet3py.ops.cuda import launch
    for rows, cols in ((1, 1), (3712, 768), (10**7, 5), (5, 10**6)):
        (grid_x, grid_y), (width, height) = launch.launch_2d(rows, cols)
        assert width * height == launch.THREADS and width % 32 == 0
        assert 1 <= grid_x <= launch.MAX_BLOCKS and 1 <= grid_y <= launch.MAX_BLOCKS
        assert grid_x == launch.MAX_BLOCKS or grid_x * width >= cols
        assert grid_y == launch.MAX_BLOCKS or grid_y * height >= rows


def simulate() -> int:
    """Compare the kernels with the reference in the simulator; returns the number of cases."""
    import reference

    from nnet3py.ops import device, get_ops
    from nnet3py.ops.cuda import launch

    ops, cuda, rng, cases = get_ops("cuda"), device.cuda(), np.random.default_rng(2), 0
    for grid, block in LAUNCHES:
        for rows, cols in SIZES:
            source = rng.standard_normal((4, cols + 3)).astype(np.float32)
            target = rng.standard_normal((rows, cols + 2)).astype(np.float32)
            indexes = rng.integers(-1, 4, rows).astype(np.int32)
            on_device = cuda.to_device(target)
            with launch.forced_launch(grid, block):
                ops.copy_rows(on_device[:, 1:cols + 1], cuda.to_device(source)[:, 2:cols + 2], cuda.to_device(indexes),
                              -0.5)
            reference.copy_rows(target[:, 1:cols + 1], source[:, 2:cols + 2], indexes, np.float32(-0.5))
            np.testing.assert_array_equal(on_device.copy_to_host(), target)
            cases += 1
    return cases


if __name__ == "__main__":
    print(simulate())
