"""Whose files may be executed: the caller's own and root's, where nobody else can write. Light.

What is kept on disk for the next process is code, or becomes code; whoever can put it there can do what the caller can.
Where a system has no owners in POSIX's sense (Windows), a user's own folders are protected by the system.
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
UNFINISHED = ".part"         # the end of the names of files that are being written


class UntrustedFile(OSError):
    """A file that another user owns or can write."""


def why_untrusted(folder: Path) -> str | None:
    """Why files in a folder must not be executed, by who owns and can write it and those above; None if they may be.

    Raises OSError if the folder cannot be looked at.
    """
    if not system.HAS_OWNERS:
        return None
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        status = os.lstat(place)
        fault = _fault(status)
        if fault and place != folder and status.st_mode & stat.S_ISVTX and _is_trusted_owner(status.st_uid):
            fault = None           # /tmp and the like: nobody can rename what belongs to others
        if fault:
            return f"{place} {fault}"
    return None


def why_any_untrusted(folder: Path) -> str | None:
    """Return the same for a folder with all that is in it. A folder that does not exist is trusted."""
    if not system.HAS_OWNERS or not folder.exists():
        return None
    fault = why_untrusted(folder)
    can_be_entered = bool(os.stat(folder).st_mode & _OF_OTHERS)        # otherwise no mode in it lets others write
    for path in () if fault else folder.rglob("*"):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return f"{path} is a symbolic link"
        fault = _fault(status) if can_be_entered or not _is_trusted_owner(status.st_uid) else None
        if fault:
            return f"{path} {fault}"
    return fault


def why_less_trusted(path: Path, code: Path) -> str | None:
    """Why a file or folder is less safe than code that is executed anyway, which lies beside it; None if it is not.

    It may belong to whom the code belongs to, and be written by those who can write the code. Raises OSError if either
    cannot be looked at.
    """
    status, other = os.stat(path), os.stat(code)
    fault = _fault(status)
    writers, others = (mode & (stat.S_IWGRP | stat.S_IWOTH) for mode in (status.st_mode, other.st_mode))
    if fault and status.st_uid == other.st_uid and status.st_gid == other.st_gid and not writers & ~others:
        return None
    return fault and f"{path} {fault}, unlike {code}"


def read_trusted(path: Path) -> bytes:
    """Return the bytes of a file. Raises UntrustedFile if another user owns or can write it, or if it is not a plain file."""
    descriptor = os.open(path, _OPEN)
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        fault = _fault(status) if stat.S_ISREG(status.st_mode) else "is not a plain file"
        if fault:
            raise UntrustedFile(f"{path} {fault}")
        return stream.read()


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only the caller can write, and that appears whole or not at all. OSError if that fails."""
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
    """Make a folder, and those above it that are missing, which only the caller may enter. OSError if that fails."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        if folder.parent == folder:
            break
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(mode=0o700, exist_ok=True)


def _is_trusted_owner(owner: int) -> bool:
    """Return the caller, root, and whoever owns everything, as root does under another name where user ids are mapped."""
    return owner in (system.user_id(), ROOT) or owner == os.lstat(os.sep).st_uid


def _fault(status: os.stat_result) -> str | None:
    """What is wrong with the owner and the mode of a file or a folder."""
    if not system.HAS_OWNERS:
        return None
    if not _is_trusted_owner(status.st_uid):
        return f"belongs to another user (uid {status.st_uid})"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by all users"
    if status.st_mode & stat.S_IWGRP and not system.is_private_group(status.st_gid):
        return f"can be written by a group (gid {status.st_gid})"
    return None
