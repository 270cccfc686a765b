"""The door to BLAS: scipy's ``sgemm``, called from compiled code, for processors that ``tiles.py`` does not know.

``scipy.linalg.cython_blas`` hands out the address of its ``sgemm``. We give that address a name that LLVM can link, so
a kernel that calls it can be kept in the disk cache and a call costs no more than one in C. Only that extension module
is loaded: importing all of ``scipy.linalg`` takes a tenth of a second and more, loading this file 2 ms.
"""
from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from nnet3py.errors import DeviceError
from nnet3py.ops.cpu.jit import inline
from nnet3py.ops.threads import limit_blas

SYMBOL = "nnet3py_sgemm"
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


def _register_sgemm() -> int:
    """Make ``sgemm`` known to LLVM as ``SYMBOL``; returns the width of BLAS's integers in bits."""
    capsule = _load_cython_blas().__pyx_capi__["sgemm"]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = get_name(capsule)
    argument_types = re.findall(r"[\w ]+\*", signature.decode())
    if len(argument_types) != 13:
        raise DeviceError(f"scipy's sgemm takes {signature.decode()}, expected 13 pointers", "install another scipy")
    llvmlite.binding.add_symbol(SYMBOL, get_pointer(capsule, signature))
    return 32 if argument_types[2].strip() == "int *" else 64


_INT = ir.IntType(_register_sgemm())
limit_blas()       # products are cut by us (products.py)
_N, _T = ir.Constant(ir.IntType(8), ord("N")), ir.Constant(ir.IntType(8), ord("T"))


def _sgemm(typingctx, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """BLAS's ``sgemm`` on column-major matrices: ``c = alpha op(a) op(b) + beta c``.

    trans_a, trans_b : boolean;  m, n, k, lda, ldb, ldc : intp;  alpha, beta : float32;  a, b, c : float32 arrays, of
    which only the address of the first element is used.
    """
    signature = types.void(types.boolean, types.boolean, types.intp, types.intp, types.intp, types.float32,
                           a, types.intp, b, types.intp, types.float32, c, types.intp)

    def codegen(context, builder, signature, args):
        def pointer(value):
            slot = cgutils.alloca_once_value(builder, value)
            return builder.bitcast(slot, cgutils.voidptr_t)

        def convert(kind, value):
            if isinstance(kind, types.Array):
                data = context.make_array(kind)(context, builder, value).data
                return builder.bitcast(data, cgutils.voidptr_t)
            if kind == types.boolean:
                flag = builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
                return pointer(builder.select(flag, _T, _N))
            if kind == types.intp and value.type.width > _INT.width:
                return pointer(builder.trunc(value, _INT))
            return pointer(value)

        function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t] * len(args))
        function = cgutils.get_or_insert_function(builder.module, function_type, SYMBOL)
        builder.call(function, [convert(kind, value) for kind, value in zip(signature.args, args, strict=True)])
        return context.get_dummy_value()

    return signature, codegen


sgemm: Any = intrinsic(_sgemm)


@inline
def _leading_dim(matrix):
    """Elements from one row to the next; BLAS wants at least the row's length even where there is no next row."""
    stride = matrix.strides[0] // matrix.itemsize
    return max(stride if matrix.shape[0] > 1 else 0, matrix.shape[1], 1)


@inline
def multiply(dst, a, b, alpha, beta, trans_a, trans_b):
    """``dst = alpha op(a) op(b) + beta dst`` with one thread; no dimension is 0."""
    m, n = dst.shape
    k = a.shape[0] if trans_a else a.shape[1]
    # A row-major matrix is the transpose of a column-major one, so we ask for dst' = op(b)' op(a)'.
    sgemm(trans_b, trans_a, n, m, k, alpha, b, _leading_dim(b), a, _leading_dim(a), beta, dst, _leading_dim(dst))
