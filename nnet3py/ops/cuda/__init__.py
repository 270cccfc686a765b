"""The operations on a GPU, compiled by numba.cuda: the twins of ``ops/cpu``, a family per file."""
from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nnet3py.errors import DeviceError
from nnet3py.ops.random import Random
from nnet3py.ops.table import FAMILY_OF


def load(name: str) -> Any:
    """The kernel ``name``.

    Raises
    ------
    AttributeError
        The table of operations does not have it.
    DeviceError
        It has no CUDA kernel.
    """
    family = FAMILY_OF.get(name)
    if family is None:
        raise AttributeError(f"no operation is called {name!r}; nnet3py/ops/table.py lists them")
    module = f"{__name__}.{family}"
    operation = getattr(import_module(module), name, None) if find_spec(module) else None
    if operation is None:
        raise DeviceError(f"the operation {name} has no CUDA kernel", "use device='cpu'")
    return operation


class CudaOps:
    """The operations of ``ops/table.py`` on device arrays; for one thread."""

    device = "cuda"

    def __init__(self) -> None:
        self.random = Random(self)

    def __getattr__(self, name: str) -> Any:
        operation = load(name)
        setattr(self, name, operation)
        return operation
