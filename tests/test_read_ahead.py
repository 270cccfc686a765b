"""nnet3py/io/read_ahead.py: order, bounds, errors and early ends."""
from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from nnet3py.errors import Nnet3Error
from nnet3py.io.read_ahead import map_ahead, read_ahead

SOON_S = 5.0           # a thread that has not acted by then never will


def wait_for(condition) -> None:
    until = time.monotonic() + SOON_S
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    assert condition()


class Source:
    """Numbers from 0 on; ``given`` of them were taken, and ``closed`` says whether it was."""

    def __init__(self, count: int, error_at: int = -1) -> None:
        self.count, self.error_at = count, error_at
        self.given, self.closed = 0, False

    def items(self) -> Iterator[int]:
        try:
            for number in range(self.count):
                if number == self.error_at:
                    raise Nnet3Error(f"bad {number}")
                self.given += 1
                yield number
        finally:
            self.closed = True


@pytest.mark.parametrize("most", [1, 3, 100])
def test_everything_comes_in_order(most: int) -> None:
    source = Source(50)
    assert list(read_ahead(source.items(), most)) == list(range(50))
    assert source.closed


def test_the_number_of_items_is_bounded() -> None:
    source = Source(50)
    ahead = read_ahead(source.items(), 3)
    assert next(ahead) == 0
    wait_for(lambda: source.given == 5)         # one is out, three are held, one waits
    time.sleep(0.02)
    assert source.given == 5
    ahead.close()
    assert source.closed


def test_the_number_of_bytes_is_bounded() -> None:
    source = Source(50)
    ahead = read_ahead(source.items(), 40, most_bytes=100, size=lambda number: 30 if number < 10 else 1000)
    assert next(ahead) == 0
    wait_for(lambda: source.given == 5)         # 3 · 30 bytes are held
    time.sleep(0.02)
    assert source.given == 5
    assert list(ahead) == list(range(1, 50))    # one that is larger than all that may be held comes, too


def test_what_may_be_held_is_held() -> None:
    source = Source(50)
    ahead = read_ahead(source.items(), 40, most_bytes=100, size=lambda number: 50)
    assert next(ahead) == 0
    wait_for(lambda: source.given == 4)         # 2 · 50 bytes are held, and the next one waits
    assert list(ahead) == list(range(1, 50))


def test_an_error_comes_in_its_place() -> None:
    source = Source(50, error_at=4)
    found = []
    with pytest.raises(Nnet3Error, match="bad 4"):
        for number in read_ahead(source.items(), 8):
            found.append(number)
    assert found == [0, 1, 2, 3] and source.closed


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    for _ in range(3):
        ahead = read_ahead(Source(50).items(), 2)
        next(ahead)
        ahead.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(num_threads: int) -> None:
    def slowly(number: int) -> int:
        time.sleep(0.002 if number % 3 == 0 else 0)
        return number * number

    assert list(map_ahead(slowly, range(30), num_threads)) == [number * number for number in range(30)]


def test_results_are_computed_side_by_side() -> None:
    meeting = threading.Barrier(2)

    def meets(number: int) -> int:
        return meeting.wait(timeout=10.0) * 0 + number

    assert list(map_ahead(meets, range(4), 2)) == [0, 1, 2, 3]
    here = threading.get_ident()
    assert list(map_ahead(lambda _: threading.get_ident() == here, range(3), 1)) == [True] * 3


@pytest.mark.parametrize("num_threads", [1, 2])
def test_an_error_of_a_result_comes_in_its_place(num_threads: int) -> None:
    def fails(number: int) -> int:
        if number == 5:
            raise Nnet3Error("bad 5")
        return number

    found = []
    source = Source(30)
    with pytest.raises(Nnet3Error, match="bad 5"):
        for number in map_ahead(fails, source.items(), num_threads):
            found.append(number)
    assert found == [0, 1, 2, 3, 4] and source.given <= 5 + 1 + 2 * num_threads
