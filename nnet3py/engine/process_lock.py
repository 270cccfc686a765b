"""One process makes a thing, others wait for it. Light.

Locks are ranges of one empty file in the cache folder. They belong to a process: they end with it, however it ends, and
a child of a fork has none of them.
"""
from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from zlib import crc32

from nnet3py import system
from nnet3py.engine.cache_folder import cache_folder

logger = logging.getLogger("nnet3py.ops")

FILE = "locks"
PATIENCE_S = 60.0           # a process that takes longer was stopped, or is on a machine that is gone
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05
_gave_up = False            # waiting in vain once is enough: then this process waits for nobody


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Only one process at a time is inside for the same ``path``, as far as that is possible.

    It is not where files cannot be locked; and whoever has waited in vain for :data:`PATIENCE_S` goes on. To be used
    by one thread at a time.
    """
    descriptor = _lock_file() if system.can_lock() and not _gave_up else None
    place = crc32(os.fsencode(path)) & 0x7FFFFFFF
    is_ours = descriptor is not None and _wait_for(descriptor, place, path)
    try:
        yield
    finally:
        if descriptor is not None and is_ours:
            with suppress(OSError):
                system.unlock_range(descriptor, place, 1)


def _wait_for(descriptor: int, place: int, path: Path) -> bool:
    """True once the place in the file is ours; False if it cannot be."""
    global _gave_up
    end, pause = time.monotonic() + PATIENCE_S, _FIRST_PAUSE_S
    while not _lock(descriptor, place):
        if _gave_up:
            return False
        if time.monotonic() > end:
            _gave_up = True
            logger.warning("Another process has been making %s for %.0f s: it is not waited for", path.name, PATIENCE_S)
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    return True


def _lock(descriptor: int, place: int) -> bool:
    """Whether the lock could be taken; nobody waits where locks do not work."""
    global _gave_up
    try:
        return system.lock_range(descriptor, place, 1)
    except OSError:
        _gave_up = True
        return False


@cache
def _lock_file() -> int | None:
    """Open for as long as the process lives: closing it once would end all of the process's locks."""
    try:
        return os.open(cache_folder() / FILE, os.O_RDWR | os.O_CREAT | system.PLAIN | system.UNFOLLOWED, 0o600)
    except OSError:
        return None
