"""The folder in which compiled code is kept between processes. Light: no numba.

It is the first of these that is given:

1. ``$NUMBA_CACHE_DIR``, if the user set it,
2. ``$NNET3PY_CACHE``,
3. the platform's cache folder (``$XDG_CACHE_HOME/nnet3py`` or ``~/.cache/nnet3py`` on Linux),

or a private temporary folder, with a warning, where that cannot be written, or where others can: what lies there is
executed (``trusted_files.py`` has the rules).
"""
from __future__ import annotations

import logging
import os
import sys
from functools import cache
from pathlib import Path

from nnet3py.trusted_files import make_private, why_untrusted

logger = logging.getLogger("nnet3py.ops")

_private: dict[int, Path] = {}      # the private folder, by the process that made it


def platform_cache_folder() -> Path:
    """The folder where programs of this platform keep what they can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "nnet3py" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nnet3py"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "nnet3py"     # as its standard says


def _why_unusable(folder: Path) -> str | None:
    """Why compiled code cannot be kept in a folder, which is made if it is missing; None if it can."""
    try:
        make_private(folder)
        return why_untrusted(folder) or (None if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else
                                         "it cannot be written")
    except OSError as error:
        return f"it cannot be written: {error.strerror or error}"


def _chosen_folder() -> tuple[Path | None, str | None]:
    """The folder that is named first, and why it cannot be used."""
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
    """The folder that holds the compiled code of every version; made if it is missing."""
    folder, fault = _chosen_folder()
    if folder is not None and fault is None:
        return folder.resolve()
    logger.warning("Compiled kernels are not kept in %s: %s; they are made again in every process (set NNET3PY_CACHE "
                   "to a folder that you alone can write)", folder or "a cache folder", fault)
    return private_folder()


@cache
def private_folder() -> Path:
    """A new folder which goes with this process."""
    import atexit
    import tempfile

    temporary = Path(tempfile.mkdtemp(prefix="nnet3py-kernels-"))
    _private[os.getpid()] = temporary
    atexit.register(remove_private)
    return temporary


def remove_private() -> None:
    """Remove the private folder, if this process made one: it is about to end. A forked child leaves its parent's."""
    temporary = _private.pop(os.getpid(), None)
    if temporary is not None:
        import shutil

        shutil.rmtree(temporary, ignore_errors=True)
