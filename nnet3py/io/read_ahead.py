"""Threads that fetch or compute the next items while the present one is used, such as for ``ark,bg:`` and training."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


_PATIENCE_S = 5.0        # how long to wait for a thread that nobody needs; what it reads may never come


class _Ahead:
    """A queue between a thread that fetches items and their user; it is full at ``most`` items or ``most_bytes``."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._changed = threading.Condition()
        self._ready: deque[tuple[str, Any, int]] = deque()
        self._num_bytes = 0
        self._unwanted = False

    def put(self, kind: str, item: Any, num_bytes: int = 0) -> bool:
        """Wait for room and add an item; return False after :meth:`stop`."""
        with self._changed:
            self._changed.wait_for(lambda: self._unwanted or not self._ready or (
                len(self._ready) < self._most and self._num_bytes + num_bytes <= self._most_bytes))
            self._ready.append((kind, item, num_bytes))
            self._num_bytes += num_bytes
            self._changed.notify_all()
            return not self._unwanted

    def take(self) -> tuple[str, Any]:
        """Wait for the next item and return it."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready)
            kind, item, num_bytes = self._ready.popleft()
            self._num_bytes -= num_bytes
            self._changed.notify_all()
            return kind, item

    def stop(self) -> None:
        """Let :meth:`put` return False from now on, so that the thread ends."""
        with self._changed:
            self._unwanted = True
            self._changed.notify_all()


def read_ahead(items: Iterable[Item], most: int = 1, most_bytes: int = 1 << 62,
               size: Callable[[Item], int] = lambda item: 0) -> Iterator[Item]:
    """Yield ``items``, which a thread fetches ahead. Its exceptions are raised here.

    The thread holds up to ``most`` items of together up to ``most_bytes`` bytes, measured by ``size(item)``, but at
    least one, besides the item that it is fetching.
    """
    ahead = _Ahead(most, most_bytes)

    def fetch() -> None:
        try:
            for item in items:
                if not ahead.put("item", item, size(item)):
                    return
            ahead.put("end", None)
        except BaseException as error:      # handed over, so that it is raised where the items are used
            ahead.put("error", error)
        finally:
            close = getattr(items, "close", None)       # of a generator, which may hold a file open
            if close is not None:
                close()

    thread = threading.Thread(target=fetch, name="nnet3py read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = ahead.take()
            if kind == "end":
                return
            if kind == "error":
                raise item
            yield item
    finally:
        ahead.stop()
        thread.join(_PATIENCE_S)


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item], num_threads: int) -> Iterator[Result]:
    """Yield ``function(item)`` for each of ``items``, in order, computed ahead in ``num_threads`` threads.

    Up to twice as many results as threads are computed or held. Exceptions are raised in place of the result.
    """
    if num_threads < 2:
        yield from map(function, items)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(num_threads, "nnet3py map-ahead") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) == 2 * num_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
