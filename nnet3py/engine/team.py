"""The team: worker threads that share the work of kernels, and the memory by which they communicate. Light: no numba.

``team_code.py`` has the protocol.
"""
from __future__ import annotations

import os
import threading
from pathlib import Path

import llvmlite.binding
import numpy as np

from nnet3py.engine import interface, kernel_files
from nnet3py.engine.interface import lasting
from nnet3py.system import address_of_c_function, available_cores

# -- memory: indexes of words (int64); words that several threads change have a cache line (8 words) of their own ------
_LINE = 8
BUSY, GATE, CHUNKS, SLEEPING = 0, _LINE, 2 * _LINE, 3 * _LINE
FUNCTION, ARGUMENTS, COUNT, CHUNK, JOB, LIMIT, WORKERS, WAKE, SLEEP, WATCH = range(4 * _LINE, 4 * _LINE + 10)
_NUM_WORDS = 6 * _LINE


def lasting_words(count: int) -> np.ndarray:
    """Return ``count`` int64 zeros that begin on a cache line and are never freed."""
    space = lasting(np.zeros(count + _LINE, dtype=np.int64))
    return space[-(space.ctypes.data // 8) % _LINE:][:count]


words = lasting_words(_NUM_WORDS)


def _register() -> None:
    """Add the team's memory and functions of the C library to LLVM's table of symbols."""
    llvmlite.binding.add_symbol(interface.TEAM, words.ctypes.data)
    for symbol, name in ((interface.READ, "read"), (interface.WRITE, "write"), (interface.YIELD, "sched_yield")):
        llvmlite.binding.add_symbol(symbol, address_of_c_function(name))


_register()


# -- threads -----------------------------------------------------------------------------------------------------------


_CODE = Path(__file__).resolve().with_name("team_code.py")
_NAME = "nnet3py-"          # beginning of the names of workers
_lock = threading.Lock()
_LOOKS = 6000               # times that a worker looks for a job before it sleeps: some 100 microseconds


def set_team_size(count: int) -> None:
    """Let kernels use ``count`` threads, including the caller's; start missing workers."""
    with _lock:
        workers = int(words[WORKERS])
        if count - 1 > workers:
            if not workers:
                words[SLEEP], words[WAKE] = os.pipe()
            serve = kernel_files.find_or_make(_CODE, "serve", kernel_files.maker_of(_CODE, "serve"))
            for worker in range(workers, count - 1):
                threading.Thread(target=serve, args=(worker,), name=f"{_NAME}{worker}", daemon=True).start()
            words[WORKERS] = count - 1
        # with more threads than cores, workers sleep at once: looking for a job would block the core for other threads
        words[WATCH] = _LOOKS if count <= available_cores() else 0
        words[LIMIT] = count


def is_worker(thread: threading.Thread) -> bool:
    """Return whether a thread is a worker of the team; such threads do not make a fork unsafe between kernel calls."""
    return thread.name.removeprefix(_NAME).isdigit()


def size() -> int:
    """Return the number of threads that kernels use, including the caller's."""
    return max(1, min(int(words[LIMIT]), 1 + int(words[WORKERS])))


def _forget_workers() -> None:
    """Reset the team in a forked child, which has no workers, and where the lock may be held for ever."""
    global _lock
    words[:] = 0
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
