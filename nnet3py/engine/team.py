"""The team of threads that share the work of kernels; ``team_code.py`` says how. Light: no numba."""
from __future__ import annotations

import os
import threading
from pathlib import Path

from nnet3py.engine import kernel_files, symbols
from nnet3py.engine.team_memory import LIMIT, SLEEP, WAKE, WATCH, WORKERS, words
from nnet3py.system import available_cores

_CODE = Path(__file__).resolve().with_name("team_code.py")
_NAME = "nnet3py-"          # of threads, before their numbers
_lock = threading.Lock()
_LOOKS = 6000       # how often a worker looks for a job before it sleeps: some 100 microseconds


kernel_files.add_function(symbols.SHARE, _CODE, "share")


def set_team_size(count: int) -> None:
    """Let kernels use ``count`` threads, the caller's among them; workers that are missing are started."""
    with _lock:
        workers = int(words[WORKERS])
        if count - 1 > workers:
            if not workers:
                words[SLEEP], words[WAKE] = os.pipe()
            serve = kernel_files.find_or_make(_CODE, "serve", kernel_files.maker_of(_CODE, "serve"))
            for worker in range(workers, count - 1):
                threading.Thread(target=serve, args=(worker,), name=f"{_NAME}{worker}", daemon=True).start()
            words[WORKERS] = count - 1
        # looking for a job on a core that others wait for does harm
        words[WATCH] = _LOOKS if count <= available_cores() else 0
        words[LIMIT] = count


def is_worker(thread: threading.Thread) -> bool:
    """Whether a thread is one of the team: it sleeps between two calls of kernels, and does not hinder a fork."""
    return thread.name.removeprefix(_NAME).isdigit()


def size() -> int:
    """How many threads kernels use, the caller's among them."""
    return max(1, min(int(words[LIMIT]), 1 + int(words[WORKERS])))


def _forget_workers() -> None:
    """After a fork the child's kernels work alone: it has none of the threads, and one of them may hold the lock."""
    global _lock
    words[:] = 0
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
