"""The decorator that makes an operation's CPU kernel of a function, and the compiler of formulas that kernels call."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnet3py.engine.generated import function_of_text
from nnet3py.engine.jit import Kernel, kernel, row, span
from nnet3py.engine.numba_target import njit
from nnet3py.ops.formulas import Formulas, loops
from nnet3py.ops.table import OPERATIONS, documented


def operation(reassociate: bool = False, rows_of: str = "", columns_of: str = "",
              cost: int | str = 1) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes the kernel of the operation named as the function; see ``engine.jit.kernel``.

    The kinds of the arguments and the documentation come from the table of operations.
    """
    def make(function: Callable[..., Any]) -> Kernel:
        kinds = OPERATIONS[function.__name__].kinds
        return kernel(kinds, reassociate, rows_of, columns_of, cost)(documented(function))

    return make


# Always inlined, so that LLVM vectorizes the loops around formulas. fastmath=False must be explicit: a formula would
# inherit the flags of a kernel that allows reassociation, which would remove the rounding in exp.
formula = Formulas(njit(forceinline=True, fastmath=False), {
    loops.own_rows: range, loops.own_columns: range, loops.row: row, loops.span: span})


_SHARED_LOOP = """
def {name}(first, last, {names}):
    loop({parts})
"""


def of_loop(loop: Any, file: str, module: str, rows_of: str = "", cost: int = 1, whole: str = "") -> Kernel:
    """Make the kernel of an operation from its loop in ``formulas/loops.py``, for a module and its file.

    Threads share the rows of the matrix ``rows_of``, if given, and of all other matrices but ``whole``.
    """
    function = formula.bound(loop, file, module)
    if rows_of:
        arguments = OPERATIONS[loop.__name__].arguments
        parts = (argument.name + "[first:last]" * (argument.kind == "mat" and argument.name != whole)
                 for argument in arguments)
        source = _SHARED_LOOP.format(
            name=loop.__name__, names=", ".join(argument.name for argument in arguments), parts=", ".join(parts))
        function = function_of_text(source, {"loop": formula(loop)}, function)
    return operation(rows_of=rows_of, cost=cost)(function)
