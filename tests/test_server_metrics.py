"""The server's counters as Prometheus' text."""
from __future__ import annotations

import re

import pytest

from nnet3py.recognition.server_metrics import Metrics
from nnet3py.system import resident_bytes

LINE = re.compile(r'# (HELP|TYPE) [a-z0-9_]+ .+|[a-z0-9_]+(\{[a-z]+="[^"]*"\})? [0-9.e+-]+')


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
