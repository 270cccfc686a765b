"""The protocol by which threads share the work of a kernel, as compiled functions.

A kernel with enough work hands out chunks of its rows or columns: the calling thread takes them from the front, the
team's workers from the back, so that in kernel after kernel a worker meets rows that are in its core's cache. Nobody
waits for a worker that has not begun: a job is done when all its chunks are, and on a busy machine the caller simply
does more of them itself. Workers watch for the next job for a moment, or not at all where there are more threads than
cores, and then sleep in ``read`` on a pipe; a job wakes no more of them than it has chunks for.

All of it is compiled code without Python objects, so that sharing costs about a microsecond. One job runs at a time: a
kernel called from a second Python thread meanwhile does its work alone. Where sums are formed, chunks never split a
sum, so that results do not depend on the number of threads.
"""
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Flags
from numba.extending import intrinsic

from nnet3py.engine import compiling, interface
from nnet3py.engine.inline import c_function
from nnet3py.engine.kernel_code import Code
from nnet3py.engine.numba_target import njit
from nnet3py.engine.processor import processor
from nnet3py.engine.team import (
    ARGUMENTS,
    BUSY,
    CHUNK,
    CHUNKS,
    COUNT,
    FUNCTION,
    GATE,
    JOB,
    LIMIT,
    SLEEP,
    SLEEPING,
    WAKE,
    WATCH,
    WORKERS,
)

LEAST_WORK = 65536       # additions of numbers in memory that are worth a thread: about 8 microseconds
CHUNKS_PER_THREAD = 4    # at most: smaller chunks would use the caches badly

# bits of the gate: number of the job, whether the gate is open, and how many workers are inside
OPEN, INSIDE, JOB_SHIFT = 1 << 16, (1 << 16) - 1, 17


# -- words and calls that cannot be written in Python ------------------------------------------------------------------

_I64 = ir.IntType(64)


def _word(context: Any, builder: Any, index: Any) -> Any:
    """Return a pointer to a word of the team's memory."""
    return builder.gep(context.get_c_value(builder, _I64, interface.TEAM), [index])


def _peek(typingctx, index):
    """Return the value of a word."""
    def codegen(context, builder, signature, args):
        return builder.load_atomic(_word(context, builder, args[0]), "seq_cst", 8)

    return types.intp(types.intp), codegen


def _poke(typingctx, index, value):
    """Set a word."""
    def codegen(context, builder, signature, args):
        builder.atomic_rmw("xchg", _word(context, builder, args[0]), args[1], "seq_cst")
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


def _add(typingctx, index, value):
    """Add to a word; return its value before."""
    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", _word(context, builder, args[0]), args[1], "seq_cst")

    return types.intp(types.intp, types.intp), codegen


def _swap(typingctx, index, old, new):
    """Set a word to ``new`` if it is ``old``; return whether it was."""
    def codegen(context, builder, signature, args):
        done = builder.cmpxchg(_word(context, builder, args[0]), args[1], args[2], "seq_cst", "seq_cst")
        return builder.extract_value(done, 1)

    return types.boolean(types.intp, types.intp, types.intp), codegen


def _relax(typingctx):
    """Tell the processor that this thread is only waiting."""
    def codegen(context, builder, signature, args):
        machine = processor().triple
        if machine.startswith(("x86", "i686")):
            pause = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, pause, "llvm.x86.sse2.pause"), [])
        elif machine.startswith("aarch64"):
            hint = ir.FunctionType(ir.VoidType(), [ir.IntType(32)])
            builder.call(cgutils.get_or_insert_function(builder.module, hint, "llvm.aarch64.hint"),
                         [ir.Constant(ir.IntType(32), 1)])
        return context.get_dummy_value()

    return types.void(), codegen


def _give_way(typingctx):
    """Give this core to another thread that waits for one (``sched_yield``)."""
    def codegen(context, builder, signature, args):
        function_type = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, function_type, interface.YIELD), [])
        return context.get_dummy_value()

    return types.void(), codegen


def _pass_byte(symbol: str) -> Any:
    """Make a call of ``read`` or ``write`` of one byte, whose value does not matter."""
    def intrinsic_function(typingctx, descriptor):
        def codegen(context, builder, signature, args):
            function_type = ir.FunctionType(_I64, [ir.IntType(32), cgutils.voidptr_t, _I64])
            function = cgutils.get_or_insert_function(builder.module, function_type, symbol)
            byte = cgutils.alloca_once(builder, ir.IntType(8))
            return builder.call(function, [builder.trunc(args[0], ir.IntType(32)), byte, ir.Constant(_I64, 1)])

        return types.intp(types.intp), codegen

    return intrinsic_function


