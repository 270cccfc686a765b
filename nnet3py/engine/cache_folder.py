"""The folder in which compiled code is kept, and locks by which one process at a time compiles. Light: no numba.

The folder is the first of these that is set:

1. ``$NUMBA_CACHE_DIR``, if the user set it,
2. ``$NNET3PY_CACHE``,
3. the platform's cache folder (``$XDG_CACHE_HOME/nnet3py`` or ``~/.cache/nnet3py`` on Linux),

If that folder cannot be written, or other users can write it, it is a private temporary folder, with a warning: code in
the folder is executed (``trusted_files.py`` has the rules).

Locks are on bytes of an empty file in the folder. A lock belongs to a process: it ends with the process, even if that
is killed, and a forked child does not inherit it.
"""
from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from zlib import crc32

from nnet3py import system
from nnet3py.trusted_files import make_private, why_untrusted

logger = logging.getLogger("nnet3py.ops")

_private: dict[int, Path] = {}      # process id: private folder that the process made


def platform_cache_folder() -> Path:
    """Return the platform's folder for caches of this package."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "nnet3py" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nnet3py"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "nnet3py"     # as its standard says


def _why_unusable(folder: Path) -> str | None:
    """Make a folder if it is missing; return why compiled code cannot be kept there, None if it can."""
    try:
        make_private(folder)
        return why_untrusted(folder) or (None if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else
                                         "it cannot be written")
    except OSError as error:
        return f"it cannot be written: {error.strerror or error}"


def _chosen_folder() -> tuple[Path | None, str | None]:
    """Return the folder by the environment or the platform, and why it cannot be used (None if it can)."""
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("NNET3PY_CACHE")
    try:
        folder = Path(chosen).expanduser() if chosen else platform_cache_folder()
    except RuntimeError:
        return None, "there is no home directory"
    if not chosen and not folder.is_absolute():
        return folder, "the home directory is no absolute path"
    return folder, _why_unusable(folder)


@cache
def cache_folder() -> Path:
    """Return the folder in which compiled code is kept; make it if it is missing."""
    folder, fault = _chosen_folder()
    if folder is not None and fault is None:
        return folder.resolve()
    logger.warning("Compiled kernels are not kept in %s: %s; they are made again in every process (set NNET3PY_CACHE "
                   "to a folder that you alone can write)", folder or "a cache folder", fault)
    return private_folder()


@cache
def private_folder() -> Path:
    """Return a new temporary folder, which is removed when this process ends."""
    import atexit
    import tempfile

    temporary = Path(tempfile.mkdtemp(prefix="nnet3py-kernels-"))
    _private[os.getpid()] = temporary
    atexit.register(remove_private)
    return temporary


def remove_private() -> None:
    """Remove the private folder that this process made, if any; a forked child keeps that of its parent."""
    temporary = _private.pop(os.getpid(), None)
    if temporary is not None:
        import shutil

        shutil.rmtree(temporary, ignore_errors=True)


# -- one process compiles, others wait ---------------------------------------------------------------------------------



LOCK_FILE = "locks"
PATIENCE_S = 60.0           # a process that holds a lock longer was stopped, or its machine is no longer reachable
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05
_gave_up = False            # after it has waited once for so long, this process waits for no lock


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock for ``path`` inside the ``with``, so that one process at a time compiles it.

    A process continues without the lock if files cannot be locked, or after waiting for :data:`PATIENCE_S` seconds.
    Only one thread of a process may call it at a time.
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
    """Wait for the lock on byte ``place`` of the file of locks; return False without the lock after a timeout."""
    global _gave_up
    end, pause = time.monotonic() + PATIENCE_S, _FIRST_PAUSE_S
    while not _lock(descriptor, place):
        if _gave_up:
            return False
        if time.monotonic() > end:
            _gave_up = True
            logger.warning("Another process has been making %s for %.0f s: this process goes on without waiting",
                           path.name, PATIENCE_S)
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    return True


def _lock(descriptor: int, place: int) -> bool:
    """Try to lock byte ``place`` of the file of locks; return whether it is locked now.

    If locks do not work at all, this process waits for none from then on.
    """
    global _gave_up
    try:
        return system.lock_range(descriptor, place, 1)
    except OSError:
        _gave_up = True
        return False


@cache
def _lock_file() -> int | None:
    """Open the file of locks, and never close it: closing any descriptor of it would release all locks."""
    try:
        return os.open(cache_folder() / LOCK_FILE, os.O_RDWR | os.O_CREAT | system.PLAIN | system.UNFOLLOWED, 0o600)
    except OSError:
        return None
