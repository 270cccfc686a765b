"""A command, run in this process with one part of the engine replaced by what a library offers for it.

    engine_parts.replaced PART TIMES PROGRAM ARGUMENTS...   (benchmarks/engine.py starts it)

PART is a key of PARTS. The seconds of the clock and of the processor of each minibatch that is trained are written to
TIMES as JSON. Replaced code is compiled into kernels, so each part needs a cache folder (NNET3PY_CACHE) of its own.
"""
from __future__ import annotations

import ctypes
import inspect
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

_kept: list[Any] = []                # machine code that must live


def nothing() -> None:
    """The engine as it is."""


def _for_numba(function: Callable[..., Any], **options: Any) -> Any:
    """A function for numba's own target, with those that it calls, which are made for the engine's."""
    import numba
    from numba.core.dispatcher import Dispatcher

    made = {name: _for_numba(value.py_func) if isinstance(value, Dispatcher) else value
            for name, value in function.__globals__.items() if name in function.__code__.co_names}
    copied = FunctionType(function.__code__, {**function.__globals__, **made}, function.__name__, function.__defaults__)
    copied.__module__ = function.__module__
    return numba.njit(error_model="numpy", **options)(copied)


def team() -> None:
    """numba's own threads instead of the team: a parallel loop over the chunks of a job."""
    import llvmlite.binding
    import numba
    from numba import cfunc, prange, set_num_threads, types

    from nnet3py.engine import interface, kernel_files, team, team_code
    from nnet3py.engine.threads import num_threads

    chunk_size, call_part = _for_numba(team_code._chunk_size.py_func), team_code.call_part

    @numba.njit(parallel=True)
    def run_chunks(function, arguments, count, chunk):  # type: ignore[no-untyped-def]
        for number in prange(-(-count // chunk)):
            call_part(function, arguments, number * chunk, min((number + 1) * chunk, count))

    @cfunc(types.void(*[types.intp] * 6))
    def share(function, arguments, count, work_per_unit, multiple, per_thread):  # type: ignore[no-untyped-def]
        chunk = chunk_size(count, work_per_unit, multiple, per_thread)
        if chunk >= count:
            call_part(function, arguments, 0, count)
        else:
            run_chunks(function, arguments, count, chunk)

    set_num_threads(num_threads())
    _kept.extend((share, team))
    kernel_files.provide([interface.SHARE])         # first, so that it does not replace this one later
    llvmlite.binding.add_symbol(interface.SHARE, share.address)


def tiles() -> None:
    """scipy's BLAS instead of tiles, its products cut and shared as on processors that the tiles are not for."""
    from nnet3py.engine import product_rule

    product_rule.set_rule(product_rule.ALL_BLAS)


def _instead_of_kernels(make: Callable[[Any], Callable[..., Any]]) -> None:
    """Have ``make`` give what is called for a kernel; its module is imported in any case."""
    from nnet3py.engine import interface, kernel_files
    from nnet3py.engine.jit import Kernel

    def compile_kernel(self: Any) -> Callable[..., Any]:
        if self._compiled is None:
            kernel_files.provide(interface.SYMBOLS)
            self._compiled = _with_defaults(make(self), self.function)
        return self._compiled  # type: ignore[no-any-return]

    kernel_files.find = lambda source, name: None
    Kernel.compile = compile_kernel  # type: ignore[method-assign]


def _with_defaults(called: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes the arguments of ``function``, for one that needs them all."""
    if not function.__defaults__:
        return called
    signature = inspect.signature(function)

    def call(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        return called(*bound.args)

    return call


def loading() -> None:
    """numba's own cache, loading and wrappers instead of object files that llvmlite loads, and entries."""
    from nnet3py.engine.code_files import kept_on_disk

    def make(kernel: Any) -> Callable[..., Any]:
        with kept_on_disk(kernel.source):
            function = _for_numba(kernel.function, nogil=True, cache=True, fastmath=kernel.fastmath)
            function.compile(kernel.signature)
            return function  # type: ignore[no-any-return]

    _instead_of_kernels(make)


def entries() -> None:
    """ctypes instead of entries: a C function gets each array as its address, its shape and its strides."""
    from nnet3py.engine import code_files, compiling, interface, kernel_files

    def make(kernel: Any) -> Callable[..., Any]:
        def make_code() -> code_files.Code:
            result = compiling._compiled(kernel.function, kernel.signature, kernel.fastmath)
            return compiling._code(result, _flat_entry(result), interface.SYMBOLS)

        code = code_files.find_or_make(kernel_files.key_of(kernel.source, kernel.__name__), make_code)
        return _by_ctypes(code_files.load(code), kernel)

    _instead_of_kernels(make)


def _flat_entry(result: Any) -> Any:
    """A C function of numbers that calls a compiled function of arrays; it returns a double, or nothing that counts."""
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.np import arrayobj

    from nnet3py.engine import compiling

    context, i64 = result.target_context, ir.IntType(64)
    kinds = [[i64] * (1 + 2 * kind.ndim) if isinstance(kind, types.Array) else [context.get_value_type(kind)]
             for kind in result.fndesc.argtypes]
    entry, builder = compiling._new_entry(result, ir.FunctionType(ir.DoubleType(), sum(kinds, [])))
    given, values = iter(entry.args), []
    for kind, flat in zip(result.fndesc.argtypes, kinds, strict=True):
        words = [next(given) for _ in flat]
        if not isinstance(kind, types.Array):
            values.append(words[0])
            continue
        view = context.make_array(kind)(context, builder)
        arrayobj.populate_array(view, data=builder.inttoptr(words[0], view.data.type),
                                shape=cgutils.pack_array(builder, words[1:1 + kind.ndim]),
                                strides=cgutils.pack_array(builder, words[1 + kind.ndim:]),
                                itemsize=ir.Constant(i64, kind.dtype.bitwidth // 8), meminfo=None)
        values.append(view._getvalue())
    _, returned = compiling._call(result, builder, values)
    kind = result.fndesc.restype
    number: Any = ir.Constant(ir.DoubleType(), 0.0)
    if isinstance(kind, types.Float):
        number = returned if kind.bitwidth == 64 else builder.fpext(returned, ir.DoubleType())
    elif isinstance(kind, types.Integer):
        number = builder.sitofp(returned, ir.DoubleType())
    builder.ret(number)
    return entry


def _by_ctypes(address: int, kernel: Any) -> Callable[..., Any]:
    from numba.core import types

    scalars = {types.float32: ctypes.c_float, types.float64: ctypes.c_double, types.intp: ctypes.c_int64,
               types.boolean: ctypes.c_bool}
    flat: list[Any] = []
    for kind in kernel.signature:
        flat += [ctypes.c_int64] * (1 + 2 * kind.ndim) if isinstance(kind, types.Array) else [scalars[kind]]
    function = ctypes.CFUNCTYPE(ctypes.c_double, *flat)(address)
    are_arrays = [isinstance(kind, types.Array) for kind in kernel.signature]

    def call(*args: Any) -> Any:
        words: list[Any] = []
        for value, is_array in zip(args, are_arrays, strict=True):
            if is_array:
                words.append(value.ctypes.data)
                words += value.shape
                words += value.strides
            else:
                words.append(value)
        return function(*words)

    return call


def layouts() -> None:
    """Examples found by walking over each, without regular expressions learned from the archive's bytes."""
    from nnet3py.io import skim

    skim.Skimmer._learn = lambda self, value, walk: None  # type: ignore[method-assign]


PARTS: dict[str, Callable[[], None]] = {"": nothing, "team": team, "tiles": tiles, "loading": loading,
                                        "entries": entries, "layouts": layouts}


def time_minibatches() -> list[tuple[float, float]]:
    """Have the seconds of each minibatch put into a list: the clock's, and the processor's of all threads."""
    from nnet3py.training.trainer import MinibatchTrainer

    seconds: list[tuple[float, float]] = []
    train = MinibatchTrainer.train

    def timed(self: Any, eg: Any) -> None:
        start, processor_start = time.perf_counter(), time.process_time()
        train(self, eg)
        seconds.append((time.perf_counter() - start, time.process_time() - processor_start))

    MinibatchTrainer.train = timed  # type: ignore[method-assign]
    return seconds


def main() -> None:
    """Run a command and write what was timed."""
    part, times, program, *words = sys.argv[1:]
    PARTS[part]()
    from nnet3py.cli.main import collect_rarely, load

    seconds = time_minibatches() if program == "nnet3-train" else []
    collect_rarely()
    status = load(program).execute(words)
    Path(times).write_text(json.dumps(seconds), encoding="utf-8")
    sys.exit(status or 0)


if __name__ == "__main__":
    main()
