"""The card behind card_driver.py: its memory, which is the host's, and the process that computes its kernels."""
from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
import weakref
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MEMORY = 1 << 31              # bytes of the card; the file that holds them has only those that were written
ALIGNED = 256
INVALID, OUT_OF_MEMORY, ILLEGAL = 1, 2, 700      # CUresult


class Refused(Exception):
    """What the driver answers with a status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Memory:
    """The card's memory: a file that both processes map, and which parts of it are allocated."""

    def __init__(self) -> None:
        self.file, name = tempfile.mkstemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        os.unlink(name)
        os.truncate(self.file, MEMORY)
        weakref.finalize(self, os.close, self.file)
        self.map = mmap.mmap(self.file, MEMORY)
        self.bytes = np.frombuffer(self.map, np.uint8)
        self.start = self.bytes.ctypes.data
        self.used: dict[int, int] = {}
        self._starts: list[int] = []
        self._top = ALIGNED

    def allocate(self, size: int) -> int:
        """The address of so many bytes, all of them 255, which makes a NaN of every float."""
        place, self._top = self._top, self._top + -(-max(size, 1) // ALIGNED) * ALIGNED
        if self._top > MEMORY:
            raise Refused(OUT_OF_MEMORY, "out of memory")
        self.bytes[place:place + size] = 255
        self.used[self.start + place] = size
        insort(self._starts, self.start + place)
        return self.start + place

    def free(self, address: int) -> None:
        """Give it back; it is not used again, so that who uses it later is found."""
        if self.used.pop(address, None) is None:
            raise Refused(INVALID, f"{address:x} was not allocated")
        self._starts.remove(address)

    def part(self, address: int, size: int) -> np.ndarray:
        """The bytes from there on, which must be allocated as one piece."""
        at = bisect_right(self._starts, address) - 1
        if size and (at < 0 or address + size > self._starts[at] + self.used[self._starts[at]]):
            raise Refused(ILLEGAL, f"{size} bytes at {address - self.start} of the card are not allocated as one piece")
        return self.bytes[address - self.start:address - self.start + size]


class Kernels:
    """The process that computes what kernels do, and the names by which the driver knows them."""

    def __init__(self, memory: Memory) -> None:
        self.keys: dict[int, tuple[Any, ...]] = {}           # of a kernel's Python function
        self.known: dict[str, tuple[tuple[Any, ...], Any]] = {}      # by its name in a module: key, types of arguments
        self.launched: set[str] = set()
        self._memory, self._process = memory, None

    def arguments(self, types: Any, params: int) -> list[Any]:
        """What a launch gives, read where the driver reads it: an array as ("array", place, shape, strides, type)."""
        from numba.core import types as numba_types
        from numba.np.numpy_support import as_dtype

        pointers = (ctypes.c_void_p * 256).from_address(params)
        place, found = iter(range(256)), []

        def next_number(kind: Any) -> Any:
            return kind.from_address(pointers[next(place)]).value

        for each in types:
            if isinstance(each, numba_types.Array):
                _, _, count, itemsize, data = (next_number(ctypes.c_int64) for _ in range(5))
                shape, strides = (tuple(next_number(ctypes.c_int64) for _ in range(each.ndim)) for _ in range(2))
                dtype = as_dtype(each.dtype)
                if count != np.prod(shape) or itemsize != dtype.itemsize or (count and min(strides) < 0):
                    raise Refused(INVALID, f"an array of {count} elements of {itemsize} bytes, {shape}, {strides}")
                found.append(("array", data - self._memory.start if count else 0, shape, strides, dtype.str))
            else:
                found.append(as_dtype(each).type(next_number(np.ctypeslib.as_ctypes_type(as_dtype(each)))))
        return found

    def check(self, arguments: list[Any]) -> None:
        """Refuse arrays that are not within allocated memory."""
        for argument in arguments:
            if isinstance(argument, tuple) and np.prod(argument[2]):
                _, place, shape, strides, dtype = argument
                last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
                self._memory.part(self._memory.start + place, last + np.dtype(dtype).itemsize)

    def run(self, name: str, grid: tuple[int, int], block: tuple[int, int], arguments: list[Any]) -> None:
        """Compute it, in the other process."""
        self.check(arguments)
        if self._process is None:
            number = self._memory.file
            self._process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("card_kernels.py"), str(number), str(MEMORY)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[number],
                env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": os.pathsep.join(sys.path)})
        self.launched.add(name)
        pickle.dump((self.known[name][0], grid, block, arguments), self._process.stdin)
        self._process.stdin.flush()
        answer = pickle.load(self._process.stdout)
        if answer:
            raise Refused(ILLEGAL, f"{name}: {answer}")


def note_kernels(note: Callable[[tuple[Any, ...], Any], None]) -> None:
    """Have ``note`` called with each kernel that is made from now on, and with what names it in both processes.

    That is its function and arguments, and which of those that are alike it is.
    """
    from nnet3py.ops.cuda import launch

    count: Counter[tuple[Any, ...]] = Counter()
    prepare = launch.Kernel.__init__

    def prepare_and_note(kernel: Any, *args: Any) -> None:
        prepare(kernel, *args)
        function = kernel.function
        alike = function.__module__, function.__qualname__, function.__code__.co_firstlineno, kernel.kinds
        count[alike] += 1
        note((*alike, count[alike]), kernel)

    launch.Kernel.__init__ = prepare_and_note      # type: ignore[method-assign]