_PART = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _I64, _I64])


def _call_part(typingctx, function, arguments, first, last):
    """Call the function at an address, made by ``part_address``, with the arguments at another."""
    def codegen(context, builder, signature, args):
        target = builder.inttoptr(args[0], _PART.as_pointer())
        builder.call(target, [builder.inttoptr(args[1], cgutils.voidptr_t), args[2], args[3]])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, types.intp), codegen


def _part_address(typingctx, body, arguments):
    """Return the address of a C function that calls ``body(first, last, *arguments)`` with a tuple's address."""
    if not (isinstance(body, types.Dispatcher) and isinstance(arguments, types.BaseTuple)):
        return None
    members: Any = arguments
    kinds = (types.intp, types.intp, *members.types)

    def codegen(context, builder, signature, args):
        flags = Flags()
        body.dispatcher.targetdescr.options.parse_as_flags(flags, body.dispatcher.targetoptions)
        # without machine code of its own, which is never called and takes as long as all the rest
        compiled = context.compile_subroutine(builder, body.dispatcher.py_func, types.none(*kinds), flags=flags,
                                              caching=False)
        module = builder.module
        part = ir.Function(module, _PART, name=module.get_unique_name(f"part.{compiled.fndesc.mangled_name}"))
        part.linkage = "internal"
        inner = ir.IRBuilder(part.append_basic_block("entry"))
        packed = inner.load(inner.bitcast(part.args[0], context.get_value_type(arguments).as_pointer()))
        values = [inner.extract_value(packed, i) for i in range(len(arguments))]
        function = context.declare_function(module, compiled.fndesc)
        context.call_conv.call_function(inner, function, types.none, kinds, [part.args[1], part.args[2], *values])
        inner.ret_void()
        return builder.ptrtoint(part, _I64)

    return types.intp(body, arguments), codegen


def _address_of(typingctx, arguments):
    """Return the address of a copy of a tuple in the caller's stack frame."""
    def codegen(context, builder, signature, args):
        return builder.ptrtoint(cgutils.alloca_once_value(builder, args[0]), _I64)

    return types.intp(arguments), codegen


peek: Any = intrinsic(_peek)
poke: Any = intrinsic(_poke)
give_way: Any = intrinsic(_give_way)
add: Any = intrinsic(_add)
swap: Any = intrinsic(_swap)
relax: Any = intrinsic(_relax)
read_byte: Any = intrinsic(_pass_byte(interface.READ))
write_byte: Any = intrinsic(_pass_byte(interface.WRITE))
call_part: Any = intrinsic(_call_part)
part_address: Any = intrinsic(_part_address)
address_of: Any = intrinsic(_address_of)
inline = njit()

# -- jobs --------------------------------------------------------------------------------------------------------------


