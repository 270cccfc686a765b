"""Saying that kernels are compiled: it takes half a minute in the first runs on a machine, and nothing else happens."""
from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nnet3py import log
from nnet3py.engine.cache_folder import cache_folder

logger = logging.getLogger("nnet3py.ops")

MOST = 230                     # kernels that there are, or a few more; most processes need a fifth of them
_SECONDS_BETWEEN = 10.0        # between two lines in a log

_state = {"count": 0, "start": 0.0, "said": 0.0}


@contextmanager
def compiling() -> Iterator[None]:
    """While a kernel is compiled, show how many there have been so far; a log gets a line at first, and some later.

    They are shown on a terminal, or below a notebook's cell.
    """
    now = time.monotonic()
    _state["start"] = _state["start"] or now
    _state["count"] += 1
    count, seconds = int(_state["count"]), now - _state["start"]
    if count == 1:
        logger.info("Compiling kernels for this machine (once; they are kept in %s)", cache_folder())
        _state["said"] = now
    shown = log.show_status(f"Compiling, once: {log.bar(count - 1, MOST, 'at most {} kernels', seconds)}")
    if not shown and now - _state["said"] >= _SECONDS_BETWEEN:
        logger.info("Compiled %d kernels so far, in %.0f s", count - 1, seconds)
        _state["said"] = now
    try:
        yield
    finally:
        log.show_status("")
