"""The folder in which compiled code is kept between processes. Light: no numba.

It is, of these, the first that is named,

1. ``$NUMBA_CACHE_DIR``, if the user set it,
2. ``$NNET3PY_CACHE``,
3. the platform's cache folder (``$XDG_CACHE_HOME/nnet3py`` or ``~/.cache/nnet3py`` on Linux),

or a private temporary folder, with a warning, where that cannot be written.
"""
from __future__ import annotations

import logging
import os
import sys
from functools import cache
from pathlib import Path

logger = logging.getLogger("nnet3py.ops")


def platform_cache_folder() -> Path:
    """The folder where programs of this platform keep what they can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "nnet3py" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nnet3py"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nnet3py"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)   # cached code is executed: nobody else may write it
    except OSError:
        return False
    return os.access(folder, os.R_OK | os.W_OK | os.X_OK)


@cache
def cache_folder() -> Path:
    """The folder that holds the compiled code of every version; made if it is missing."""
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("NNET3PY_CACHE")
    try:
        folder = Path(chosen).expanduser() if chosen else platform_cache_folder()
    except RuntimeError:       # no home directory
        folder = None
    if folder is not None and _is_writable(folder):
        return folder.resolve()
    import atexit
    import shutil
    import tempfile

    temporary = Path(tempfile.mkdtemp(prefix="nnet3py-kernels-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    logger.warning("Cannot write compiled kernels to %s; they are made again in every process "
                   "(set NNET3PY_CACHE to a folder that can be written)", folder or "a home directory")
    return temporary
