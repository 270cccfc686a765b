"""The memory by which the threads of a team agree, and the functions by which they sleep. Light: no numba."""
from __future__ import annotations

import llvmlite.binding
import numpy as np

from nnet3py.engine import symbols
from nnet3py.engine.lasting import lasting
from nnet3py.system import address_of_c_function

# words of the team's memory, on a cache line (8 words) of their own where several threads change them
_LINE = 8
BUSY, GATE, CHUNKS, SLEEPING = 0, _LINE, 2 * _LINE, 3 * _LINE
FUNCTION, ARGUMENTS, COUNT, CHUNK, JOB, LIMIT, WORKERS, WAKE, SLEEP, WATCH = range(4 * _LINE, 4 * _LINE + 10)
_NUM_WORDS = 6 * _LINE


def lasting_words(count: int) -> np.ndarray:
    """``count`` int64 zeros that begin on a cache line and are never freed."""
    space = lasting(np.zeros(count + _LINE, dtype=np.int64))
    return space[-(space.ctypes.data // 8) % _LINE:][:count]


words = lasting_words(_NUM_WORDS)


def _register() -> None:
    """Make the team's memory and the C library's ``read`` and ``write`` known to LLVM."""
    llvmlite.binding.add_symbol(symbols.TEAM, words.ctypes.data)
    for symbol, name in ((symbols.READ, "read"), (symbols.WRITE, "write"), (symbols.YIELD, "sched_yield")):
        llvmlite.binding.add_symbol(symbol, address_of_c_function(name))


_register()
