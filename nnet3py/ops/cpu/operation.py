"""How a CPU kernel becomes an operation: its name says which, and the table says the kinds of its arguments."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnet3py.engine.jit import Kernel, kernel
from nnet3py.ops.table import OPERATIONS, documented


def operation(reassociate: bool = False, rows_of: str = "", columns_of: str = "",
              cost: int | str = 1) -> Callable[[Callable[..., Any]], Kernel]:
    """Make the kernel of the operation that the function is named after; arguments as for ``engine.jit.kernel``."""
    def make(function: Callable[..., Any]) -> Kernel:
        kinds = OPERATIONS[function.__name__].kinds
        return kernel(kinds, reassociate, rows_of, columns_of, cost)(documented(function))

    return make
