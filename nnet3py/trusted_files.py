"""Checks whether files of compiled code may be executed: only those that no other user can write. Light.

Whoever can write such a file can execute code with the rights of the caller. Files of the caller and of root are
trusted. On systems without POSIX's owners (Windows) nothing is checked: the system protects a user's folders.
"""
from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from nnet3py import system

ROOT = 0
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OPEN = os.O_RDONLY | system.UNFOLLOWED | system.PLAIN
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.PLAIN
UNFINISHED = ".part"         # end of the names of files that are being written


class UntrustedFile(OSError):
    """A file is not trusted, since another user owns it or can write it."""


def why_untrusted(folder: Path) -> str | None:
    """Return the reason why files in a folder are not trusted; None if they are.

    Owners and modes of the folder and of all folders above it are checked. Raises OSError if that is not possible.
    """
    if not system.HAS_OWNERS:
        return None
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        status = os.lstat(place)
        fault = _fault(status)
        if fault and place != folder and status.st_mode & stat.S_ISVTX and _is_trusted_owner(status.st_uid):
            fault = None           # sticky folders such as /tmp: users cannot rename files of others
        if fault:
            return f"{place} {fault}"
    return None


def why_any_untrusted(folder: Path) -> str | None:
    """Return the reason why a folder or a file in it is not trusted; None if all are. A missing folder is trusted."""
    if not system.HAS_OWNERS or not folder.exists():
        return None
    fault = why_untrusted(folder)
    can_be_entered = bool(os.stat(folder).st_mode & _OF_OTHERS)        # otherwise modes inside do not matter
    for path in () if fault else folder.rglob("*"):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return f"{path} is a symbolic link"
        fault = _fault(status) if can_be_entered or not _is_trusted_owner(status.st_uid) else None
        if fault:
            return f"{path} {fault}"
    return fault


def why_less_trusted(path: Path, code: Path) -> str | None:
    """Return the reason why ``path`` is less trusted than ``code``, a file that is executed anyway; None if it is not.

    ``path`` may have the same owner as the code, and may be writable for those who can write the code. Raises OSError
    if one of them cannot be examined.
    """
    status, other = os.stat(path), os.stat(code)
    fault = _fault(status)
    writers, others = (mode & (stat.S_IWGRP | stat.S_IWOTH) for mode in (status.st_mode, other.st_mode))
    if fault and status.st_uid == other.st_uid and status.st_gid == other.st_gid and not writers & ~others:
        return None
    return fault and f"{path} {fault}, unlike {code}"


def read_trusted(path: Path) -> bytes:
    """Read a file. Raises UntrustedFile for one that is no regular file, or that another user owns or can write."""
    descriptor = os.open(path, _OPEN)
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        fault = _fault(status) if stat.S_ISREG(status.st_mode) else "is not a plain file"
        if fault:
            raise UntrustedFile(f"{path} {fault}")
        return stream.read()


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only the caller can write, atomically. Raises OSError."""
    unfinished = path.with_name(f"{path.name}-{os.getpid()}-{os.urandom(4).hex()}{UNFINISHED}")
    try:
        with open(os.open(unfinished, _CREATE, 0o600), "wb") as stream:
            stream.write(data)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def make_private(folder: Path) -> None:
    """Make a folder, with missing folders above it, that only the caller may enter. Raises OSError."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        if folder.parent == folder:
            break
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(mode=0o700, exist_ok=True)


def _is_trusted_owner(owner: int) -> bool:
    """Return whether an owner is the caller, root, or the owner of ``/``, who is root under mapped user ids."""
    return owner in (system.user_id(), ROOT) or owner == os.lstat(os.sep).st_uid


def _fault(status: os.stat_result) -> str | None:
    """Return why the owner or the mode of a file or folder makes it untrusted; None if it is trusted."""
    if not system.HAS_OWNERS:
        return None
    if not _is_trusted_owner(status.st_uid):
        return f"belongs to another user (uid {status.st_uid})"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by all users"
    if status.st_mode & stat.S_IWGRP and not system.is_private_group(status.st_gid):
        return f"can be written by a group (gid {status.st_gid})"
    return None
