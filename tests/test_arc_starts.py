"""Where each group of things that lie group by group begins."""
from __future__ import annotations

import numpy as np

from nnet3py.transducers.arc_starts import ranges, sources_of, starts_by, starts_of


def test_groups_of_different_sizes() -> None:
    starts = starts_of(np.array([2, 0, 3]))
    assert starts.dtype == np.int64 and starts.tolist() == [0, 2, 2, 5]
    assert starts_by(np.array([2, 0, 2, 0, 2]), 3).tolist() == starts.tolist()
    sources = sources_of(starts)
    assert sources.dtype == np.int32 and sources.tolist() == [0, 0, 2, 2, 2]
    assert ranges(np.array([7, 9, 1]), np.array([2, 0, 3])).tolist() == [7, 8, 1, 2, 3]


def test_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    assert starts_of(nothing).tolist() == [0] and starts_by(nothing, 2).tolist() == [0, 0, 0]
    assert sources_of(np.zeros(1, np.int64)).size == 0 and ranges(nothing, nothing).size == 0
