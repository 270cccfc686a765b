"""scipy's ``sgemm``: its address, which compiled code calls. Light: no numba.

``scipy.linalg.cython_blas`` hands out the address. Only that extension module is loaded: importing all of
``scipy.linalg`` takes a tenth of a second and more, loading this file 2 ms.
"""
from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

from nnet3py.engine.threads import limit_blas
from nnet3py.errors import DeviceError

_MODULE = "scipy.linalg.cython_blas"


def _load_cython_blas() -> ModuleType:
    """``scipy.linalg.cython_blas`` without the rest of ``scipy.linalg`` where its file is found, else the usual way."""
    import scipy  # sets up the search path of its libraries on Windows

    folder = Path(scipy.__file__).parent / "linalg"
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"cython_blas{suffix}"
        if path.is_file():
            spec = importlib.util.spec_from_file_location(_MODULE, path)
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
    return importlib.import_module(_MODULE)


@cache
def _sgemm() -> tuple[int, int]:
    """The address of ``sgemm``, and the width of BLAS's integers in bits."""
    capsule = _load_cython_blas().__pyx_capi__["sgemm"]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = get_name(capsule)
    argument_types = re.findall(r"[\w ]+\*", signature.decode())
    if len(argument_types) != 13:
        raise DeviceError(f"scipy's sgemm takes {signature.decode()}, expected 13 pointers", "install another scipy")
    limit_blas()       # products are cut by us (products.py)
    return get_pointer(capsule, signature), 32 if argument_types[2].strip() == "int *" else 64


def sgemm_address() -> int:
    """Where ``sgemm`` is; BLAS computes with one thread from now on. Raises DeviceError."""
    return _sgemm()[0]


def integer_bits() -> int:
    """The width of BLAS's integers. Raises DeviceError."""
    return _sgemm()[1]
