"""nnet3py/ops/resources.py: random numbers, the same on every device, and scratch space."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import check, matrix

from nnet3py.ops import get_ops, resources
from nnet3py.ops.formulas.random import normal_pair
from nnet3py.ops.resources import Workspace, philox

KNOWN_ANSWERS = [   # philox4x32 with 10 rounds, from the file kat_vectors of Random123: counter, key, words
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.fixture
def ops():
    return get_ops("cpu")


@pytest.mark.parametrize("counter, key, words", KNOWN_ANSWERS)
def test_published_vectors(counter, key, words):
    assert philox(counter, key) == words


@pytest.mark.parametrize("counter, key, words", KNOWN_ANSWERS)
def test_published_vectors_in_the_kernel(ops, counter, key, words):
    dst = np.empty((1, 4), np.float32)
    seed, block = (np.array(pair[::-1], ">u4").view(">i8")[0] for pair in (key, counter[:2]))
    ops.philox_uniform(dst, int(seed), int(block), *counter[2:])
    np.testing.assert_array_equal(dst[0], [(word >> 8) * 2.0 ** -24 for word in words])


@pytest.mark.parametrize("size", [(0, 3), (1, 1), (3, 5), (7, 1), (4, 8)])
@pytest.mark.parametrize("key", [(0, 0, 0, 0), (12345, 7, 2, 9), (-1, 2**33, 2**32 - 1, 3)])
def test_kernels_against_the_reference(ops, size, key):
    rng = np.random.default_rng(0)
    check(ops, "philox_uniform", matrix(rng, *size), *key, tolerance=0)


def test_strides_do_not_matter(ops):
    whole, part = np.zeros((5, 7), np.float32), np.zeros((9, 20), np.float32)[2:7, 3:10]
    for dst in (whole, part):
        ops.random.begin_minibatch(1, 2)
        ops.random.select(3)
        ops.random.fill_uniform(dst)
    np.testing.assert_array_equal(whole, part)
    vector = np.zeros(35, np.float32)
    ops.random.select(3)
    ops.random.fill_uniform(vector)
    np.testing.assert_array_equal(vector, whole.reshape(-1))


def draws(ops, seed, minibatch, component):
    ops.random.begin_minibatch(seed, minibatch)
    ops.random.select(component)
    x, y = np.empty((2, 3), np.float32), np.empty(5, np.float32)
    ops.random.fill_uniform(x)
    first = ops.random.integer(1000)
    ops.random.fill_uniform(y)
    return (*x.reshape(-1).tolist(), first, *y.tolist(), ops.random.uniform())


def test_a_stream_belongs_to_seed_minibatch_and_component(ops):
    streams = [draws(ops, *key) for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**40, 0, 0), (-5, 0, 0)]]
    assert len(set(streams)) == 6
    assert draws(ops, 0, 1, 0) == streams[2]
    assert len(set(streams[0])) == len(streams[0]), "no block is used twice"


def test_host_draws(ops):
    ops.random.begin_minibatch(4, 0)
    numbers = [ops.random.integer(6) for _ in range(6000)]
    counts = np.bincount(numbers, minlength=6)
    assert counts.sum() == 6000 and len(counts) == 6 and abs(counts - 1000).max() < 150     # 5 standard deviations
    uniform = [ops.random.uniform() for _ in range(2000)]
    assert 0 <= min(uniform) and max(uniform) < 1 and abs(np.mean(uniform) - 0.5) < 0.033
    assert ops.random.integer(1) == 0


def test_distributions(ops):
    ops.random.begin_minibatch(5, 0)
    x = np.empty((300, 400), np.float32)
    ops.random.fill_uniform(x)
    assert x.min() >= 0 and x.max() < 1
    assert abs(x.mean() - 0.5) < 0.005 and abs(x.var() - 1 / 12) < 0.002


def test_the_largest_normal_number():
    """A word of zeros stands for half of the step between uniform numbers, whose logarithm is finite."""
    zero, quarter = np.uint64(0), np.uint64(1 << 30)
    assert normal_pair(zero, zero) == pytest.approx((np.sqrt(50.0 * np.log(2.0)), 0.0))
    assert normal_pair(zero, quarter) == pytest.approx((0.0, np.sqrt(50.0 * np.log(2.0))), abs=1e-6)


def test_calls_of_one_component_draw_different_numbers():
    ops = get_ops()
    ops.random.begin_minibatch(7, 3)
    drawn = []
    for call in (0, 1, 0):
        ops.random.select(2, call)
        dst = np.empty((3, 5), dtype=np.float32)
        ops.random.fill_uniform(dst)
        drawn.append((dst, ops.random.integer(1 << 30)))
    assert (drawn[0][0] == drawn[2][0]).all() and drawn[0][1] == drawn[2][1]
    assert (drawn[0][0] != drawn[1][0]).all() and drawn[0][1] != drawn[1][1]


# -- scratch space -----------------------------------------------------------------------------------------------------


def test_shapes_and_alignment():
    space = Workspace()
    for _ in range(3):
        space.reset_scratch()
        a, b, c = space.scratch(3, 5), space.scratch_vector(7), space.scratch(0, 4)
        assert (a.shape, b.shape, c.shape) == ((3, 5), (7,), (0, 4))
        for x in (a, b):
            assert x.dtype == np.float32 and x.flags.c_contiguous and x.ctypes.data % 64 == 0


def test_arrays_of_one_call_do_not_overlap():
    space = Workspace()
    for _ in range(3):
        space.reset_scratch()
        arrays = [space.scratch(i % 4, 1 + i) for i in range(12)] + [space.scratch_vector(i) for i in range(12)]
        for i, array in enumerate(arrays):
            array[...] = i
        for i, array in enumerate(arrays):
            assert (array == i).all()


def test_nothing_is_allocated_once_the_largest_size_was_seen(monkeypatch):
    space = Workspace()

    def call(scale):
        space.reset_scratch()
        return [space.scratch(10 * scale, 20), space.scratch_vector(100), space.scratch(3, scale)]

    for scale in (1, 3, 2):
        call(scale)
    space.reset_scratch()
    monkeypatch.setattr(resources, "_aligned_block", None)      # an allocation would fail
    for scale in (3, 1, 2, 3):
        first = call(scale)
        assert all(x is y for x, y in zip(first, call(scale), strict=True))


def test_growth_leaves_earlier_arrays_of_the_call_alone():
    space = Workspace()
    a = space.scratch(2, 2)
    a[...] = 1
    b = space.scratch(500, 500)
    b[...] = 2
    assert (a == 1).all() and (b == 2).all()


def test_release_takes_back_what_came_after_the_mark(monkeypatch):
    space = Workspace()

    def call():
        space.reset_scratch()
        kept = space.scratch(4, 4)
        kept[...] = 1
        for _ in range(100):
            mark = space.mark_scratch()
            space.scratch(3, 5)[...] = 2
            space.scratch_vector(7)[...] = 3
            space.release_scratch(mark)
        later = space.scratch(2, 2)
        later[...] = 4
        assert (kept == 1).all() and (later == 4).all()

    call()
    space.reset_scratch()
    assert space._block.size < 100              # of one round, not of all
    monkeypatch.setattr(resources, "_aligned_block", None)
    call()


def test_the_number_of_remembered_views_is_bounded(monkeypatch):
    monkeypatch.setattr(resources, "_MAX_VIEWS", 5)
    space = Workspace()
    space.scratch(100, 100)
    for n in range(50):
        space.reset_scratch()
        assert space.scratch(n, 3).shape == (n, 3)
    assert len(space._views) <= 5
