"""Compiling functions by numba, each with an entry that Python calls, or one that compiled code calls.

A function must not allocate memory or raise: then its machine code refers to nothing of numba's.
"""
from __future__ import annotations

import gc
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Flags
from numba.core.targetconfig import ConfigStack

from nnet3py.engine import compile_notice, numba_target, symbols
from nnet3py.engine.code_bytes import Code
from nnet3py.engine.numba_target import njit
from nnet3py.engine.python_code import I64, POINTER, Python

_NUMBAS = re.compile(rb"\b(?:numba_\w+|NRT_\w+)")


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


def make(function: Callable[..., Any], signature: Sequence[Any], needs: Iterable[str] = (),
         fastmath: Any = False) -> Code:
    """Compile a function that Python is to call.

    Parameters
    ----------
    function : a plain function that numba can compile; it follows numpy where Python would raise (1/0 is inf)
    signature : the numba types of its arguments: numbers, booleans, arrays; addresses, for which Python may give bytes
    needs : symbols of ours that it may refer to
    fastmath : False, or the set of LLVM's fast-math flags that it tolerates
    """
    result = _compiled(function, tuple(signature), fastmath)
    names = inspect.signature(function).parameters
    defaults = function.__defaults__ or ()
    strange = [value for value in defaults if not isinstance(value, (bool, int, float))]
    if strange:
        raise TypeError(f"{function.__name__} has default values that are no numbers: {strange}")
    if any(isinstance(kind, types.Array) for kind in signature):
        needs = (*needs, symbols.ARRAY)
    entry = _python_entry(result, function.__name__, list(names))
    return _code(result, entry, needs, tuple(names) if defaults else (), defaults)


def make_c_function(function: Callable[..., Any], signature: Sequence[Any], needs: Iterable[str] = ()) -> Code:
    """Compile a function of numbers, with no result, that compiled code is to call as a C function."""
    result = _compiled(function, tuple(signature), False)
    return _code(result, _c_entry(result), needs)


def make_of_llvm(name: str, function_type: ir.FunctionType, build: Callable[[Any, ir.IRBuilder, Any], None],
                 needs: Iterable[str] = ()) -> Code:
    """Compile a C function that ``build`` writes in LLVM's code, given numba's context, a builder and the arguments."""
    context = numba_target.context()
    module = context.create_module(name)
    function = ir.Function(module, function_type, f"nnet3py.{name}")
    build(context, ir.IRBuilder(function.append_basic_block("start")), function.args)
    content = context.codegen().create_library(name).object_file(function)
    return Code(function.name, (), (), tuple(needs), content)


def _compiled(function: Callable[..., Any], signature: tuple[Any, ...], fastmath: Any) -> Any:
    _load_numba_without_scipy()
    defaults: Any = Flags()          # not the flags of a function that is being compiled and needs this one
    defaults.nrt = True              # else no function may return a view of an array
    with compile_notice.compiling(), _no_garbage_collection(), ConfigStack().enter(defaults):
        dispatcher: Any = njit(signature, fastmath=fastmath)(function)
    return dispatcher.overloads[dispatcher.signatures[0]]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """numba makes a million objects and few cycles: looking for these takes a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _code(result: Any, entry: ir.Function, needs: Iterable[str], names: tuple[str, ...] = (),
          defaults: tuple[float | bool, ...] = ()) -> Code:
    content: bytes = result.library.object_file(entry)
    foreign = sorted({name.decode() for name in _NUMBAS.findall(content)})
    if foreign:
        raise ValueError(f"{result.fndesc.qualname} cannot be kept: it calls {', '.join(foreign)} of numba")
    return Code(entry.name, names, defaults, tuple(name for name in needs if name.encode() in content), content)


def _new_entry(result: Any, function_type: ir.FunctionType) -> tuple[ir.Function, ir.IRBuilder]:
    name = f"nnet3py.entry.{result.fndesc.unique_name}"
    module = result.target_context.create_module(name)
    entry = ir.Function(module, function_type, name)
    return entry, ir.IRBuilder(entry.append_basic_block("start"))


def _call(result: Any, builder: ir.IRBuilder, arguments: Sequence[Any]) -> tuple[Any, Any]:
    """Call the compiled function; numba's status and its result."""
    convention, described = result.target_context.call_conv, result.fndesc
    function_type = convention.get_function_type(described.restype, described.argtypes)
    function = cgutils.get_or_insert_function(builder.module, function_type, described.llvm_func_name)
    return convention.call_function(builder, function, described.restype, described.argtypes, arguments,
                                    attrs=("noinline",))


def _c_entry(result: Any) -> ir.Function:
    kinds = [result.target_context.get_value_type(kind) for kind in result.fndesc.argtypes]
    entry, builder = _new_entry(result, ir.FunctionType(ir.VoidType(), kinds))
    _call(result, builder, entry.args)
    builder.ret_void()
    return entry


def _python_entry(result: Any, name: str, arguments: list[str]) -> ir.Function:
    entry, builder = _new_entry(result, ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), I64]))
    _, given, count = entry.args
    api = Python(result.target_context, builder, ir.Constant(POINTER, None))
    kinds = result.fndesc.argtypes
    api.fail_if(builder.icmp_signed("!=", count, ir.Constant(I64, len(kinds))),
                f"{name}() takes {len(kinds)} positional arguments: {', '.join(arguments)}")
    values = [api.value(builder.load(builder.gep(given, [ir.Constant(I64, i)])), kind, f"{name}(): {argument}")
              for i, (kind, argument) in enumerate(zip(kinds, arguments, strict=True))]
    state = api.call("PyEval_SaveThread", POINTER)
    status, returned = _call(result, builder, values)
    api.call("PyEval_RestoreThread", ir.VoidType(), state)
    api.fail_if(status.is_error, f"{name}() failed")
    builder.ret(api.object_of(returned, result.fndesc.restype))
    return entry
