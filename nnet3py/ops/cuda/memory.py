"""Device memory, the stream of launches and copies, and copies between host and device.

All launches and copies of a thread go through one stream, in order; the host waits for the stream only where it reads
results. Data for the device are copied from pinned memory, while the host goes on: there are two pinned buffers, used
alternately, and the host waits for a buffer only if the copy before the last has not been finished.

Only launches without work of the host between them can be captured (``graphs.py``). Code that needs the host calls
:func:`touch_host`; such a part of a computation is then run launch by launch.
"""
from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import numpy as np

from nnet3py.errors import DeviceError
from nnet3py.ops import device

cuda = device.cuda()

LEAST_RESULTS = 256          # numbers in an array of results, at least
STEP = 256                   # bytes from one staged array to the next, at least
LEAST_READ = 8192            # bytes of pinned memory for numbers that are read later
_OUT_OF_MEMORY = "OUT_OF_MEMORY"
_local = threading.local()


def stream() -> Any:
    """Return the CUDA stream of this thread, which is not the default one, since that cannot be captured."""
    thread_stream = _local.__dict__.get("stream")
    if thread_stream is None:
        thread_stream = _local.stream = cuda.stream()
    return thread_stream


def stream_handle() -> int | None:
    """Return the driver's handle of this thread's stream."""
    return getattr(stream().handle, "value", None) or int(stream().handle)


# -- work of the host ---------------------------------------------------------------------------------------


class HostNeeded(Exception):
    """Code needs the host while launches are being captured."""


def touch_host() -> None:
    """Record that the current computation needs the host: it reads, writes or decides.

    Raises HostNeeded: launches are being captured; nothing was done.
    """
    if getattr(_local, "capturing", False):
        raise HostNeeded
    _local.touches = host_touches() + 1


def host_touches() -> int:
    """Return the number of calls of :func:`touch_host` in this thread."""
    return getattr(_local, "touches", 0)


def set_capturing(capturing: bool) -> None:
    """Set whether this thread's launches are being captured."""
    _local.capturing = capturing


def is_capturing() -> bool:
    """Return whether this thread's launches are being captured."""
    return getattr(_local, "capturing", False)


def place_of(array: Any) -> int:
    """Return the address of a device array's first element; meaningless for an empty one."""
    if device.is_simulated():
        return int(array._ary.ctypes.data)
    return int(array.gpu_data.device_pointer_value or 0) if array.size else 0


# -- memory ------------------------------------------------------------------------------------------------------------


@cache
def array_class() -> Any:
    """Return a subclass of numba's device arrays that is sliced in constant time.

    numba's own class goes through all rows to slice columns, which takes milliseconds for a large matrix.
    """
    numbas = cuda.cudadrv.devicearray.DeviceNDArray

    class DeviceArray(numbas):      # type: ignore[misc, valid-type]
        """Device array that is sliced in constant time."""

        def __getitem__(self, item: Any) -> Any:
            parts = item if type(item) is tuple else (item,)
            if len(parts) > self.ndim or any(type(part) is not slice for part in parts):
                return super().__getitem__(item)
            shape, strides, start, end = [], [], 0, self.dtype.itemsize
            parts += (slice(None),) * (self.ndim - len(parts))
            for part, size, stride in zip(parts, self.shape, self.strides, strict=True):
                first, stop, step = part.indices(size)
                count = len(range(first, stop, step))
                shape.append(count)
                strides.append(stride * step)
                start += first * stride
                end += (count - 1) * stride * step
            if 0 in shape:
                return type(self)(tuple(shape), tuple(strides), self.dtype)
            if min(strides) < 0:
                return super().__getitem__(item)
            return type(self)(tuple(shape), tuple(strides), self.dtype, gpu_data=self.gpu_data.view(start, start + end))

        def view(self, dtype: Any) -> Any:
            """Return a view of the memory with another dtype."""
            seen = super().view(dtype)
            return type(self)(seen.shape, seen.strides, seen.dtype, gpu_data=seen.gpu_data)

    return DeviceArray


