"""A folder of compiled computations, so that other processes need not compile them again.

Any number of processes may use one folder: an entry appears whole or not at all. What is wrong with an entry or with
the folder is never an error: what cannot be read is compiled. A folder that another user owns or can write is not used
(``trusted_files.py`` has the rules). Nothing but entries is ever removed.
"""
from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from nnet3py.compiler.cache_entry import from_bytes, to_bytes
from nnet3py.compiler.computation import Computation
from nnet3py.engine.cache_folder import cache_folder
from nnet3py.errors import Nnet3Error
from nnet3py.trusted_files import UNFINISHED, UntrustedFile, make_private, read_trusted, why_untrusted, write_private

logger = logging.getLogger(__name__)

ENVIRONMENT = "NNET3PY_COMPUTATION_CACHE"
DEFAULT_MAX_BYTES = 512 << 20
SUFFIX = ".computation"
ABANDONED_AFTER = 3600.0             # seconds, after which nobody is still writing one
_KEPT = 0.8                          # of the bytes allowed, once there were too many


class DiskCache:
    """The computations in one folder, by key.

    Parameters
    ----------
    folder : made when the first entry is stored
    max_bytes : the least recently used entries beyond this are removed
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self._num_bytes: int | None = None       # of all entries, as far as this process knows
        self._is_usable = True
        self._trusted: bool | None = None        # not known yet
        self._warned: set[str] = set()

    def load(self, key: str, check: Callable[[Computation], None]) -> Computation | None:
        """The computation of that key; None if there is none that can be read and passes ``check``."""
        path = self._path(key)
        if not self._is_trusted():
            return None
        try:
            data = read_trusted(path)
        except FileNotFoundError:
            return None
        except UntrustedFile as error:
            self._warn("entry", f"{error}: it is compiled again")
            return None
        except OSError as error:
            self._folder_trouble("read", error)
            return None
        try:
            computation = from_bytes(data, key)
            check(computation)
        except Nnet3Error as error:
            self._warn("entry", f"{path} cannot be used and will be compiled again: {error}")
            return None
        with suppress(OSError):
            os.utime(path)                       # used now
        return computation

    def store(self, key: str, computation: Computation) -> None:
        """Keep a computation; warns once if that is not possible."""
        data = to_bytes(computation, key)
        if not self._is_usable or len(data) > self.max_bytes:
            return
        path = self._path(key)
        try:
            make_private(self.folder)
            if not self._is_trusted():
                return
            write_private(path, data)
        except OSError as error:
            self._is_usable = False
            self._folder_trouble("write", error)
            return
        self._make_room(len(data))

    def _is_trusted(self) -> bool:
        """False, with a warning, if others can put computations into the folder; it is looked at once it exists."""
        if self._trusted is None:
            try:
                fault = why_untrusted(self.folder)
            except OSError:
                return True
            self._trusted = fault is None
            if fault is not None:
                self._warn("folder", f"{fault}; computations are neither taken from {self.folder} nor kept there")
        return self._trusted

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _make_room(self, added: int) -> None:
        """Count the bytes that were added, and remove the least recently used entries if there are too many."""
        if self._num_bytes is not None and self._num_bytes + added <= self.max_bytes:
            self._num_bytes += added
            return
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        if total > self.max_bytes:
            for _, size, path in sorted(entries):
                if total <= _KEPT * self.max_bytes:
                    break
                with suppress(OSError):          # another process may have removed it
                    path.unlink()
                total -= size
        self._num_bytes = total

    def _entries(self) -> list[tuple[float, int, Path]]:
        """When it was last used, size in bytes, and path of each entry; what was never finished is removed."""
        entries = []
        with suppress(OSError), os.scandir(self.folder) as files:
            for file in files:
                with suppress(OSError):
                    if file.name.endswith(SUFFIX):
                        status = file.stat()
                        entries.append((status.st_mtime, status.st_size, Path(file.path)))
                    elif file.name.endswith(UNFINISHED) and file.stat().st_mtime < time.time() - ABANDONED_AFTER:
                        os.unlink(file.path)
        return entries

    def _folder_trouble(self, what: str, error: OSError) -> None:
        self._warn("folder", f"cannot {what} computations in {self.folder}: {error.strerror or error}; they are "
                             "compiled in every process")

    def _warn(self, about: str, message: str) -> None:
        """Warn about each kind of trouble once."""
        logger.log(logging.DEBUG if about in self._warned else logging.WARNING, "Computation cache: %s", message)
        self._warned.add(about)


@cache
def _disk_cache(folder: Path) -> DiskCache:
    return DiskCache(folder)


def default_folder() -> str:
    """Where computations are kept by default.

    The folder that the environment variable names ("": none), else one next to the kernels.
    """
    named = os.environ.get(ENVIRONMENT)
    return named if named is not None else str(cache_folder() / "computations")


def disk_cache(folder: str | os.PathLike[str] | None) -> DiskCache | None:
    """The cache in ``folder``, or if that is None, in ``$NNET3PY_COMPUTATION_CACHE``; None without either."""
    chosen = os.environ.get(ENVIRONMENT, "") if folder is None else os.fspath(folder)
    if not chosen:
        return None
    path = Path(chosen)
    with suppress(RuntimeError):                 # no home folder
        path = path.expanduser()
    return _disk_cache(path.absolute())
