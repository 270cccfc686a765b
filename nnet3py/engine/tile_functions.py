"""Products by tiles as C functions: compiled once, and not into every kernel that multiplies. Light: no numba."""
from __future__ import annotations

from pathlib import Path

from nnet3py.engine import kernel_files, symbols

_FOLDER = Path(__file__).resolve().parent
kernel_files.add_function(symbols.MULTIPLY, _FOLDER / "tiles.py", "multiply")
kernel_files.add_function(symbols.AFFINE, _FOLDER / "epilogue.py", "affine")       # calls the first
