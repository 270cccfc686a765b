"""nnet3py/transducers/state_graphs.py: things that lie group by group, and larger arrays."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.transducers.state_graphs import enlarged, ranges, reachable, sources_of, starts_by, starts_of


def test_groups_of_different_sizes() -> None:
    starts = starts_of(np.array([2, 0, 3]))
    assert starts.dtype == np.int64 and starts.tolist() == [0, 2, 2, 5]
    assert starts_by(np.array([2, 0, 2, 0, 2]), 3).tolist() == starts.tolist()
    sources = sources_of(starts)
    assert sources.dtype == np.int32 and sources.tolist() == [0, 0, 2, 2, 2]
    assert ranges(np.array([7, 9, 1]), np.array([2, 0, 3])).tolist() == [7, 8, 1, 2, 3]


def test_states_on_paths_to_the_end() -> None:
    """Of 0 -> 1 -> 2, 1 -> 3 and 4 -> 2, where 2 is final: 3 leads nowhere, nothing leads to 4."""
    starts, targets = np.array([0, 1, 3, 3, 3, 4]), np.array([1, 2, 3, 2], dtype=np.int32)
    is_final = np.arange(5) == 2
    from_start, to_end = reachable(0, starts, targets, is_final)
    assert from_start.tolist() == [True, True, True, True, False] and to_end.tolist() == [True, True, True, False, True]
    assert not reachable(-1, starts, targets, is_final)[0].any()


def test_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    assert starts_of(nothing).tolist() == [0] and starts_by(nothing, 2).tolist() == [0, 0, 0]
    assert sources_of(np.zeros(1, np.int64)).size == 0 and ranges(nothing, nothing).size == 0


@pytest.mark.parametrize("array", [np.arange(3, dtype=np.int32), np.arange(8.0).reshape(4, 2)])
def test_rows_stay_when_an_array_grows(array: np.ndarray) -> None:
    larger = enlarged(array)
    assert larger.shape == (2 * len(array), *array.shape[1:]) and larger.dtype == array.dtype
    np.testing.assert_array_equal(larger[:len(array)], array)
    assert enlarged(array, 9).shape[0] >= 9 and len(enlarged(array, 1)) == len(array)