def new_array(shape: int | tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Return an uninitialized device array.

    Raises DeviceError: the GPU has too little free memory; the message says how much; HostNeeded: launches are being
    captured, and a graph may only use memory that exists longer than the graph.
    """
    if getattr(_local, "capturing", False):
        raise HostNeeded
    try:
        array = cuda.device_array(shape, dtype)
    except Exception as error:      # numba raises the driver's errors as several classes
        if _OUT_OF_MEMORY not in str(error):
            raise
        raise out_of_memory(int(np.prod(shape)) * np.dtype(dtype).itemsize) from error
    if device.is_simulated():
        return array
    return array_class()(array.shape, array.strides, array.dtype, gpu_data=array.gpu_data)


def out_of_memory(wanted: int) -> DeviceError:
    """Return the error for a request of ``wanted`` bytes that do not fit in the GPU's free memory."""
    free, total = cuda.current_context().get_memory_info()
    share = min(99, 100 * free // max(wanted, 1))
    return DeviceError(f"the GPU has {free / 2**20:.0f} of {total / 2**20:.0f} MB free, and {wanted / 2**20:.0f} MB "
                       "more are needed", f"use smaller minibatches (about {share} % of the size would fit; "
                       "--minibatch-size), or a GPU that nothing else uses")


def free_memory() -> tuple[int, int]:
    """Return the free and the total bytes of the GPU's memory; (0, 0) in the simulator."""
    if device.is_simulated():
        return 0, 0
    free, total = cuda.current_context().get_memory_info()
    return int(free), int(total)


def upload(table: np.ndarray) -> Any:
    """Return a copy of a host array in device memory; a device array itself."""
    if not isinstance(table, np.ndarray):
        return table
    touch_host()
    array = new_array(table.shape, table.dtype)
    if table.size:
        cuda.to_device(np.ascontiguousarray(table), stream=stream(), to=array)
    return array


_resident: dict[int, tuple[Any, Any]] = {}


def resident(table: np.ndarray) -> Any:
    """Return the device copy of a host array that never changes; made once, and kept as long as the host array."""
    key = id(table)
    entry = _resident.get(key)
    if entry is not None and entry[0]() is table:
        return entry[1]
    array = upload(table)
    stream().synchronize()       # other threads, with streams of their own, may use it from now on
    _resident[key] = weakref.ref(table, lambda _: _resident.pop(key, None)), array
    return array


def is_resident(table: np.ndarray) -> bool:
    """Return whether :func:`resident` has a copy of the array."""
    entry = _resident.get(id(table))
    return entry is not None and entry[0]() is table


# -- copies ------------------------------------------------------------------------------------------------------------


class _PinnedBuffer:
    """Page-locked host memory for copies to the device; grows as needed."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)
        self._free: Any = None

    def take(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a host array in the buffer, after waiting for the previous copy out of it."""
        if self._free is not None:
            self._free.synchronize()
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size > self._bytes.size:
            self._bytes = cuda.pinned_array(size, np.uint8)
        return self._bytes[:size].view(dtype).reshape(shape)

    def sent(self) -> None:
        """Record that the copy out of the buffer has been queued."""
        if self._free is None:
            self._free = cuda.event()
        self._free.record(stream())


class Copies:
    """Copies between host arrays and device matrices of any row stride.

    Parameters
    ----------
    copy_mat : function that returns the operation ``copy_mat``, for matrices that are not contiguous
    scratch : function (rows, cols) -> contiguous device matrix, an intermediate copy of such a matrix
    """

    def __init__(self, copy_mat: Callable[[], Any], scratch: Callable[[int, int], Any]) -> None:
        self._copy_mat, self._scratch = copy_mat, scratch
        self._buffers = [_PinnedBuffer(), _PinnedBuffer()]
        self._free_places: list[tuple[np.ndarray, Any]] = []       # pinned bytes, an event
        self._free_blocks: list[Any] = []       # device bytes

    def copy_in(self, dst: Any, src: np.ndarray) -> None:
        """Copy a host array of any float type into a device array; the host does not wait."""
        touch_host()
        if not dst.size:
            return
        self._buffers.reverse()
        buffer = self._buffers[0]
        pinned = buffer.take(dst.shape, dst.dtype)
        np.copyto(pinned, src, casting="same_kind")
        if dst.is_c_contiguous():
            dst.copy_to_device(pinned, stream=stream())
        else:
            packed = self._scratch(*dst.shape)
            packed.copy_to_device(pinned, stream=stream())
            self._copy_mat()(dst, packed, 1.0)
        buffer.sent()

    @contextmanager
    def staged(self, *arrays: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """Yield contiguous copies of host arrays of any type in device memory, valid inside the ``with``.

        All arrays are sent by one copy, for which the host does not wait. Their memory is reused afterwards.
        """
        touch_host()
        starts = np.concatenate(([0], np.cumsum([-(-array.nbytes // STEP) * STEP for array in arrays])))
        block = self._take_block(int(starts[-1]))
        self._buffers.reverse()
        pinned = self._buffers[0].take((int(starts[-1]),), np.uint8)
        for array, start in zip(arrays, starts.tolist(), strict=False):
            pinned[start:start + array.nbytes].view(array.dtype)[...] = array.ravel()
        if pinned.size:
            block[:pinned.size].copy_to_device(pinned, stream=stream())
            self._buffers[0].sent()
        try:
            yield tuple(block[start:start + array.nbytes].view(array.dtype).reshape(*array.shape) if array.size
                        else new_array(array.shape, array.dtype)
                        for array, start in zip(arrays, starts.tolist(), strict=False))
        finally:
            self._free_blocks.append(block)

    def _take_block(self, size: int) -> Any:
        """Return at least ``size`` bytes of device memory that launches queued from now on may overwrite."""
        self._free_blocks.sort(key=lambda block: block.size)
        for place, block in enumerate(self._free_blocks):
            if block.size >= size:
                return self._free_blocks.pop(place)
        return new_array(1 << max(size - 1, STEP - 1).bit_length(), np.uint8)

    def copy_out(self, src: Any) -> np.ndarray:
        """Return a contiguous host copy of a device array; the host waits until the stream has finished."""
        touch_host()
        if not src.size:
            return np.empty(src.shape, src.dtype)
        if not src.is_c_contiguous():
            packed = self._scratch(*src.shape)
            self._copy_mat()(packed, src, 1.0)
            src = packed
        host = np.empty(src.shape, src.dtype)
        src.copy_to_host(host, stream=stream())
        stream().synchronize()
        return host

    def read_later(self, src: Any) -> Callable[[], np.ndarray]:
        """Queue a copy of a vector to the host; return a function that waits for it and returns it. Call it once."""
        touch_host()
        size = src.size * src.dtype.itemsize
        if not self._free_places or self._free_places[-1][0].size < size:
            self._free_places.append((cuda.pinned_array(max(size, LEAST_READ), np.uint8), cuda.event()))
        place, arrived = self._free_places.pop()
        host = place[:size].view(src.dtype).reshape(src.shape)
        src.copy_to_host(host, stream=stream())
        arrived.record(stream())

        def value() -> np.ndarray:
            arrived.synchronize()
            self._free_places.append((place, arrived))
            return host.copy()

        return value


# -- numbers that change from minibatch to minibatch -------------------------------------------------------------------

_constants: dict[tuple[str, float], Any] = {}


def constant_cell(value: float, dtype: str) -> Any:
    """Return a device array of one element, ``value``, which never changes; made once for each value."""
    key = dtype, float(value)
    if key not in _constants:
        _constants[key] = upload(np.array([value], dtype))
        stream().synchronize()
    return _constants[key]


class Results:
    """Device memory for float64 sums that operations return to the host."""

    def __init__(self) -> None:
        self._places: list[Any] = []

    def place(self, count: int) -> Any:
        """Return a device float64 (count,) array for a kernel's results, valid until the next call.

        When a larger array is made the smaller one is kept, since captured launches write to it.
        """
        if not self._places or self._places[-1].size < count:
            self._places.append(new_array(max(count, LEAST_RESULTS), np.float64))
        return self._places[-1][:count]

    def read(self, count: int) -> np.ndarray:
        """Wait for the kernel and return its results, float64 (count,) on the host."""
        touch_host()
        host = np.empty(count)
        self._places[-1][:count].copy_to_host(host, stream=stream())
        stream().synchronize()
        return host


def summed_by_host(queue: Callable[..., int]) -> Callable[..., float]:
    """Make an operation that returns a sum, from a function that queues its kernel.

    The kernel writes parts of the sum to :func:`results`; ``queue`` returns their number, 0 for a sum of 0. The
    attribute ``queue`` of the operation is the function.
    """
    @wraps(queue)
    def operation(*args: Any) -> float:
        count = queue(*args)
        return float(results().read(count).sum()) if count else 0.0

    operation.queue = queue      # type: ignore[attr-defined]
    return operation


def results() -> Results:
    """Return this thread's :class:`Results`."""
    thread_results = _local.__dict__.get("results")
    if thread_results is None:
        thread_results = _local.results = Results()
    return thread_results
