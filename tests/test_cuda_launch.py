"""Grids and blocks of GPU kernels."""
from __future__ import annotations


def test_launch_covers_the_matrix():
    from nnet3py.ops.cuda import launch
    for rows, cols in ((1, 1), (3712, 768), (10**7, 5), (5, 10**6)):
        (grid_x, grid_y), (width, height) = launch.launch_2d(rows, cols)
        assert width * height == launch.THREADS and width % 32 == 0
        assert 1 <= grid_x <= launch.MAX_BLOCKS and 1 <= grid_y <= launch.MAX_BLOCKS
        assert grid_x == launch.MAX_BLOCKS or grid_x * width >= cols
        assert grid_y == launch.MAX_BLOCKS or grid_y * height >= rows


def test_nothing_is_launched_for_an_empty_matrix():
    from nnet3py.ops.cuda import launch
    assert launch.launch_2d(0, 5) == launch.launch_2d(5, 0) == launch.EMPTY_GRID


def test_single_blocks():
    from nnet3py.ops.cuda import launch, threads
    assert threads.launch_block(3712, 768) == ((1, 1), (launch.THREADS, 1))
    grid, (width, height) = threads.launch_square(3712, 768)
    assert (grid, width, width * height) == ((1, 1), 32, threads.MOST_THREADS)
    with launch.forced_launch((4, 2), (8, 4)):
        assert threads.launch_block(3712, 768) == threads.launch_square(3712, 768) == ((1, 1), (8, 4))


def test_a_forced_launch_ends():
    from nnet3py.ops.cuda import launch
    shape = (1, 2), (3, 4)
    with launch.forced_launch(*shape):
        assert launch.launch_2d(100, 100) == launch.forced() == shape
        assert launch.launch_2d(0, 100) == launch.EMPTY_GRID
    assert launch.forced() is None


def test_launches_over_elements_cover_the_matrix():
    from nnet3py.ops.cuda import elementwise, launch
    for rows, cols in ((1, 1), (3712, 768), (10**7, 5), (5, 10**6), (1, 10**8)):
        (grid_x, grid_y), (width, height) = elementwise.launch_elements(rows, cols)
        assert width * height == launch.THREADS and width % 32 == 0 and min(grid_x, grid_y) >= 1
        assert grid_x * grid_y <= max(elementwise.MOST_BLOCKS, grid_x)
        assert grid_x == launch.MAX_BLOCKS or grid_x * width * elementwise.AT_ONCE >= cols
    assert elementwise.launch_elements(0, 5) == elementwise.launch_elements(5, 0) == launch.EMPTY_GRID


def test_sums_of_columns_keep_the_gpu_busy():
    from nnet3py.ops.cuda import launch, reductions, threads
    for rows, cols in ((0, 3), (1, 1), (9600, 1536), (10**6, 40), (5, 10**6)):
        (grid_x, grid_y), (width, height) = reductions.launch_shares(rows, cols)
        assert width * height == threads.MOST_THREADS and min(grid_x, grid_y) >= 1
        assert grid_x == launch.MAX_BLOCKS or grid_x * width >= cols
        assert grid_x * grid_y < 2 * reductions.ENOUGH_BLOCKS and (grid_y - 1) * reductions.LEAST_ROWS <= rows
    assert reductions.launch_shares(10**6, 40)[0] == (5, 205)
    assert reductions.launch_shares(5, 0) == launch.EMPTY_GRID
