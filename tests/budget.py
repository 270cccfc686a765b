"""A plugin of pytest that ends the tests when their time is over: ``-p budget --budget=SECONDS``.

Time counts from the first test, so not while tests are collected. What is not done then is said.
"""
from __future__ import annotations

import os
import signal
import threading

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", type=float, default=0.0, help="seconds for the tests, from the first one (0: no end)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("budget") > 0.0 and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Budget(config.getoption("budget")))


class Budget:
    """Interrupts this process ``seconds`` after the first test began."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        self._is_over = False
        self._num_done = 0

    def pytest_runtest_logstart(self) -> None:
        """A test begins, here or in a process that this one started."""
        if self._timer is None:
            self._timer = threading.Timer(self._seconds, self._end)
            self._timer.daemon = True
            self._timer.start()

    def _end(self) -> None:
        self._is_over = True
        os.kill(os.getpid(), signal.SIGINT)

    def pytest_runtest_logfinish(self) -> None:
        """A test has ended."""
        self._num_done += 1

    def pytest_sessionfinish(self) -> None:
        """Nothing is left to interrupt."""
        if self._timer is not None:
            self._timer.cancel()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which budget it was, and how to have more."""
        if self._is_over:
            terminalreporter.write_line(
                f"The tests were ended: TEST_BUDGET={self._seconds:g} seconds from the first test are over, after "
                f"{self._num_done} tests. On a slow or busy machine: make test TEST_BUDGET={2 * self._seconds:g}",
                red=True)
