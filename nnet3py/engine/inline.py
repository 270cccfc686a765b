"""What compiled functions call: functions that are inlined wherever they are called.

Otherwise a process that compiles would call such a function's own compiled form, which may round differently from the
copy that is kept on disk with its caller.
"""
from __future__ import annotations

from typing import Any

from nnet3py.engine.numba_target import njit

inline: Any = njit(forceinline=True)
