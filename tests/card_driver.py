"""A card in place of a card: NVIDIA's driver, with the host's memory and kernels that numba's simulator runs.

``pytest -p card_driver -p gpu_device tests/test_computer.py`` computes networks with numba's real CUDA target, or
numba-cuda's: kernels are compiled by NVVM, and contexts, copies, streams, events, graphs and launches go to functions
of the driver that are written here, in Python. What a kernel does is computed by another process, in numba's simulator
(``card_kernels.py``), since nothing runs PTX on a CPU.

The driver is as slow as it may be: what is queued in a stream is done when somebody waits for it, and not before. So
a copy that is read too early, or a buffer that is filled again while a copy still needs it, gives wrong results here.
Device memory is full of NaN when it is allocated, and a launch whose arrays are not within memory that is allocated
then, or something that may not be captured in a graph, is refused.

It needs a C compiler, for the shared library that numba opens.
"""
from __future__ import annotations

import atexit
import ctypes
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from card_hardware import INVALID, MEMORY, Kernels, Memory, Refused, note_kernels
from cublas_on_the_host import CublasOnTheHost

COMPUTE_CAPABILITY = int(os.environ.get("NNET3PY_CARD", "75"))      # times ten
NOT_FOUND, NOT_READY, NOT_SUPPORTED, CAPTURING, IMPLICIT, BROKEN = 500, 600, 801, 900, 906, 999
ATTRIBUTES = {1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535, 8: 48 << 10, 10: 32, 12: 65536,
              16: 4, 75: COMPUTE_CAPABILITY // 10, 76: COMPUTE_CAPABILITY % 10}      # of a device, by their numbers
CONTEXT, LEGACY = 0x1000, 0
C_SOURCE = """
typedef long (*function)(long, long, long, long, long, long, long, long, long, long, long, long);
#define EXPORT(name) function name##_; \\
    int name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l) \\
    { return name##_ ? (int) name##_(a, b, c, d, e, f, g, h, i, j, k, l) : 0; }
"""
Work = Callable[[], None]


class Stream:
    """What waits to be done, in order; while it captures, what is to become a graph."""

    def __init__(self) -> None:
        self.waiting: deque[Work] = deque()
        self.captured: list[Work] | None = None


def api(*kinds: Any) -> Callable[[Any], Any]:
    """Says how long the numbers are that a function of the driver takes."""
    def mark(function: Any) -> Any:
        function.kinds = kinds
        return function

    return mark


UINT, SIZE, INT = ctypes.c_uint, ctypes.c_size_t, ctypes.c_int


class Driver:
    """The functions of the driver that numba, cuda.bindings and nnet3py call, under their names.

    Their arguments are addresses and other numbers of 64 bits, unless :func:`api` says otherwise; arguments at the end
    that play no part here are left out.
    """

    def __init__(self) -> None:
        self.memory = Memory()
        self.kernels = Kernels(self.memory)
        self.lock = threading.RLock()
        self.streams: dict[int, Stream] = {LEGACY: Stream()}
        self.contexts = threading.local()
        self.events: dict[int, tuple[Stream, Any]] = {}
        self.graphs: dict[int, list[Work]] = {}
        self.functions: dict[int, str] = {}
        self.pinned: dict[int, np.ndarray] = {}
        self.kept: list[Any] = []              # what was given by address
        self.num_graph_launches = 0
        self.calls: Counter[str] = Counter()
        self.library: Any = None
        self._handle = 0x2000
        self.callbacks = {name: self._callback(name) for name in dir(type(self)) if name.startswith("cu")}

    def _callback(self, name: str) -> Any:
        method = getattr(self, name)

        def call(*args: int) -> int:
            with self.lock:
                self.calls[name] += 1
                try:
                    method(*args)
                except Refused as refusal:
                    if refusal.status not in (NOT_FOUND, NOT_READY):       # these are answers
                        print(f"{name}: {refusal}", file=sys.stderr)
                    return refusal.status
                except BaseException:
                    traceback.print_exc()
                    return BROKEN
            return 0

        kinds = getattr(method, "kinds", (SIZE,) * (method.__code__.co_argcount - 1))
        return ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(call)

    def _nothing(self):
        """Do nothing."""

    def _new(self, result):
        """Answer with a new handle."""
        self.put(result, self.new_handle())

    def _same(self, result, given):
        """Answer with what is given."""
        self.put(result, given)

    cuInit = cuLinkAddData = cuLinkDestroy = cuLibraryUnload = cuModuleUnload = _nothing
    cuDevicePrimaryCtxRelease = cuDevicePrimaryCtxSetFlags = _nothing
    cuModuleLoadDataEx = cuLibraryLoadData = _new
    cuLibraryGetModule = cuKernelGetFunction = cuMemHostGetDevicePointer = _same

    def new_handle(self) -> int:
        """A number that stands for something."""
        self._handle += 16
        return self._handle

    @staticmethod
    def put(address: int, value: int, kind: Any = SIZE) -> None:
        """Write a result where the caller wants it."""
        if address:
            kind.from_address(address).value = value

    # -- streams -------------------------------------------------------------------------------------------------------

    def queue(self, stream: int, work: Work) -> None:
        """Have it done in the stream's turn, or make it part of what is captured."""
        self.refuse_capturing(stream == LEGACY)
        target = self.streams[stream]
        (target.waiting if target.captured is None else target.captured).append(work)

    def refuse_capturing(self, refused: bool) -> None:
        """What waits for all streams breaks a capture in any of them."""
        if refused and any(stream.captured is not None for stream in self.streams.values()):
            raise Refused(IMPLICIT, "the default stream waits for one that is capturing")

    def finish(self, stream: Stream, until: Any = None) -> None:
        """Do what waits in a stream, up to a mark or all of it."""
        ended = until is not None and until not in stream.waiting
        while stream.waiting and not ended:
            work = stream.waiting.popleft()
            work()
            ended = work is until

    def finish_all(self) -> None:
        """Do all there is."""
        self.refuse_capturing(True)
        for stream in self.streams.values():
            self.finish(stream)

    cuCtxSynchronize = cuDevicePrimaryCtxReset = finish_all

    def at_once(self, function: Any, *args: int) -> None:
        """Call a function that queues something in a stream, after all there is, and do it."""
        self.finish_all()
        function(*args, LEGACY)
        self.finish(self.streams[LEGACY])

    def cuStreamCreate(self, result):
        handle = self.new_handle()
        self.streams[handle] = Stream()
        self.put(result, handle)

    cuStreamCreateWithPriority = cuStreamCreate

    def cuStreamDestroy(self, stream):
        self.finish(self.streams.pop(stream))

    def cuStreamSynchronize(self, stream):
        if self.streams[stream].captured is not None:
            raise Refused(CAPTURING, "somebody waits for a stream that is capturing")
        self.finish_all() if stream == LEGACY else self.finish(self.streams[stream])

    def cuStreamQuery(self, stream):
        if self.streams[stream].waiting:
            raise Refused(NOT_READY, "")

    def cuStreamWaitEvent(self, stream, event):
        self.queue(stream, lambda: self.cuEventSynchronize(event))

    def cuStreamIsCapturing(self, stream, status):
        self.put(status, int(self.streams[stream].captured is not None), INT)

    def cuStreamGetCtx(self, stream, result):
        self.put(result, CONTEXT)

    def cuEventCreate(self, result):
        handle = self.new_handle()
        self.events[handle] = self.streams[LEGACY], object()
        self.put(result, handle)

    def cuEventDestroy(self, event):
        self.events.pop(event)

    def cuEventRecord(self, event, stream):
        def mark() -> None:
            pass

        self.events[event] = self.streams[stream], mark
        self.queue(stream, mark)

    def cuEventSynchronize(self, event):
        self.finish(*self.events[event])

    def cuEventQuery(self, event):
        stream, mark = self.events[event]
        if mark in stream.waiting:
            raise Refused(NOT_READY, "")

    # -- graphs --------------------------------------------------------------------------------------------------------

    def cuStreamBeginCapture(self, stream):
        if stream == LEGACY or self.streams[stream].captured is not None:
            raise Refused(CAPTURING, "a stream that cannot capture now")
        self.streams[stream].captured = []

    def cuStreamEndCapture(self, stream, result):
        captured, self.streams[stream].captured = self.streams[stream].captured, None
        handle = self.new_handle()
        self.graphs[handle] = captured
        self.put(result, handle)

    def cuGraphGetNodes(self, graph, nodes, count):
        self.put(count, len(self.graphs[graph]))

    def cuGraphInstantiateWithFlags(self, result, graph):
        handle = self.new_handle()
        self.graphs[handle] = list(self.graphs[graph])
        self.put(result, handle)

    def cuGraphLaunch(self, graph, stream):
        self.num_graph_launches += 1
        for work in self.graphs[graph]:
            self.queue(stream, work)

    def cuGraphDestroy(self, graph):
        self.graphs.pop(graph)

    cuGraphExecDestroy = cuGraphDestroy

    # -- memory --------------------------------------------------------------------------------------------------------

    def cuMemAlloc(self, result, size):
        self.put(result, self.memory.allocate(size))

    def cuMemFree(self, address):
        self.finish_all()
        self.memory.free(address)

    def cuMemGetInfo(self, free, total):
        self.put(free, MEMORY // 2)
        self.put(total, MEMORY)

    def cuMemHostAlloc(self, result, size):
        array = np.full(size, 255, np.uint8)
        self.pinned[array.ctypes.data] = array
        self.put(result, array.ctypes.data)

    def cuMemFreeHost(self, address):
        self.finish_all()
        del self.pinned[address]

    @api(SIZE, INT, SIZE)
    def cuPointerGetAttribute(self, result, attribute, address):
        if attribute == 1:
            self.put(result, CONTEXT)
        elif attribute == 2:        # memory of the device, or of the host
            self.put(result, 2 if self.memory.start <= address < self.memory.start + MEMORY else 1, INT)
        elif attribute == 3:
            self.put(result, address)
        elif attribute in (8, 9):
            self.put(result, 0, INT)
        else:
            raise Refused(NOT_SUPPORTED, f"attribute {attribute} of a pointer")

    @api(UINT, SIZE, SIZE, SIZE)
    def cuPointerGetAttributes(self, count, attributes, results, address):
        for n in range(count):
            self.cuPointerGetAttribute(SIZE.from_address(results + 8 * n).value,
                                       INT.from_address(attributes + 4 * n).value, address)

    def is_pinned(self, address: int) -> bool:
        """Whether it is in memory of the host that a copy may read or write later."""
        return any(start <= address < start + array.size for start, array in self.pinned.items())

    @staticmethod
    def on_host(address: int, size: int) -> np.ndarray:
        """Memory of the host as bytes."""
        return np.frombuffer((ctypes.c_ubyte * size).from_address(address), np.uint8)

    def cuMemcpyHtoDAsync(self, dst, src, size, stream):
        self.memory.part(dst, size)
        source = self.on_host(src, size)
        if not self.is_pinned(src):        # the driver copies it before it returns
            source = source.copy()

        def copy() -> None:
            self.memory.part(dst, size)[:] = source

        self.queue(stream, copy)

    def cuMemcpyDtoHAsync(self, dst, src, size, stream):
        self.memory.part(src, size)

        def copy() -> None:
            self.on_host(dst, size)[:] = self.memory.part(src, size)

        self.queue(stream, copy)
        if not self.is_pinned(dst):        # the driver waits for it
            if self.streams[stream].captured is not None:
                raise Refused(CAPTURING, "a copy to memory that is not pinned, in a capture")
            self.finish(self.streams[stream])

    def cuMemcpyDtoDAsync(self, dst, src, size, stream):
        def copy() -> None:
            self.memory.part(dst, size)[:] = self.memory.part(src, size)

        self.queue(stream, copy)

    def cuMemcpyHtoD(self, dst, src, size):
        self.at_once(self.cuMemcpyHtoDAsync, dst, src, size)

    def cuMemcpyDtoH(self, dst, src, size):
        self.at_once(self.cuMemcpyDtoHAsync, dst, src, size)

    def cuMemcpyDtoD(self, dst, src, size):
        self.at_once(self.cuMemcpyDtoDAsync, dst, src, size)

    @api(SIZE, ctypes.c_ubyte, SIZE, SIZE)
    def cuMemsetD8Async(self, dst, value, size, stream):
        self.queue(stream, lambda: self.memory.part(dst, size).fill(value))

    @api(SIZE, ctypes.c_ubyte, SIZE)
    def cuMemsetD8(self, dst, value, size):
        self.at_once(self.cuMemsetD8Async, dst, value, size)

    # -- modules and kernels -------------------------------------------------------------------------------------------

    def cuLinkCreate(self, count, options, values, result):
        self.put(result, self.new_handle())

    def cuLinkComplete(self, state, result, size):
        self.kept.append(ctypes.create_string_buffer(b"\0" * 64))
        self.put(result, ctypes.addressof(self.kept[-1]))
        self.put(size, 64)

    def cuLibraryGetKernel(self, result, library, name):
        self.cuModuleGetFunction(result, library, name)

    def cuModuleGetFunction(self, result, module, name):
        handle = self.new_handle()
        self.functions[handle] = ctypes.string_at(name).decode()
        self.put(result, handle)

    @api(SIZE, INT)
    def cuFuncGetAttribute(self, result, attribute):
        self.put(result, 0 if attribute else 1024, INT)      # attribute 0: threads of a block at most

    cuKernelGetAttribute = cuFuncGetAttribute

    @api(SIZE, UINT, UINT, UINT, UINT, UINT, UINT, UINT, SIZE, SIZE, SIZE)
    def cuLaunchKernel(self, function, grid_x, grid_y, grid_z, x, y, z, shared, stream, params, extra):
        name = self.functions[function]
        if grid_z != 1 or z != 1 or min(grid_x, grid_y, x, y) < 1 or x * y > 1024 or shared:
            raise Refused(INVALID, f"{name}: a launch on {(grid_x, grid_y, grid_z)} x {(x, y, z)}, {shared} bytes")
        arguments = self.kernels.arguments(self.kernels.known[name][1], params)
        self.kernels.check(arguments)
        self.queue(stream, lambda: self.kernels.run(name, (grid_x, grid_y), (x, y), arguments))

    def cuLaunchKernelEx(self, config, function, params, extra):
        sizes = (UINT * 7).from_address(config)
        self.cuLaunchKernel(function, *sizes, SIZE.from_address(config + 32).value, params, extra)

    # -- devices and contexts ------------------------------------------------------------------------------------------

    def cuDriverGetVersion(self, result):
        self.put(result, 13000, INT)

    @api(INT, SIZE)
    def cuGetErrorName(self, status, result):
        self.kept.append(ctypes.create_string_buffer(f"CUDA_ERROR_{status}".encode()))
        self.put(result, ctypes.addressof(self.kept[-1]))

    cuGetErrorString = cuGetErrorName

    def cuDeviceGetCount(self, result):
        self.put(result, 1, INT)

    def cuDeviceGet(self, result, number):
        self.put(result, number, INT)

    def cuDeviceGetName(self, result):
        ctypes.memmove(result, b"a card in place of a card\0", 26)

    @api(SIZE, INT)
    def cuDeviceGetAttribute(self, result, attribute):
        self.put(result, ATTRIBUTES.get(attribute, 0), INT)

    def cuDeviceGetUuid(self, result):
        ctypes.memset(result, 7, 16)

    def cuDevicePrimaryCtxRetain(self, result):
        self.put(result, CONTEXT)

    def cuDevicePrimaryCtxGetState(self, device, flags, active):
        self.put(flags, 0, UINT)
        self.put(active, 1, INT)

    def _stack(self) -> list[int]:
        return self.contexts.__dict__.setdefault("stack", [])

    def cuCtxGetCurrent(self, result):
        self.put(result, self._stack()[-1] if self._stack() else 0)

    def cuCtxSetCurrent(self, context):
        self._stack()[-1:] = [context]

    def cuCtxPushCurrent(self, context):
        self._stack().append(context)

    def cuCtxPopCurrent(self, result):
        self.put(result, self._stack().pop())

    def cuCtxGetDevice(self, result):
        self.put(result, 0, INT)

    def cuCtxGetApiVersion(self, context, result):
        self.put(result, 13000, UINT)

    def cuIpcOpenMemHandle(self):
        raise Refused(NOT_SUPPORTED, "memory of other processes")

    def cuGetProcAddress(self, symbol, result, version, flags, status):
        name = ctypes.string_at(symbol).decode()
        there = name in self.callbacks
        self.put(result, ctypes.cast(self.library[name], ctypes.c_void_p).value or 0 if there else 0)
        self.put(status, 0 if there else 1, INT)
        if not there:
            raise Refused(NOT_FOUND, name)


def load_library(driver: Driver, folder: Path) -> None:
    """Compile and load libcuda.so.1, whose functions are the driver's; whoever opens that name gets it.

    When Python ends they have no effect any more: what is given back after that would call functions that are gone.
    """
    names = {f"{name}{version}": name for name in driver.callbacks for version in ("", "_v2")}
    source = folder / "driver.c"
    source.write_text(C_SOURCE + "\n".join(f"EXPORT({name})" for name in names))
    built = folder / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-o", built, source], check=True)
    library = ctypes.CDLL(str(built), mode=ctypes.RTLD_GLOBAL)
    for exported, name in names.items():
        target = ctypes.c_void_p.in_dll(library, f"{exported}_")
        target.value = ctypes.cast(driver.callbacks[name], ctypes.c_void_p).value
        atexit.register(setattr, target, "value", None)
    driver.library = library


class CublasOnTheCard(CublasOnTheHost):
    """cuBLAS for matrices on the card, in the order of its stream."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver

    def run(self, work: Work) -> None:
        """Have it done in the stream's turn."""
        self._driver.queue(self.stream, work)


def install() -> Driver:
    """Have numba's CUDA target use this driver, from now on and in this process."""
    driver = Driver()
    folder = tempfile.TemporaryDirectory()
    driver.kept.append(folder)
    load_library(driver, Path(folder.name))
    from nnet3py.ops.cuda import cublas, launch

    compile_one = launch._compile

    def note(key: tuple[Any, ...], kernel: Any) -> None:
        driver.kernels.keys[id(kernel.function)] = key

    def compile_and_note(function: Any, signature: Any, fastmath: bool) -> Any:
        compiled = compile_one(function, signature, fastmath)
        for made in compiled.overloads.values():
            driver.kernels.known[made.entry_name] = driver.kernels.keys[id(function)], signature
        return compiled

    note_kernels(note)
    launch._compile = compile_and_note
    cublas.library = lambda: CublasOnTheCard(driver)      # type: ignore[assignment]
    one_thread = launch.forced_launch((1, 1), (1, 1))
    one_thread.__enter__()
    driver.kept.append(one_thread)
    return driver


def pytest_configure(config: Any) -> None:
    """Before anything asks for numba's CUDA target."""
    config.card = install()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what ran, so that a test can see that it did."""
    card = terminalreporter.config.card
    terminalreporter.write_line(f"kernels launched: {len(card.kernels.launched)}, graphs: {card.num_graph_launches}")
