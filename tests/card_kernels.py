"""Computes what kernels do for card_driver.py: a process with numba's simulator, and the card's memory.

    python card_kernels.py DESCRIPTOR SIZE      (a launch comes pickled on the standard input, an answer goes back)
"""
from __future__ import annotations

import importlib
import mmap
import os
import pickle
import pkgutil
import sys
import traceback
import warnings
from typing import Any

import numpy as np


def all_kernels() -> dict[tuple[Any, ...], Any]:
    """All kernels of the package, by what names them in the other process, too."""
    from card_hardware import note_kernels

    import nnet3py.ops.cuda
    found: dict[tuple[Any, ...], Any] = {}
    note_kernels(found.__setitem__)
    for info in pkgutil.iter_modules(nnet3py.ops.cuda.__path__):
        importlib.import_module(f"nnet3py.ops.cuda.{info.name}")
    return found


def main() -> None:
    """Answer launches until there are none."""
    import simulator_turns
    warnings.simplefilter("ignore", RuntimeWarning)      # the simulator's arithmetic is numpy's
    simulator_turns.install()
    memory = np.frombuffer(mmap.mmap(int(sys.argv[1]), int(sys.argv[2])), np.uint8)
    kernels = all_kernels()
    from nnet3py.ops import device
    array_of = device.cuda().simulator.cudadrv.devicearray.FakeCUDAArray

    def array(_: str, place: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> Any:
        if not np.prod(shape):
            return array_of(np.empty(shape, dtype))
        return array_of(np.ndarray(shape, dtype, memory.data, place, strides))

    answers, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
    while True:
        try:
            key, grid, block, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer = ""
        try:
            kernel = kernels[key].compile()
            kernel[grid, block](*(array(*each) if isinstance(each, tuple) else each for each in arguments))
        except BaseException:
            answer = traceback.format_exc()
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
