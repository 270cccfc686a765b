"""The elementwise operations on the GPU: kernels made of the formulas of ``ops/formulas/elements.py``."""
from __future__ import annotations

from nnet3py.ops.cuda.each_element import element_kernel
from nnet3py.ops.cuda.launch import Kernel
from nnet3py.ops.formulas import elements
from nnet3py.ops.table import FAMILIES, Operation


def make_kernel(operation: Operation) -> Kernel:
    """The kernel of an elementwise operation."""
    formula = getattr(elements, operation.name)
    return element_kernel(formula, operation.kinds, operation.stand_in(__file__, __name__))


KERNELS = {operation.name: make_kernel(operation) for operation in FAMILIES["elementwise"]}
globals().update(KERNELS)       # so that they are found as those of other families are