@inline
def _part_of(count, parts, multiple):
    """Return the size of ``parts`` equal parts of ``count``, rounded up to a multiple of ``multiple``."""
    return -(-count // (parts * multiple)) * multiple


@inline
def _chunk_size(count, work_per_unit, multiple, per_thread):
    """Return rows or columns of a chunk, a multiple of ``multiple``; more than ``count`` if sharing does not pay."""
    work = count * work_per_unit
    threads = min(peek(LIMIT), 1 + peek(WORKERS), work // LEAST_WORK)
    if threads <= 1:
        return count + 1
    each = max(1, min(per_thread, work // (2 * LEAST_WORK * threads)))
    size = _part_of(count, each * threads, multiple)
    # Many help where a thread is late; but where they are rounded up by much, fewer are shared far more evenly.
    for fewer in range(each - 1, 0, -1):
        larger = _part_of(count, fewer * threads, multiple)
        if larger * fewer * 8 < size * each * 7:
            size, each = larger, fewer
    return size


@inline
def _run_shared(function, arguments, count, chunk):
    """Run a job of ``count`` rows or columns with the workers' help; return False if another job is running."""
    if not swap(BUSY, 0, 1):
        return False
    poke(FUNCTION, function)
    poke(ARGUMENTS, arguments)
    poke(COUNT, count)
    poke(CHUNK, chunk)
    chunks = -(-count // chunk)
    poke(CHUNKS, chunks << 32)
    job = add(JOB, 1) + 1
    poke(GATE, (job << JOB_SHIFT) | OPEN)
    if peek(SLEEPING) > 0:
        _wake(chunks - 1 if peek(WORKERS) < peek(LIMIT) else peek(WORKERS))
    number = _take_first()
    while number >= 0:
        _run_chunk(number)
        number = _take_first()
    gate = peek(GATE)
    while not swap(GATE, gate, gate & ~OPEN):
        gate = peek(GATE)
    _wait_for_workers()
    poke(BUSY, 0)
    return True


def _share(function, arguments, count, work_per_unit, multiple, per_thread):
    """Run a job of ``count`` rows or columns, in chunks that the threads share.

    ``function`` and ``arguments`` are addresses from ``part_address`` and ``address_of``. ``work_per_unit`` is the work
    of a row or column in additions of a number in memory; chunks are multiples of ``multiple``, at most ``per_thread``
    for each thread.
    """
    chunk = _chunk_size(count, work_per_unit, multiple, per_thread)
    if chunk >= count or not _run_shared(function, arguments, count, chunk):
        call_part(function, arguments, 0, count)


@inline
def _wait_for_workers():
    """Wait for workers inside the gate; after a while, give this core to a worker that may have been stopped."""
    for _ in range(peek(WATCH)):
        if not peek(GATE) & INSIDE:
            return
        relax()
    while peek(GATE) & INSIDE:
        give_way()


@inline
def _wake(most):
    """Wake up to ``most`` sleepers; the system chooses which, so the caller asks for all where some may not work."""
    sleeping = peek(SLEEPING)
    while not swap(SLEEPING, sleeping, sleeping - min(sleeping, most)):
        sleeping = peek(SLEEPING)
    for _ in range(min(sleeping, most)):
        write_byte(peek(WAKE))


@inline
def _run_chunk(number):
    first = number * peek(CHUNK)
    call_part(peek(FUNCTION), peek(ARGUMENTS), first, min(first + peek(CHUNK), peek(COUNT)))


@inline
def _take_first():
    """Take the first chunk that is left; return its number, or -1."""
    while True:
        left = peek(CHUNKS)
        first, end = left & 0xFFFFFFFF, left >> 32
        if first >= end:
            return -1
        if swap(CHUNKS, left, left + 1):
            return first


@inline
def _take_last():
    """Take the last chunk that is left; return its number, or -1."""
    while True:
        left = peek(CHUNKS)
        first, end = left & 0xFFFFFFFF, left >> 32
        if first >= end:
            return -1
        if swap(CHUNKS, left, left - (1 << 32)):
            return end - 1


@inline
def _enter(last_job):
    """Enter the gate if a job other than ``last_job`` is open; return that job's number, or -1."""
    gate = peek(GATE)
    if gate & OPEN and gate >> JOB_SHIFT != last_job and swap(GATE, gate, gate + 1):
        return gate >> JOB_SHIFT
    return -1


def serve(worker):
    """Work as worker number ``worker`` until the process ends."""
    last_job = 0
    idle = 0
    while True:
        job = _enter(last_job) if worker < peek(LIMIT) - 1 else -1
        if job >= 0:
            number = _take_last()
            while number >= 0:
                _run_chunk(number)
                number = _take_last()
            add(GATE, -1)
            last_job = job
            idle = 0
        else:
            idle += 1
            relax()
        if idle > peek(WATCH):
            _sleep(last_job)
            idle = 0


@inline
def _sleep(last_job):
    """Sleep until a job begins: its caller then takes this worker off the number of sleepers, and writes a byte."""
    add(SLEEPING, 1)
    gate = peek(GATE)
    if gate & OPEN and gate >> JOB_SHIFT != last_job:
        sleeping = peek(SLEEPING)
        while sleeping > 0:
            if swap(SLEEPING, sleeping, sleeping - 1):
                return
            sleeping = peek(SLEEPING)
    while read_byte(peek(SLEEP)) != 1:      # a signal came: the byte that is meant for this worker will, too
        relax()


# compiled once: in every kernel it would take most of a second each time
_SHARE_KINDS = (types.intp,) * 6
share: Any = c_function(interface.SHARE, _SHARE_KINDS)


def make_share() -> Code:
    """Compile the C function ``interface.SHARE``."""
    return compiling.make_c_function(_share, _SHARE_KINDS, interface.SYMBOLS)


def make_serve() -> Code:
    """Compile :func:`serve`, the function that workers run."""
    return compiling.make(serve, (types.intp,), interface.SYMBOLS)
