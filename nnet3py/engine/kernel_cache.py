"""Where compiled kernels are kept between processes: compiling takes a tenth of a second per kernel.

All are below the folder of ``cache_folder.py``, in one whose name is made from everything they depend on: every
source file of ``nnet3py.ops`` that the kernel's file imports, directly or not, those of ``nnet3py.engine``, versions,
the processor. (numba, which keeps those of GPUs, goes by the one file that holds a function, and so misses a change in
a function called from another file.) Light: no numba.
"""
from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from nnet3py.engine import code_files
from nnet3py.engine.cache_folder import cache_folder, private_folder
from nnet3py.engine.process_lock import alone
from nnet3py.trusted_files import make_private, why_any_untrusted

logger = logging.getLogger("nnet3py.ops")

_OPS = Path(__file__).resolve().parents[1] / "ops"

# `from nnet3py.ops.x import a, b`, its names perhaps in brackets, or `import nnet3py.ops.x`; parsing would take longer
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+(nnet3py\.ops[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|"
                     rb"import[ \t]+(nnet3py\.ops[\w.]*))", re.MULTILINE)


@cache
def _sources() -> dict[str, Path]:
    """The source files below ``ops/``, by the name of their module."""
    digests = {}
    for path in _OPS.rglob("*.py"):
        parts = ("nnet3py", "ops", *path.relative_to(_OPS).with_suffix("").parts)
        digests[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return digests


@cache
def _imported_sources(path: Path) -> frozenset[Path]:
    """The source files below ``ops/`` that the file at ``path`` imports itself."""
    sources = _sources()
    paths: set[Path] = set()
    for package, names, module in _IMPORT.findall(path.read_bytes()):
        base = (package or module).decode()
        below = (f"{base}.{word}" for word in re.findall(r"\w+", names.decode()))
        paths.update(sources[name] for name in (base, *below) if name in sources)
    return frozenset(paths)


@cache
def sources_of(path: Path) -> frozenset[Path]:
    """All source files that the machine code of the kernels in the file at ``path`` depends on."""
    sources, pending = set(), [path]
    while pending:
        source = pending.pop()
        if source not in sources:
            sources.add(source)
            pending.extend(_imported_sources(source))
    return frozenset(sources)


def _folder_of(path: Path) -> Path:
    """The folder for what numba keeps of the kernels in the source file at ``path``."""
    return cache_folder() / code_files.folder_name(sources_of(path))


@cache
def _trusted(folder: Path) -> Path:
    """The folder, or a private one if any file in it may be another user's: numba evaluates what it finds there."""
    with suppress(OSError):
        make_private(folder)         # what numba writes there has the mode that the umask gives
    fault = why_any_untrusted(folder)
    if fault is None:
        return folder
    logger.warning("Compiled kernels are not taken from %s, but made again: %s", folder, fault)
    return private_folder() / folder.name


@contextmanager
def kept_on_disk(path: Path, compiler: str = "") -> Iterator[None]:
    """What numba caches inside belongs to the kernels of the source file at ``path``.

    Only one thread of one process is inside at a time, for a file. ``compiler`` names a compiler that does not come
    with numba, so that its code is kept apart.
    """
    from numba.core import config as numba_config

    config: Any = numba_config     # its attributes are made when it is imported
    with code_files.lock:           # also because CACHE_DIR is shared by the whole process
        folder = _trusted(Path(f"{_folder_of(path)}{compiler}"))
        before = config.CACHE_DIR
        config.CACHE_DIR = str(folder)
        try:
            with alone(folder):
                yield
        finally:
            config.CACHE_DIR = before
