"""Trust in files of code that is kept on disk: those of the caller and root that nobody else can write. Light.

Kept files are code, or become code: whoever can write them has the rights of the caller. On systems without POSIX's
owners (Windows) the system protects a user's folders.
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
    """File that another user owns or can write."""


def why_untrusted(folder: Path) -> str | None:
    """Return the reason why files in a folder are not trusted, or None, by owners and modes of all folders above.

    Raises OSError for a folder that cannot be examined.
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
    """Return the reason why a folder or any file in it is not trusted, or None. A missing folder is trusted."""
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
    """Return the reason why a path is less trusted than the executed code ``code`` beside it, or None.

    The path may have the owner of the code, and be writable for those who can write the code. Raises OSError if either
    cannot be examined.
    """
    status, other = os.stat(path), os.stat(code)
    fault = _fault(status)
    writers, others = (mode & (stat.S_IWGRP | stat.S_IWOTH) for mode in (status.st_mode, other.st_mode))
    if fault and status.st_uid == other.st_uid and status.st_gid == other.st_gid and not writers & ~others:
        return None
    return fault and f"{path} {fault}, unlike {code}"


def read_trusted(path: Path) -> bytes:
    """Read a file. Raises UntrustedFile for a file that is not plain, or that another user owns or can write."""
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
    """Return the fault of owner and mode of a file or a folder, or None."""
    if not system.HAS_OWNERS:
        return None
    if not _is_trusted_owner(status.st_uid):
        return f"belongs to another user (uid {status.st_uid})"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by all users"
    if status.st_mode & stat.S_IWGRP and not system.is_private_group(status.st_gid):
        return f"can be written by a group (gid {status.st_gid})"
    return None
