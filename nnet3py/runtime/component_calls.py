"""The component calls that PROPAGATE and BACKPROP commands become."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py.components.base import Component, Memo, Precomputed

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


class _ComponentCall:
    """A method of a component, to be called with the arguments after ``ops``.

    Attributes
    ----------
    component : whose method it is
    """

    METHOD = ""

    def __init__(self, ops: Ops, component: Component, index: int, number: int) -> None:
        self.component = component
        self._ops, self._method, self._index, self._number = ops, getattr(component, self.METHOD), index, number

    def __call__(self, *args: Any) -> None:
        self._ops.reset_scratch()
        self.run(*args)

    def run(self, *args: object, **named: object) -> None:
        """The same, after other calls whose scratch space is still needed."""
        self.select()
        self._method(self._ops, *args, **named)

    def select(self) -> None:
        """Make the call's own stream the source of random numbers."""
        self._ops.random.select(self._index, self._number)


class BackpropCall(_ComponentCall):
    """``Component.backprop``."""

    METHOD = "backprop"


class PropagateCall(_ComponentCall):
    """``Component.propagate``, and then the statistics of its output.

    Parameters
    ----------
    stats : the component that takes the statistics, or None
    index, number : of the stream of random numbers; statistics draw from the next one
    """

    METHOD = "propagate"

    def __init__(self, ops: Ops, component: Component, stats: Component | None, index: int, number: int) -> None:
        super().__init__(ops, component, index, number)
        self._stats = stats

    def __call__(self, *args: Any) -> None:
        super().__call__(*args)
        if self._stats is not None:
            self._ops.reset_scratch()
            self.store_stats(*args)

    def store_stats(self, indexes: Precomputed, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        """Store the statistics of the arguments of ``propagate``; does nothing if no component takes them."""
        if self._stats is not None:
            given: Any = None if x is y else x       # y may have overwritten x
            self._ops.random.select(self._index, self._number + 1)
            self._stats.store_stats(self._ops, given, y, memo)
