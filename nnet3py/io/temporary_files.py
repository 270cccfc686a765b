"""Temporary files, to which outputs are written until they are complete.

A process removes its unfinished files when it ends. A killed process cannot, so files are locked while they are
written: the next process that writes the same output removes those that are not locked.
"""
from __future__ import annotations

import atexit
import itertools
import os
import re
import stat
from contextlib import suppress
from functools import cache

from nnet3py import system

NAME = re.compile(r"\.(.*)\.[0-9]+-[0-9]+\.tmp", re.DOTALL)
_LONGEST = 60               # characters of the output's name that are part of it
_numbers = itertools.count()
_unfinished: dict[str, str] = {}               # each file that is being written -> its final name
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unfinished.clear)      # they belong to its parent


def create(final: str) -> tuple[int, str]:
    """Create a temporary file in the folder of ``final``, which it will replace; return its descriptor and name.

    Raises OSError.
    """
    folder, base = os.path.split(final)
    for abandoned in _left_behind(folder).pop(base[:_LONGEST], ()):
        _remove_if_unlocked(os.path.join(folder, abandoned))
    while True:
        path = os.path.join(folder, f".{base[:_LONGEST]}.{os.getpid()}-{next(_numbers)}.tmp")
        _unfinished[path] = final              # before it exists, since a signal may come at any moment
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.PLAIN, 0o666)
            break
        except FileExistsError:
            del _unfinished[path]
        except OSError:
            del _unfinished[path]
            raise
    with suppress(OSError):                    # nothing to replace, or not ours: the mode that the umask gives is right
        system.set_mode(descriptor, stat.S_IMODE(os.stat(final).st_mode))
    _try_to_lock(descriptor)
    return descriptor, path


def is_output(final: str) -> bool:
    """Return whether this process is writing a temporary file for ``final``."""
    return final in _unfinished.values()


def is_ours(path: str) -> bool:
    """Return whether this process created the file; a forked child must not touch its parent's files."""
    return path in _unfinished


def rename(path: str) -> None:
    """Give a complete file its final name. If that raises OSError, the file is removed."""
    try:
        os.replace(path, _unfinished[path])
        del _unfinished[path]
    except OSError:
        remove(path)
        raise


def remove(path: str) -> None:
    """Remove a temporary file, if this process created it."""
    if _unfinished.pop(path, None) is not None:
        with suppress(OSError):
            os.remove(path)


def remove_all() -> None:
    """Remove all unfinished temporary files of this process."""
    for path in list(_unfinished):
        remove(path)


atexit.register(remove_all)


@cache
def _left_behind(folder: str) -> dict[str, list[str]]:
    """Return the names of temporary files in a folder by the name of their output, as of the first call (cached)."""
    folders: dict[str, list[str]] = {}
    with suppress(OSError):
        for name in os.listdir(folder or "."):
            match = NAME.fullmatch(name)
            if match:
                folders.setdefault(match[1], []).append(name)
    return folders


def _remove_if_unlocked(path: str) -> None:
    """Remove another process's temporary file, unless that process is still writing it, or this cannot be found out."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | system.UNFOLLOWED | system.PLAIN)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and _try_to_lock(descriptor):
                os.remove(path)
        finally:
            os.close(descriptor)


def _try_to_lock(descriptor: int) -> bool:
    try:
        return system.lock_range(descriptor)
    except OSError:
        return False
