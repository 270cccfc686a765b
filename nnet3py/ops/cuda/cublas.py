"""NVIDIA's matrix products, cuBLAS, called through ctypes on the addresses of device arrays.

The library is searched by ``cuda.pathfinder`` if that package is installed, in the wheels ``nvidia-cublas…`` (which are
installed with CuPy, PyTorch and nvmath), in the CUDA toolkit, and by the system's loader. Matrices are not copied:
they are passed as address, leading dimension and size, with any row stride.

Products are computed in float32 throughout ("pedantic"). With ``NNET3PY_TF32=1`` in the environment, or after
``allow_tf32(True)``, the factors are rounded to TF32 (10 bits of mantissa) first: many times as fast on the tensor
cores of newer GPUs.
"""
from __future__ import annotations

import ctypes
import importlib
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from nnet3py.errors import DeviceError
from nnet3py.extras import install_command
from nnet3py.ops.cuda.memory import place_of

logger = logging.getLogger(__name__)

MAJOR_VERSIONS = (13, 12, 11)
PEDANTIC, TF32 = 2, 3                       # cublasMath_t
NOT_TRANSPOSED, TRANSPOSED = 0, 1           # cublasOperation_t
FACTORS_ON_HOST, FACTORS_ON_DEVICE = 0, 1   # cublasPointerMode_t
WORKSPACE = 32 << 20                        # bytes, as NVIDIA advises for Hopper; given, so that nothing is allocated
_local = threading.local()


def _folders() -> Iterator[Path]:
    """Yield the folders to search for the library, the most likely ones first."""
    for entry in map(Path, sys.path):
        nvidia = entry / "nvidia"
        if nvidia.is_dir():
            yield nvidia / "cublas" / "lib"
            yield from (nvidia / f"cu{major}" / "lib" for major in MAJOR_VERSIONS)
            yield nvidia / "cublas" / "bin"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home = os.environ.get(variable)
        if home:
            yield from (Path(home) / name for name in ("lib64", "lib", "targets/x86_64-linux/lib", "bin", "bin/x64"))
    yield from (Path("/usr/local/cuda") / name for name in ("lib64", "targets/x86_64-linux/lib"))


def _names() -> list[str]:
    if sys.platform == "win32":
        return [f"cublas64_{major}.dll" for major in MAJOR_VERSIONS]
    return [f"libcublas.so.{major}" for major in MAJOR_VERSIONS] + ["libcublas.so"]


def _paths() -> Iterator[str]:
    """Yield candidates for the library: full paths of files that exist, then file names for the system's loader."""
    if importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.pathfinder") is not None:
        pathfinder = importlib.import_module("cuda.pathfinder")
        try:
            yield pathfinder.load_nvidia_dynamic_lib("cublas").abs_path
        except Exception as error:          # of cuda.pathfinder's own classes, with a long list of searched folders
            logger.debug("cuda.pathfinder: %s", error)
    for folder in _folders():
        yield from (str(folder / name) for name in _names() if (folder / name).is_file())
    yield from _names()


@cache
def library() -> Any:
    """Return cuBLAS as a ctypes library, or None if it is not installed."""
    for path in _paths():
        try:
            loaded = ctypes.CDLL(path)
            _declare(loaded)
        except (OSError, AttributeError) as error:
            logger.debug("cuBLAS not loaded from %s: %s", path, error)
            continue
        logger.debug("cuBLAS loaded from %s", path)
        return loaded
    return None


def _declare(loaded: Any) -> None:
    """Set the argument types of cuBLAS's functions. Raises AttributeError if a function is missing."""
    pointer, integer, number = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_float)
    for name, types in (
            ("cublasCreate_v2", [ctypes.POINTER(pointer)]), ("cublasDestroy_v2", [pointer]),
            ("cublasSetStream_v2", [pointer, pointer]), ("cublasSetMathMode", [pointer, integer]),
            ("cublasSetPointerMode_v2", [pointer, integer]),
            ("cublasSetWorkspace_v2", [pointer, pointer, ctypes.c_size_t]),
            ("cublasSgemm_v2", [pointer, integer, integer, integer, integer, integer, number, pointer, integer,
                                pointer, integer, number, pointer, integer])):
        function = getattr(loaded, name)
        function.restype, function.argtypes = ctypes.c_int, types


def tf32_is_allowed() -> bool:
    """Return whether products round their factors to TF32."""
    return _settings["tf32"]


