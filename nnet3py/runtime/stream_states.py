"""What streams carry from chunk to chunk: one row of a block of device memory for each stream."""
from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from nnet3py.runtime.memory_plan import ALIGNMENT

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

_FIRST_ROOM = 4      # rows


class StreamState:
    """One stream's place in a :class:`StreamStates`, and how many chunks of it have been computed.

    Attributes
    ----------
    slot : the number of its row
    num_chunks : chunks that have been computed
    """

    def __init__(self, states: StreamStates) -> None:
        self.slot = states.take()
        self.num_chunks = 0
        weakref.finalize(self, states.give_back, self.slot).atexit = False

    def restart(self) -> None:
        """Begin another stream: its first chunk reads nothing that was carried."""
        self.num_chunks = 0


class StreamStates:
    """The states of all streams of one network.

    Row 0 belongs to no stream: it fills up batches. Memory grows by doubling; rows of finished streams are used again.

    Parameters
    ----------
    ops : the operations of the device whose memory it is
    width : elements that a stream carries
    """

    def __init__(self, ops: Ops, width: int) -> None:
        self._ops = ops
        self.width = -(-max(width, 1) // ALIGNMENT) * ALIGNMENT
        self._num_rows = 1
        self._free: list[int] = []
        self._taking = threading.Lock()
        self.buffer: Any = None
        self.reserve()

    def take(self) -> int:
        """The number of a row for a new stream. May be called from any thread."""
        try:
            return self._free.pop()
        except IndexError:
            with self._taking:
                self._num_rows += 1
                return self._num_rows - 1

    def give_back(self, slot: int) -> None:
        """Free the row of a finished stream. May be called from any thread."""
        self._free.append(slot)

    def reserve(self) -> None:
        """Make sure that there is memory for every row, before they are used."""
        room = 0 if self.buffer is None else self.buffer.size // self.width
        if self._num_rows <= room:
            return
        while room < self._num_rows:
            room = 2 * room or _FIRST_ROOM
        old, self.buffer = self.buffer, self._ops.new_vector(room * self.width)
        matrix = self.buffer.reshape(room, self.width)
        self._ops.set_const(matrix, 0.0)
        if old is not None:
            rows = old.size // self.width
            self._ops.copy_mat(matrix[:rows], old.reshape(rows, self.width), 1.0)
