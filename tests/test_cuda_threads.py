"""Sums over the threads of a block: in the simulator for blocks of any shape, and both bodies compiled to PTX."""
from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import COMPUTE_CAPABILITIES, check_in_simulator

BLOCKS = [(1, 1), (2, 1), (1, 3), (5, 2), (8, 4), (3, 7)]


def test_in_the_simulator():
    check_in_simulator(__file__, 4 * len(BLOCKS))


def all_reductions(reductions, dtype):
    """A kernel that puts into three rows of its result what each thread gets from the three reductions."""
    from nnet3py.ops.cuda.launch import kernel
    from nnet3py.ops.cuda.threads import MOST_THREADS, cuda

    along_team, down_column, over_block = reductions.along_team, reductions.down_column, reductions.over_block

    @kernel("dmat mat" if dtype is np.float64 else "mat mat")
    def reduce_all(results, values):
        shared = cuda.shared.array(MOST_THREADS, dtype)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        value = dtype(values[y, x])
        results[y, x] = along_team(shared, value)
        results[cuda.blockDim.y + y, x] = down_column(shared, value)
        results[2 * cuda.blockDim.y + y, x] = over_block(shared, value)

    return reduce_all


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("compute_capability", COMPUTE_CAPABILITIES)
def test_both_bodies_compile(compute_capability, dtype):
    from nnet3py.ops.cuda import threads
    for with_shuffles in (True, False):
        made = all_reductions(threads.reductions(threads.add, with_shuffles), dtype).ptx(compute_capability)
        assert ("shfl.sync" in made) == with_shuffles
        assert "bar.sync" in made and (".f64" in made) == (dtype is np.float64)


def test_blocks_reduce_in_whole_warps():
    from nnet3py.ops.cuda import launch, threads
    for rows, cols in [(1, 1), (7, 40), (10**6, 3), (64, 10**5), (4096, 1536)]:
        for shape in (threads.launch_teams, threads.launch_columns, threads.launch_block, threads.launch_parts):
            grid, (width, height) = shape(rows, cols)
            assert width * height % threads.WARP == 0 and width & (width - 1) == 0
            assert width * height <= threads.MOST_THREADS and min(grid) >= 1
        assert threads.launch_teams(rows, cols)[0][0] == threads.launch_columns(rows, cols)[0][1] == 1
        grid = threads.launch_parts(rows, cols)[0]
        assert grid[0] * grid[1] <= threads.MOST_PARTS
    widths = {1: 32, 131: 32, 256: 64, 1536: 256, 10**5: 256}      # of a warp, and more where rows are long
    assert {cols: threads.launch_teams(100, cols)[1] for cols in widths} == {
        cols: (width, launch.THREADS // width) for cols, width in widths.items()}
    assert threads.launch_teams(0, 5) == threads.launch_columns(5, 0) == launch.EMPTY_GRID


def simulate() -> int:
    """Compare sums and maxima over blocks with numpy's; returns the number of comparisons."""
    from nnet3py.ops import device
    from nnet3py.ops.cuda import threads

    cuda, rng, comparisons = device.cuda(), np.random.default_rng(2), 0
    for combine, whole in ((threads.add, np.sum), (threads.larger, np.max)):
        for dtype in (np.float32, np.float64):
            kernel = all_reductions(threads.reductions(combine, with_shuffles=False), dtype)
            for width, height in BLOCKS:
                values = rng.integers(-9, 9, (height, width)).astype(np.float32)      # sums of them are exact
                results = cuda.to_device(np.zeros((3 * height, width), dtype))
                kernel.launch(((1, 1), (width, height)), results, cuda.to_device(values))
                expected = [np.broadcast_to(total, values.shape) for total in (
                    whole(values, axis=1, keepdims=True), whole(values, axis=0, keepdims=True), whole(values))]
                np.testing.assert_array_equal(results.copy_to_host(), np.concatenate(expected))
                comparisons += 1
    return comparisons


if __name__ == "__main__":
    print(simulate())
