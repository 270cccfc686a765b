"""A board in memory that the processes of a server share: each writes what it counts, and all read all of it."""
from __future__ import annotations

import json
import mmap
import struct
from typing import Any

_SLOT_BYTES = 1 << 15
_HEAD = struct.Struct("=QI")      # how often the slot was written, twice; bytes of its content
_LOOKS = 100                      # at a slot that is being written, before it is passed over


class Board:
    """Slots, each of which one process writes. Made before the processes are copied.

    Parameters
    ----------
    num_slots : how many
    """

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._memory = mmap.mmap(-1, num_slots * _SLOT_BYTES)         # pages that nobody writes take no memory

    def write(self, slot: int, values: dict[str, Any] | None) -> None:
        """Replace what a slot says; None: it says nothing."""
        content = b"" if values is None else json.dumps(values, separators=(",", ":")).encode()
        if len(content) > _SLOT_BYTES - _HEAD.size:
            return
        start = slot * _SLOT_BYTES
        count = _HEAD.unpack_from(self._memory, start)[0] | 1         # odd: being written
        _HEAD.pack_into(self._memory, start, count, 0)
        self._memory[start + _HEAD.size:start + _HEAD.size + len(content)] = content
        _HEAD.pack_into(self._memory, start, count + 1, len(content))

    def read(self, slot: int) -> dict[str, Any] | None:
        """Return what a slot says; None for nothing."""
        start = slot * _SLOT_BYTES
        for _ in range(_LOOKS):
            count, size = _HEAD.unpack_from(self._memory, start)
            content = self._memory[start + _HEAD.size:start + _HEAD.size + size]
            if count % 2 == 0 and _HEAD.unpack_from(self._memory, start)[0] == count:
                values: dict[str, Any] | None = json.loads(content) if content else None
                return values
        return None

    def all(self) -> dict[int, dict[str, Any]]:
        """Return what all slots say that say something, by their numbers."""
        said = {slot: self.read(slot) for slot in range(self.num_slots)}
        return {slot: values for slot, values in said.items() if values is not None}


class Place:
    """A process's slot of a board. Slot 0 is that of the process that made the others, and serves nobody."""

    def __init__(self, board: Board, slot: int) -> None:
        self.board, self.slot = board, slot

    def write(self, values: dict[str, Any]) -> None:
        """Replace what this process's slot says."""
        self.board.write(self.slot, values)

    def with_others(self, values: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return what all slots say by their numbers, this process's being ``values``."""
        return {**self.board.all(), self.slot: values}

    @property
    def num_processes(self) -> int:
        """Processes that serve, and say so."""
        return sum(slot > 0 for slot in self.with_others({}))
