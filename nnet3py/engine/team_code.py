"""The protocol by which threads share the work of a kernel, as compiled functions.

A call of a kernel with enough work is a job: its rows or columns are cut into chunks. The calling thread takes chunks
from the front, the team's workers take them from the back, so that in one kernel after the other a worker gets rows
that are in its core's cache. A job is finished when all chunks are; the caller waits only for workers that have begun a
chunk, and on a busy machine it computes more chunks itself. A worker looks for the next job for about 100 microseconds,
or not at all if there are more threads than cores, and then sleeps in ``read`` on a pipe; a job wakes at most as many
workers as it has chunks for.

All of this is compiled code without Python objects, so that sharing takes about a microsecond. One job runs at a time:
a kernel that another Python thread calls meanwhile computes alone. Chunks never split a sum, so that results do not
depend on the number of threads.
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

LEAST_WORK = 65536       # least work of a thread in additions of numbers in memory: about 8 microseconds
CHUNKS_PER_THREAD = 4    # at most: smaller chunks would use the caches badly

# The word GATE has the number of the job, a bit that is set while workers may enter (the gate is open), and the number
# of workers that compute chunks now (that are inside).
OPEN, INSIDE, JOB_SHIFT = 1 << 16, (1 << 16) - 1, 17


# -- words and calls that cannot be written in Python ------------------------------------------------------------------

_I64 = ir.IntType(64)


def _word(context: Any, builder: Any, index: Any) -> Any:
    """Write LLVM code for the address of word ``index`` of the memory that a team shares; return the address."""
    return builder.gep(context.get_c_value(builder, _I64, interface.TEAM), [index])


def _peek(typingctx, index):
    """Return the value of word ``index``, read atomically."""
    def codegen(context, builder, signature, args):
        return builder.load_atomic(_word(context, builder, args[0]), "seq_cst", 8)

    return types.intp(types.intp), codegen


def _poke(typingctx, index, value):
    """Set word ``index`` to ``value``, atomically."""
    def codegen(context, builder, signature, args):
        builder.atomic_rmw("xchg", _word(context, builder, args[0]), args[1], "seq_cst")
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


def _add(typingctx, index, value):
    """Add ``value`` to word ``index``, atomically; return its old value."""
    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", _word(context, builder, args[0]), args[1], "seq_cst")

    return types.intp(types.intp, types.intp), codegen


def _swap(typingctx, index, old, new):
    """Set word ``index`` to ``new`` if it is ``old``, atomically (compare and swap); return whether it was."""
    def codegen(context, builder, signature, args):
        done = builder.cmpxchg(_word(context, builder, args[0]), args[1], args[2], "seq_cst", "seq_cst")
        return builder.extract_value(done, 1)

    return types.boolean(types.intp, types.intp, types.intp), codegen


def _relax(typingctx):
    """Run the processor's instruction for a thread that waits in a loop (pause or yield)."""
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
    """Let another thread run on this core (``sched_yield``)."""
    def codegen(context, builder, signature, args):
        function_type = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, function_type, interface.YIELD), [])
        return context.get_dummy_value()

    return types.void(), codegen


def _pass_byte(symbol: str) -> Any:
    """Make an intrinsic that calls ``read`` or ``write`` for one byte of any value, and returns the result."""
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
    """Call a function for rows or columns ``first`` to ``last`` - 1.

    ``function`` and ``arguments`` are addresses from ``part_address`` and ``address_of``.
    """
    def codegen(context, builder, signature, args):
        target = builder.inttoptr(args[0], _PART.as_pointer())
        builder.call(target, [builder.inttoptr(args[1], cgutils.voidptr_t), args[2], args[3]])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, types.intp), codegen


