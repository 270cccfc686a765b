"""Work that threads bring at any time, done together: what arrives while a batch is being done is the next batch."""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


class _Place(Generic[Task, Outcome]):
    """One thread's tasks, and their results."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.outcomes: list[Outcome] | None = None
        self.error: BaseException | None = None


class WaitingLine(Generic[Task, Outcome]):
    """Lets one thread at a time do the work of all waiting threads.

    It has no thread of its own: of the waiting threads, the next one to have its turn takes the tasks of all. So a
    single thread never waits, and the more threads there are, the more is done together.

    Parameters
    ----------
    work : does tasks, and returns an outcome for each
    """

    def __init__(self, work: Callable[[Sequence[Task]], list[Outcome]]) -> None:
        self._work = work
        self._turn = threading.Lock()
        self._waiting: list[_Place[Task, Outcome]] = []

    def wait_for(self, tasks: Sequence[Task]) -> list[Outcome]:
        """The outcomes of these tasks. An exception from ``work`` is raised in each thread whose tasks it had."""
        place: _Place[Task, Outcome] = _Place(tasks)
        self._waiting.append(place)
        with self._turn:
            if place.outcomes is None and place.error is None:
                self._serve()
        if place.error is not None:
            raise place.error
        assert place.outcomes is not None
        return place.outcomes

    def _serve(self) -> None:
        places = self._waiting[:]
        del self._waiting[:len(places)]
        try:
            outcomes = iter(self._work([task for place in places for task in place.tasks]))
            for place in places:
                place.outcomes = [next(outcomes) for _ in place.tasks]
        except BaseException as error:
            for place in places:
                place.error = error
            raise
