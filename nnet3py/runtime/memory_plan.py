"""Where each matrix of a command list lies in one block of memory.

A matrix lives from its allocation (or the moment its input is accepted) to its deallocation; two matrices that never
live at the same time may share their place. One whose memory another takes over by a swap lives until its last use:
until the swap, its place is free for others. What a loop passes to its next round keeps a place of its own. The plan is
first-come best-fit over a list of free holes.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.compiler.commands import COMMANDS, SUBMATRIX_ROLES, CommandType, Role
from nnet3py.compiler.computation import Computation

ALIGNMENT = 16   # elements: 64 bytes, a cache line, so that no two matrices share one


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets of the matrices (int64, -1 for the empty matrix 0) and the block's size, both in elements."""

    offsets: np.ndarray
    size: int


class _Holes:
    """The free places of a block that grows at its end: sorted (offset, size), no two of them touching."""

    def __init__(self) -> None:
        self.holes: list[tuple[int, int]] = []
        self.end = 0

    def take(self, size: int) -> int:
        """The offset of ``size`` free elements, in the smallest hole that has them, else at the end."""
        fitting = [hole for hole in self.holes if hole[1] >= size]
        if not fitting:
            return self._take_at_end(size)
        offset, room = min(fitting, key=lambda hole: (hole[1], hole[0]))
        self.holes.remove((offset, room))
        if room > size:
            self.holes.append((offset + size, room - size))
            self.holes.sort()
        return offset

    def _take_at_end(self, size: int) -> int:
        offset = self.end
        if self.holes and sum(self.holes[-1]) == self.end:
            offset = self.holes.pop()[0]
        self.end = offset + size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        """Make a place free again; holes that touch become one."""
        merged = []
        for start, room in self.holes:
            if start + room == offset:
                offset, size = start, size + room
            elif offset + size == start:
                size += room
            else:
                merged.append((start, room))
        merged.append((offset, size))
        self.holes = sorted(merged)


def plan_memory(computation: Computation) -> MemoryPlan:
    """Lay the matrices of ``computation`` out in one block, by lifetime.

    Raises
    ------
    CompileError : a matrix is allocated twice or freed while it is not alive (through the lookups below).
    """
    matrices, submatrices = computation.matrices, computation.submatrices
    sizes = [-(-max(m.num_rows * m.num_cols, 1) // ALIGNMENT) * ALIGNMENT for m in matrices]
    offsets = np.full(len(matrices), -1, dtype=np.int64)
    alive: set[int] = set()
    holes = _Holes()
    ending = _ends_before_swaps(computation)
    loop_swaps = computation.loop_swaps()
    kept = {submatrices[computation.commands[c].args[0]].matrix for c in loop_swaps}

    def take(matrix: int) -> None:
        if matrix not in alive:
            offsets[matrix] = holes.take(sizes[matrix])
            alive.add(matrix)

    def give_back(matrix: int) -> None:
        alive.remove(matrix)
        holes.give_back(int(offsets[matrix]), sizes[matrix])

    for c, command in enumerate(computation.commands):
        if command.type in (CommandType.ALLOC_MATRIX, CommandType.ACCEPT_INPUT):
            take(submatrices[command.args[0]].matrix)
        elif command.type == CommandType.DEALLOC_MATRIX:
            if submatrices[command.args[0]].matrix not in kept:
                give_back(submatrices[command.args[0]].matrix)
        elif command.type == CommandType.SWAP_MATRIX:
            taker, giver = (submatrices[s].matrix for s in command.args[:2])
            if c in loop_swaps:
                pass                        # the giver's contents are copied, and the taker has kept its place
            elif giver in alive:            # never used
                alive.remove(giver)
                offsets[taker] = offsets[giver]
                alive.add(taker)
            else:
                take(taker)
        for matrix in ending.get(c, ()):
            give_back(matrix)
    return MemoryPlan(offsets, holes.end)


def _ends_before_swaps(computation: Computation) -> dict[int, list[int]]:
    """The matrices that swaps give away, by the command that uses them last; none in a loop."""
    commands, matrix_of = computation.commands, np.array([sub.matrix for sub in computation.submatrices])
    givers = {int(matrix_of[command.args[1]]) for command in commands if command.type == CommandType.SWAP_MATRIX}
    if not givers or commands[-1].type == CommandType.GOTO_LABEL:
        return {}
    last = np.full(len(computation.matrices), -1)
    parts = ((c, part) for c, command in enumerate(commands) for part in computation.parts_of(command))
    for c, command in parts:
        for place, role in enumerate(COMMANDS[command.type].roles):
            if role in (Role.READ_PAIRS, Role.CHANGED_PAIRS):
                named = computation.indexes_multi[command.args[place]][:, 0]
                last[matrix_of[named[named >= 0]]] = c
            elif role in SUBMATRIX_ROLES and role != Role.SIZE and command.args[place] > 0:
                last[matrix_of[command.args[place]]] = c
    ends: dict[int, list[int]] = {}
    for matrix in sorted(givers):
        if last[matrix] >= 0:
            ends.setdefault(int(last[matrix]), []).append(matrix)
    return ends
