"""Taking arrays apart: a C function that all entries with arrays call, and numpy's type. Light: no numba."""
from __future__ import annotations

from pathlib import Path

import llvmlite.binding
import numpy as np

from nnet3py.engine import entries, interface, kernel_files, symbols

interface.check_arrays()
entries.register()
llvmlite.binding.add_symbol(symbols.NDARRAY, id(np.ndarray))
kernel_files.add_function(symbols.ARRAY, Path(__file__).resolve().with_name("array_code.py"), "take_apart")
