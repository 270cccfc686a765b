"""The formulas compiled for the CPU: always inlined, so that LLVM vectorizes the loops around them."""
from __future__ import annotations

from nnet3py.engine.numba_target import njit
from nnet3py.ops.formulas import Formulas

# fastmath is refused by name: a kernel that allows reassociation would hand it on, and exp rounds by a sum's order.
formula = Formulas(njit(forceinline=True, fastmath=False))
