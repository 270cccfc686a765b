"""nnet3py/compiler/optimize/form_loop.py: which states of a computation are the same some frames apart."""
from __future__ import annotations

import pytest

from nnet3py.compiler.optimize.form_loop import _matched, _Matrix, _States

SHIFT = 3
FIRST = [_Matrix(0, 5, b"all", 1), _Matrix(1, 0, b"all", 2)]
MOVED = [_Matrix(0, 5 + SHIFT, b"all", 7), _Matrix(1, SHIFT, b"all", 8)]


def test_matrices_that_hold_the_same_some_frames_later() -> None:
    assert _matched(FIRST, MOVED, SHIFT) == [(1, 7), (2, 8)]
    assert _matched([], [], SHIFT) == []


def test_a_matrix_that_stays_at_its_time_is_the_same_one() -> None:
    assert _matched(FIRST, [MOVED[0], FIRST[1]], SHIFT) == [(1, 7), (2, 2)]
    assert _matched(FIRST, [MOVED[0], FIRST[1]._replace(matrix=8)], SHIFT) is None
    assert _matched(FIRST, [MOVED[0], MOVED[1]._replace(first_t=1, matrix=2)], SHIFT) is None


@pytest.mark.parametrize("other", [{"contents": 2}, {"live": b"some"}, {"first_t": SHIFT + 1}, {"first_t": SHIFT - 1}])
def test_states_that_differ(other: dict) -> None:
    assert _matched(FIRST, [MOVED[0], MOVED[1]._replace(**other)], SHIFT) is None
    assert _matched(FIRST, MOVED[:1], SHIFT) is None


def test_what_stays_is_used_in_two_more_rounds() -> None:
    class States(_States):
        def __init__(self, *uses: list) -> None:
            self.uses = dict(zip([(10, 20), (20, 30)], uses, strict=True))

        def _uses(self, m: int, begin: int, end: int) -> list:
            return self.uses[begin, end]

    read, splices = [("read", m) for m in range(2)], [10, 20, 30]
    assert States(read, read).stay_in_use([5], splices)
    assert not States(read, read[:1]).stay_in_use([5], splices)
    assert not States([], []).stay_in_use([5], splices)
    assert not States(read, read).stay_in_use([5], splices[:2])
    assert States([], []).stay_in_use([], [])
