"""Where compiled kernels are kept, and how a function becomes one.

Compiling takes a tenth of a second per kernel, so the machine code is kept on disk between processes, in the folder of
``nnet3py/cache_folder.py``.

numba keys its cache by the one file that holds a function, and so misses a change in a function called from another
file. Below the folder we therefore add a name made of a hash: of every source file of ``nnet3py.ops`` that the
kernel's file imports, directly or not, and of the versions of Python, numpy and numba and the processor's name.
"""
from __future__ import annotations

import hashlib
import importlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba.core import config as numba_config

from nnet3py.cache_folder import cache_folder

config: Any = numba_config     # its attributes are made when it is imported
logger = logging.getLogger("nnet3py.ops")

_OPS = Path(__file__).resolve().parent
_lock = threading.RLock()      # config.CACHE_DIR is shared by the whole process
_announced = False


# `from nnet3py.ops.x import a, b`, its names perhaps in brackets, or `import nnet3py.ops.x`; parsing would take longer
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+(nnet3py\.ops[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|"
                     rb"import[ \t]+(nnet3py\.ops[\w.]*))", re.MULTILINE)


@cache
def _imported_sources(path: Path) -> frozenset[Path]:
    """The source files below ``ops/`` that the file at ``path`` imports itself."""
    found: set[Path] = set()
    for package, names, module in _IMPORT.findall(path.read_bytes()):
        base = (package or module).decode()
        for name in (base, *(f"{base}.{word.decode()}" for word in re.findall(rb"\w+", names))):
            stem = _OPS.joinpath(*name.split(".")[2:])
            found.update(source for source in (stem / "__init__.py", stem.with_suffix(".py")) if source.is_file())
    return frozenset(found)


@cache
def source_hash(path: Path) -> str:
    """A hash of all that decides the machine code of the kernels in the file at ``path``."""
    sources, pending = set(), [path]
    while pending:
        source = pending.pop()
        if source not in sources:
            sources.add(source)
            pending.extend(_imported_sources(source))
    digest = hashlib.sha256()
    for fact in (sys.version, np.__version__, numba.__version__, llvmlite.binding.get_host_cpu_name()):
        digest.update(fact.encode() + b"\0")
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def kept_on_disk(path: Path, compiler: str = "") -> Iterator[None]:
    """What numba caches inside belongs to the kernels of the source file at ``path``; for one thread at a time.

    ``compiler`` names a compiler that does not come with numba, so that its code is kept apart.
    """
    with _lock:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_folder() / (source_hash(path) + compiler))
        try:
            yield
        finally:
            config.CACHE_DIR = before


@cache
def _load_numba_without_scipy() -> None:
    """Load what numba needs before its first function, but not all of ``scipy.linalg``: that takes 0.2 s and 13 MB.

    numba imports it to see whether it is there. Functions that need it import it again, so nothing is lost by waiting.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    try:
        linalg: Any = importlib.import_module("numba.np.linalg")
        check = linalg.ensure_blas
    except (ImportError, AttributeError):      # another numba: it will load scipy
        return
    linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = check


def compile_cached(function: Callable[..., Any], signature: tuple[Any, ...],
                   fastmath: Any = False) -> Callable[..., Any]:
    """Machine code of ``function`` for one signature, from the disk cache if it is there.

    Parameters
    ----------
    function : a plain function that numba can compile
    signature : the numba types of its arguments
    fastmath : False, or the set of LLVM's fast-math flags that the kernel can bear

    Returns
    -------
    A callable that releases the GIL, checks no bounds, and follows numpy where Python would raise (1/0 is inf).
    """
    return _cached(function, numba.njit(signature, nogil=True, error_model="numpy", cache=True, fastmath=fastmath))


def compile_c_function(function: Callable[..., Any], signature: Any) -> int:
    """Address of a C function made of ``function``, from the disk cache if it is there; ``signature`` has its types."""
    address: int = _cached(function, numba.cfunc(signature, cache=True, error_model="numpy")).address
    return address


def _cached(function: Callable[..., Any], compile_function: Callable[..., Any]) -> Any:
    """What ``compile_function`` makes of ``function``, with our folder as its cache."""
    global _announced
    with kept_on_disk(Path(function.__code__.co_filename).resolve()):
        _load_numba_without_scipy()
        compiled = compile_function(function)
        if not _announced and getattr(compiled, "stats", None) and compiled.stats.cache_misses:
            _announced = True
            logger.info("Compiling kernels for this machine (once; they are kept in %s)", cache_folder())
    return compiled
