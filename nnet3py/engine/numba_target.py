"""numba, told which processor to compile for. Whatever compiles for the CPU imports ``numba`` from here.

numba reads that once, when the first function is decorated.
"""
from __future__ import annotations

import importlib
from typing import Any

import numba

from nnet3py.engine.processor import VARIABLE, processor
from nnet3py.errors import UsageError

__all__ = ["numba"]


def _choose_processor() -> None:
    """Have numba make code for the processor that was chosen, if that is not this machine's own.

    Raises
    ------
    UsageError : numba has been used before, and makes code for another one
    """
    wanted = processor()
    if wanted.is_this:
        return
    config: Any = importlib.import_module("numba.core.config")     # its attributes are made when it is imported
    config.CPU_NAME, config.CPU_FEATURES = wanted.name, wanted.features
    target: Any = importlib.import_module("numba.core.registry").cpu_target.target_context
    if target.codegen().magic_tuple()[-1] != wanted.features:
        raise UsageError(f"{VARIABLE}={wanted.kind}: numba was used before, and makes code for another processor",
                         "import nnet3py.engine.numba_target before numba compiles anything")


_choose_processor()
