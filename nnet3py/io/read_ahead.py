"""Reading one entry ahead in a thread, for ``ark,bg:``."""
from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")

_PATIENCE_S = 0.1       # how often a waiting thread looks whether anybody still wants its item


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield ``items``, while a thread already fetches the next one. Its exceptions are raised here."""
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=1)
    unwanted = threading.Event()

    def put(kind: str, item: Any) -> bool:
        while not unwanted.is_set():
            try:
                ready.put((kind, item), timeout=_PATIENCE_S)
                return True
            except queue.Full:
                continue
        return False

    def fetch() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:      # handed over, so that it is raised where the items are used
            put("error", error)

    thread = threading.Thread(target=fetch, name="nnet3py read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise item
            yield item
    finally:
        unwanted.set()
        thread.join()
