"""nnet3py/cached_property.py: computed once an object, by whichever thread, and no lock that outlives a fork."""
from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from nnet3py.cached_property import cached_property

PATIENCE_S = 20.0      # far more than a child needs that does not hang


class Thing:
    def __init__(self) -> None:
        self.num_computed = 0
        self.may_go_on, self.is_in = threading.Event(), threading.Event()

    @cached_property
    def value(self) -> object:
        """What it is."""
        self.num_computed += 1
        return object()

    @cached_property
    def slow(self) -> str:
        self.is_in.set()
        assert self.may_go_on.wait(PATIENCE_S)
        return "slow"


def test_it_is_computed_once_for_each_object() -> None:
    thing, other = Thing(), Thing()
    assert thing.value is thing.value and thing.num_computed == 1
    assert other.value is not thing.value
    assert Thing.value.__doc__ == "What it is."
    del thing.value
    assert thing.value is thing.value and thing.num_computed == 2
    thing.value = "another"
    assert thing.value == "another" and thing.num_computed == 2


def test_threads_are_given_the_same_object() -> None:
    thing, found, together = Thing(), [], threading.Barrier(4)

    def ask() -> None:
        together.wait()
        found.append(thing.value)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1 and thing.value is found[0]


def test_an_error_is_not_kept() -> None:
    class Failing:
        attempts = 0

        @cached_property
        def value(self) -> int:
            self.attempts += 1
            return 1 // (self.attempts - 1)

    failing = Failing()
    with pytest.raises(ZeroDivisionError):
        failing.value  # noqa: B018
    assert failing.value == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")      # that is what is tried
def test_a_child_of_a_fork_does_not_wait_for_a_thread_that_it_has_not() -> None:
    """With functools.cached_property of Python 3.10 and 3.11 it does, for ever."""
    busy = Thing()
    thread = threading.Thread(target=lambda: busy.slow)
    thread.start()
    try:
        assert busy.is_in.wait(PATIENCE_S)
        child = os.fork()
        if child == 0:
            thing = Thing()
            thing.may_go_on.set()
            os._exit(0 if thing.slow == "slow" else 1)
        assert _status(child) == 0
    finally:
        busy.may_go_on.set()
        thread.join()


def _status(child: int) -> int:
    """The exit status of a child, which is killed if it hangs."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
