"""The server's counters as Prometheus' text, and the board by which processes share them."""
from __future__ import annotations

import os
import re
import threading

import pytest

from nnet3py import system
from nnet3py.recognition.server.metrics import Board, Metrics, Place, text_of
from nnet3py.system import resident_bytes

LINE = re.compile(r'# (HELP|TYPE) [a-z0-9_]+ .+|[a-z0-9_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+')


def test_the_text() -> None:
    metrics = Metrics()
    metrics.count("connections_total")
    metrics.count("errors_total", label="idle")
    metrics.count("sound_seconds_total", 12345678.5)
    metrics.connections = 3
    for seconds in (0.001, 0.05, 0.06, 99.0):
        metrics.answered(seconds)
    text = metrics.text()
    assert text.endswith("\n") and all(LINE.fullmatch(line) for line in text.splitlines()), text
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert samples["nnet3py_connections_total"] == "1" and samples["nnet3py_connections"] == "3"
    assert samples['nnet3py_errors_total{kind="idle"}'] == "1"
    assert samples["nnet3py_sound_seconds_total"] == "12345678.5"
    buckets = [int(value) for name, value in samples.items() if "_bucket" in name]
    assert buckets == [1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 4]
    assert samples["nnet3py_answer_seconds_count"] == "4"
    assert float(samples["nnet3py_answer_seconds_sum"]) == pytest.approx(99.111)


def test_a_counter_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        Metrics().count("other_total")


def test_memory_of_this_process() -> None:
    size = resident_bytes()
    assert size is None or size > 1 << 20


def test_several_processes_have_a_label() -> None:
    one, two = Metrics(), Metrics()
    one.count("errors_total", 2, label="idle")
    two.answered(0.001)
    two.connections = 7
    text = text_of({"1": one.state(), "12": two.state()})
    assert all(LINE.fullmatch(line) for line in text.splitlines()), text
    names = [line.rsplit(" ", 1)[0] for line in text.splitlines()]
    assert len(set(names)) == len(names), "a metric has one help, and each of its series one line"
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert samples['nnet3py_errors_total{kind="idle",process="1"}'] == "2"
    assert samples['nnet3py_connections{process="12"}'] == "7" and samples['nnet3py_connections{process="1"}'] == "0"
    assert samples['nnet3py_answer_seconds_bucket{le="+Inf",process="12"}'] == "1"
    assert samples['nnet3py_answer_seconds_count{process="1"}'] == "0"


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
