"""How calls run on the CPU where they are the same each time: operations are recorded, then repeated.

Between a stage and its operations are the components: in Python they choose views, settings and operations, which takes
as long as the operations of a small network on few rows. Where nothing is learned and nothing is drawn they choose the
same each time. So the second run records which operations are called with which arguments, and from the third on
these are called one after the other.

A stage always runs plainly if one of its operations draws random numbers, returns something or takes a cell that the
host writes, or if memory is copied out or uploaded meanwhile.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nnet3py.ops.cpu import CpuOps
from nnet3py.ops.table import FAMILY_OF, OPERATIONS

if TYPE_CHECKING:
    from nnet3py.compiler.fuse.fusion import Call

_CELLS = ("f32cell", "intcell")
_BETWEEN_HOST_AND_DEVICE = ("upload", "keep", "copy_in", "copy_out", "read_later")


class RecordingOps(CpuOps):
    """The CPU's operations, with scratch space of their own, which can record what is called.

    Attributes
    ----------
    recorded : calls are added to it, to be made again without arguments; None if nothing is recorded, as after a call
        that cannot be repeated
    """

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[Callable[[], Any]] | None = None
        for name in _BETWEEN_HOST_AND_DEVICE:
            setattr(self, name, self._once(getattr(CpuOps, name)))

    def _cannot_repeat(self) -> None:
        self.recorded = None

    def _once(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, wrapped so that after it the recorded calls cannot be repeated."""
        def call(*args: Any) -> Any:
            self._cannot_repeat()
            return function(*args)

        return call

    def __getattr__(self, name: str) -> Any:
        operation = super().__getattr__(name)
        differs = FAMILY_OF[name] == "random" or any(argument.kind in _CELLS
                                                     for argument in OPERATIONS[name].arguments)

        def call(*args: Any, **named: Any) -> Any:
            given = operation(*args, **named)
            if self.recorded is not None:
                if differs or given is not None:
                    self._cannot_repeat()
                else:
                    self.recorded.append(partial(operation, *args, **named))
            return given

        setattr(self, name, call)
        return call


class RecordedStage:
    """Runs the calls of one stage, again and again.

    The first run is plain: in it scratch space finds its size.
    """

    def __init__(self, ops: RecordingOps, calls: Sequence[Call]) -> None:
        self._ops, self._calls = ops, list(calls)
        self._num_runs = 0
        self._recorded: list[Callable[[], Any]] | None = None

    def __call__(self) -> None:
        """Run the stage once."""
        if self._recorded is not None:
            for operation in self._recorded:
                operation()
            return
        self._ops.recorded = [] if self._num_runs == 1 else None
        self._num_runs += 1
        for function, args in self._calls:
            function(*args)
        self._recorded, self._ops.recorded = self._ops.recorded, None
