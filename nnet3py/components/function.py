"""A component that applies one Python function, compiled by numba, to each element."""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nnet3py.components.base import Component, Memo, Precomputed, Properties, SameDimComponent
from nnet3py.components.fields import Field, Fields
from nnet3py.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


class FunctionComponent(SameDimComponent):
    """y = ``function(x)``, element by element; a base class for components of your own.

    >>> @nnet3py.register_component
    ... class SoftplusComponent(nnet3py.FunctionComponent):
    ...     @staticmethod
    ...     def function(x):
    ...         return math.log(1.0 + math.exp(x))
    ...     @staticmethod
    ...     def derivative(x, y):
    ...         return 1.0 / (1.0 + math.exp(-x))

    Both are functions of numbers, in Python that numba can compile, which happens when a network first computes with
    them; ``derivative`` also gets the result ``y``, and is needed only for training. Config lines give ``dim``. They
    run on the CPU; with a GPU their matrices are copied there and back, which is slow: operations of ``ops`` are not
    (``docs/tutorial.md``, a component of your own).

    Parameters
    ----------
    dim : columns of input and output
    """

    FIELDS: ClassVar[Fields] = (Field("<Dim>", "dim", "dim", "dim"),)
    properties = Properties(Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT)

    function: Callable[[float], float]
    derivative: Callable[[float, float], float] | None = None

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def propagate(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        values = ops.copy_out(x)          # copying shows that this call is not made of operations of ``ops`` alone
        _compiled(type(self).function, 1)(values, values, values)
        ops.copy_in(y, values)

    def backprop(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: Memo,
                 update: Component | None, dx: DeviceArray | None) -> None:
        derivative = type(self).derivative
        if derivative is None:
            raise ConfigError(f"{type(self).__name__} has no derivative, so that nothing before it can be trained",
                              "give the class a static method derivative(x, y)")
        if dx is not None:
            slopes = ops.copy_out(x)
            _compiled(derivative, 2)(slopes, ops.copy_out(y), slopes)
            ops.copy_in(dx, np.multiply(slopes, ops.copy_out(dy), out=slopes))

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Self:
        return cls(line.get_int("dim"))


@cache
def _compiled(function: Callable[..., float], num_arguments: int) -> Callable[..., Any]:
    """``z = function(x)``, or ``function(x, y)``, for all elements of three contiguous matrices, which may be one."""
    import numba

    element: Any = numba.njit(error_model="numpy")(function)
    if num_arguments == 1:
        def loop(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
            for i in range(z.size):
                z.flat[i] = element(x.flat[i])
    else:
        def loop(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
            for i in range(z.size):
                z.flat[i] = element(x.flat[i], y.flat[i])
    return numba.njit(error_model="numpy", nogil=True)(loop)      # type: ignore[no-any-return]
