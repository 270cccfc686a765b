"""Scratch space: sizes, lifetimes, and that it stops allocating."""
from __future__ import annotations

import numpy as np

from nnet3py.ops import workspace
from nnet3py.ops.workspace import Workspace


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
    monkeypatch.setattr(workspace, "_aligned_block", None)      # an allocation would fail
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
    monkeypatch.setattr(workspace, "_aligned_block", None)
    call()


def test_the_number_of_remembered_views_is_bounded(monkeypatch):
    monkeypatch.setattr(workspace, "_MAX_VIEWS", 5)
    space = Workspace()
    space.scratch(100, 100)
    for n in range(50):
        space.reset_scratch()
        assert space.scratch(n, 3).shape == (n, 3)
    assert len(space._views) <= 5
