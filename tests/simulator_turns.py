"""Numba's simulator with threads that take turns: each runs up to the next barrier or its end, in random order.

Numba lets the threads of a block run as the system likes, and asks each again and again whether it waits. That takes
long, and two threads that ask for shared memory at once may get two arrays. In turns it is quick and repeatable, and
an order in which a forgotten barrier shows comes up soon.
"""
from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel

_order = random.Random(1)


def _syncthreads(thread: Any) -> None:
    thread.manager_turn.release()
    thread.turn.acquire()
    if thread.abort:
        raise SystemExit


def _take_turns(manager: Any, grid_point: Any, *args: Any) -> None:
    """Run a block; an exception of one of its threads is raised, and the others end."""
    manager_turn = threading.Lock()
    manager_turn.acquire()

    def target() -> None:
        thread: Any = threading.current_thread()
        thread.turn.acquire()
        if not thread.abort:
            manager._f(*args)

    threads = []
    for block_point in np.ndindex(*manager._block_dim):
        thread: Any = kernel.BlockThread(target, manager, grid_point, block_point, manager._debug)
        thread.turn, thread.manager_turn = threading.Lock(), manager_turn
        thread.turn.acquire()
        thread.start()
        threads.append(thread)
    while threads:
        _order.shuffle(threads)
        for thread in threads:
            thread.turn.release()
            manager_turn.acquire()
        failed = next((thread for thread in threads if thread.exception), None)
        if failed:
            for thread in threads:
                thread.abort = True
                thread.turn.release()
            raise failed.exception[0].with_traceback(failed.exception[1])
        threads = [thread for thread in threads if not thread.has_ended]


def _run(thread: Any) -> None:
    thread.has_ended = False
    _numbas_run(thread)
    thread.has_ended = True
    thread.manager_turn.release()


_numbas_run = kernel.BlockThread.run


def install() -> None:
    """Have the simulator's threads take turns from now on."""
    kernel.BlockThread.run, kernel.BlockThread.syncthreads = _run, _syncthreads
    kernel.BlockManager.run = _take_turns
