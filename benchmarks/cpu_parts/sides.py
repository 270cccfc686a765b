"""Ours and a library's, each measured in processes of its own, which take turns.

Threads of a BLAS spin for a while when they are done, and would take the cores from ours if both were in one process.
"""
from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

SIDES = ("ours", "numpy")


def seconds_of(function: Callable[[], Any], runs: int, least: float) -> float:
    """Seconds of one call, the median of ``runs`` measurements of at least ``least`` seconds each."""
    function()
    repeat = 1
    while True:
        start = time.perf_counter()
        for _ in range(repeat):
            function()
        if time.perf_counter() - start > least:
            break
        repeat *= 2
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(repeat):
            function()
        times.append((time.perf_counter() - start) / repeat)
    return statistics.median(times)


def take_turns(script: str, words: Sequence[str], rounds: int) -> list[tuple[Any, Any]]:
    """What ``script --child=SIDE WORDS`` prints as JSON for each of ``SIDES``, once a round."""
    return [(_measured(script, SIDES[0], words), _measured(script, SIDES[1], words)) for _ in range(rounds)]


def _measured(script: str, side: str, words: Sequence[str]) -> Any:
    done = subprocess.run([sys.executable, script, f"--child={side}", *words], check=True, stdout=subprocess.PIPE,
                          text=True)
    return json.loads(done.stdout)