def _part_address(typingctx, body, arguments):
    """Return the address of a C function (address of the tuple ``arguments``, first, last).

    It calls ``body(first, last, *arguments)``.
    """
    if not (isinstance(body, types.Dispatcher) and isinstance(arguments, types.BaseTuple)):
        return None
    members: Any = arguments
    kinds = (types.intp, types.intp, *members.types)

    def codegen(context, builder, signature, args):
        flags = Flags()
        body.dispatcher.targetdescr.options.parse_as_flags(flags, body.dispatcher.targetoptions)
        # not compiled separately, since it is inlined below: that would double the time
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
    """Copy the tuple ``arguments`` into the caller's stack frame; return the address of the copy."""
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
    """Return ``count`` divided by ``parts``, rounded up to a multiple of ``multiple``."""
    return -(-count // (parts * multiple)) * multiple


@inline
def _chunk_size(count, work_per_unit, multiple, per_thread):
    """Return the number of rows or columns in a chunk; more than ``count`` if sharing would not be faster.

    Arguments are those of :func:`_share`.
    """
    work = count * work_per_unit
    threads = min(peek(LIMIT), 1 + peek(WORKERS), work // LEAST_WORK)
    if threads <= 1:
        return count + 1
    each = max(1, min(per_thread, work // (2 * LEAST_WORK * threads)))
    size = _part_of(count, each * threads, multiple)
    # Many small chunks help if a thread starts late. But if rounding makes them much larger, fewer ones are shared more
    # evenly.
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

    ``function`` and ``arguments`` are addresses from ``part_address`` and ``address_of``. ``work_per_unit`` is the time
    for a row or column, as the number of additions of numbers in memory that take as long. The sizes of chunks are
    multiples of ``multiple``; there are at most ``per_thread`` chunks for each thread.
    """
    chunk = _chunk_size(count, work_per_unit, multiple, per_thread)
    if chunk >= count or not _run_shared(function, arguments, count, chunk):
        call_part(function, arguments, 0, count)


@inline
def _wait_for_workers():
    """Wait until no worker computes a chunk; after a while, let other threads run, among them perhaps such a worker."""
    for _ in range(peek(WATCH)):
        if not peek(GATE) & INSIDE:
            return
        relax()
    while peek(GATE) & INSIDE:
        give_way()


@inline
def _wake(most):
    """Wake up to ``most`` sleeping workers.

    The system chooses which ones: the caller wakes all if the number of threads does not allow all of them to work.
    """
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
    """Take the first chunk that nobody has taken; return its number, or -1 if there is none."""
    while True:
        left = peek(CHUNKS)
        first, end = left & 0xFFFFFFFF, left >> 32
        if first >= end:
            return -1
        if swap(CHUNKS, left, left + 1):
            return first


@inline
def _take_last():
    """Take the last chunk that nobody has taken; return its number, or -1 if there is none."""
    while True:
        left = peek(CHUNKS)
        first, end = left & 0xFFFFFFFF, left >> 32
        if first >= end:
            return -1
        if swap(CHUNKS, left, left - (1 << 32)):
            return end - 1


@inline
def _enter(last_job):
    """Enter the gate if it is open for another job than ``last_job``; return that job's number, or -1."""
    gate = peek(GATE)
    if gate & OPEN and gate >> JOB_SHIFT != last_job and swap(GATE, gate, gate + 1):
        return gate >> JOB_SHIFT
    return -1


def serve(worker):
    """Compute chunks of jobs as worker number ``worker``, until the process ends."""
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
    """Sleep until a job begins, whose caller subtracts this worker from SLEEPING and writes a byte to the pipe."""
    add(SLEEPING, 1)
    gate = peek(GATE)
    if gate & OPEN and gate >> JOB_SHIFT != last_job:
        sleeping = peek(SLEEPING)
        while sleeping > 0:
            if swap(SLEEPING, sleeping, sleeping - 1):
                return
            sleeping = peek(SLEEPING)
    while read_byte(peek(SLEEP)) != 1:      # interrupted by a signal: the byte for this worker is still to come
        relax()


# a C function, compiled once: as part of each kernel it would take most of a second for each
_SHARE_KINDS = (types.intp,) * 6
share: Any = c_function(interface.SHARE, _SHARE_KINDS)


def make_share() -> Code:
    """Compile :func:`_share` as the C function ``interface.SHARE``."""
    return compiling.make_c_function(_share, _SHARE_KINDS, interface.SYMBOLS)


def make_serve() -> Code:
    """Compile :func:`serve`, the function that workers run."""
    return compiling.make(serve, (types.intp,), interface.SYMBOLS)