def allow_tf32(allowed: bool) -> None:
    """Set whether products round their factors to TF32, or compute in float32 throughout (False)."""
    _settings["tf32"] = allowed


_settings = {"tf32": os.environ.get("NNET3PY_TF32", "0") not in ("", "0")}


class Cublas:
    """A handle of cuBLAS, on one stream.

    Parameters
    ----------
    loaded : the library of :func:`library`
    stream : the handle of the stream, an address or None for the default one
    workspace : a device array that the library may use, for as long as the handle lives
    """

    def __init__(self, loaded: Any, stream: int | None, workspace: Any) -> None:
        self._library, self._workspace, self._mode = loaded, workspace, -1
        self._handle = ctypes.c_void_p()
        self._check(loaded.cublasCreate_v2(ctypes.byref(self._handle)), "create a handle")
        self._check(loaded.cublasSetStream_v2(self._handle, stream), "set the stream")
        self._check(loaded.cublasSetWorkspace_v2(self._handle, place_of(workspace), workspace.size * 4),
                    "set the workspace")

    @staticmethod
    def _check(status: int, what: str) -> None:
        if status != 0:
            raise DeviceError(f"cuBLAS could not {what} (status {status})",
                              "is the installed cuBLAS made for this driver and GPU?")

    def sgemm(self, dst: Any, a: Any, b: Any, alpha: float, beta: float, trans_a: bool, trans_b: bool) -> None:
        """Compute ``dst = alpha op(a) op(b) + beta dst`` on float32 device matrices with adjacent columns."""
        factors = ctypes.byref(ctypes.c_float(alpha)), ctypes.byref(ctypes.c_float(beta))
        self._multiply(dst, a, b, factors, trans_a, trans_b)

    def sgemm_by(self, dst: Any, a: Any, b: Any, alpha: Any, beta: Any, trans_a: bool, trans_b: bool) -> None:
        """Compute as :meth:`sgemm`, with ``alpha`` and ``beta`` float32 (1,) in device memory."""
        factors = [ctypes.cast(place_of(factor), ctypes.POINTER(ctypes.c_float)) for factor in (alpha, beta)]
        self._set_pointer_mode(FACTORS_ON_DEVICE)
        try:
            self._multiply(dst, a, b, factors, trans_a, trans_b)
        finally:
            self._set_pointer_mode(FACTORS_ON_HOST)

    def _set_pointer_mode(self, mode: int) -> None:
        self._check(self._library.cublasSetPointerMode_v2(self._handle, mode), "set where factors are")

    def _multiply(self, dst: Any, a: Any, b: Any, factors: Sequence[Any], trans_a: bool, trans_b: bool) -> None:
        mode = TF32 if tf32_is_allowed() else PEDANTIC
        if mode != self._mode:
            self._check(self._library.cublasSetMathMode(self._handle, mode), "set the arithmetic")
            self._mode = mode
        m, n = dst.shape
        k = a.shape[0] if trans_a else a.shape[1]
        # A row-major matrix is the transpose of a column-major one, so cuBLAS computes dst' = op(b)' op(a)'.
        self._check(self._library.cublasSgemm_v2(
            self._handle, TRANSPOSED if trans_b else NOT_TRANSPOSED, TRANSPOSED if trans_a else NOT_TRANSPOSED, n, m, k,
            factors[0], place_of(b), leading_dim(b), place_of(a), leading_dim(a), factors[1], place_of(dst),
            leading_dim(dst)), "multiply matrices")


def leading_dim(matrix: Any) -> int:
    """Return the leading dimension: the number of elements from one row to the next, at least that of columns."""
    return max(matrix.strides[0] // 4 if matrix.shape[0] > 1 else 0, matrix.shape[1], 1)


def handle() -> Cublas | None:
    """Return the :class:`Cublas` of this thread's stream; None without cuBLAS and in the simulator."""
    from nnet3py.ops import device
    from nnet3py.ops.cuda import memory

    kept = _local.__dict__
    if "handle" not in kept:
        loaded = None if device.is_simulated() else library()
        if loaded is None:
            kept["handle"] = None
            if not device.is_simulated():
                logger.warning("cuBLAS is not installed: products use a slower kernel of nnet3py (%s)",
                               install_command("cuda"))
        else:
            kept["handle"] = Cublas(loaded, memory.stream_handle(), memory.new_array(WORKSPACE // 4))
    return kept["handle"]
