"""The board of a server's processes: what one writes, the others read, never a part of it."""
from __future__ import annotations

import os
import threading

import pytest

from nnet3py import system
from nnet3py.recognition.server.metrics import Board, Place


def test_slots_say_what_was_written_last() -> None:
    board = Board(4)
    assert board.all() == {}
    board.write(0, {"a": 1})
    board.write(3, {"b": [1.5, "x"]})
    assert board.all() == {0: {"a": 1}, 3: {"b": [1.5, "x"]}}
    board.write(0, {})
    board.write(3, None)
    assert board.read(0) == {} and board.read(3) is None
    board.write(0, {"long": "x" * 100_000})
    assert board.read(0) == {}, "what does not fit is left out"


def test_a_place_counts_its_own_as_it_is_now() -> None:
    board = Board(4)
    board.write(0, {"n": 0})
    board.write(2, {"n": 2})
    place = Place(board, 1)
    assert place.with_others({"n": 9}) == {0: {"n": 0}, 1: {"n": 9}, 2: {"n": 2}} and place.num_processes == 2
    place.write({"n": 1})
    assert board.read(1) == {"n": 1}


def test_nobody_reads_half_of_it() -> None:
    board, is_over = Board(1), threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            board.write(0, {"numbers": [number] * (1 + number % 500)})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        values = [board.read(0) for _ in range(3000)]
    finally:
        is_over.set()
        thread.join()
    assert any(values) and all(len(set(value["numbers"])) == 1 for value in values if value)


@pytest.mark.skipif(not system.CAN_FORK, reason="processes are not copied on this system")
def test_other_processes_see_it() -> None:
    board = Board(2)
    process = system.fork()
    if process == 0:
        board.write(1, {"from": "the copy"})
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
    assert board.all() == {1: {"from": "the copy"}}
