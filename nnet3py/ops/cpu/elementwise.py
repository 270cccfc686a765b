"""The elementwise operations on the CPU: loops around the formulas of ``ops/formulas/elements.py``.

Threads share rows, and LLVM vectorizes along them.
"""
from __future__ import annotations

from nnet3py.engine.generated import function_of_text
from nnet3py.engine.jit import Kernel, kernel, row
from nnet3py.ops.cpu.operation import formula
from nnet3py.ops.formulas import elements
from nnet3py.ops.table import FAMILIES, Operation

_TEMPLATE = """
def {name}(first, last, {names}):
    for i in range(first, last):
        {target}_row = row({target}, i)
        {rows}
        for j in range({target}_row.shape[0]):
            {target}_row[j] = formula({elements})
"""


def make_kernel(operation: Operation) -> Kernel:
    """Make the kernel of an elementwise operation from its formula."""
    target, *_ = arguments = operation.arguments
    rows = {"mat": "{0}_row = row({0}, i)", "rowvec": "{0}_here = {0}[i]"}
    element = {"mat": "{0}_row[j]", "vec": "{0}[j]", "rowvec": "{0}_here"}
    source = _TEMPLATE.format(
        name=operation.name, names=", ".join(a.name for a in arguments), target=target.name,
        rows="; ".join(rows[a.kind].format(a.name) for a in arguments[1:] if a.kind in rows) or "pass",
        elements=", ".join(element.get(a.kind, "{0}").format(a.name) for a in arguments))
    names = {"row": row, "formula": formula(getattr(elements, operation.name))}
    function = function_of_text(source, names, operation.stand_in(__file__, __name__))
    cost = elements.COSTS.get(operation.name, 1)
    return kernel(operation.kinds, rows_of=target.name, cost=cost)(function)


KERNELS = {operation.name: make_kernel(operation) for operation in FAMILIES["elementwise"]}
globals().update(KERNELS)       # as names of the module, where kernels are looked up
