"""When each matrix of a computation exists, what it holds, and how much memory that takes at most."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.computation import CommandType
from nnet3py.index import distinct, format_indexes

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Computation
    from nnet3py.network.nnet import Nnet

BYTES = 4      # of a float32
_NAMES = 3     # nodes of a matrix that are named


@dataclass(frozen=True)
class Lifetime:
    """A matrix between the commands that allocate (or accept) and free it; ``end`` is one past the last without one.

    ``kind`` is ``input``, ``output``, ``value`` or ``derivative``; ``contents`` says which rows of which nodes.
    """

    matrix: int
    num_rows: int
    num_cols: int
    begin: int
    end: int
    kind: str
    nodes: str
    contents: str

    @property
    def num_bytes(self) -> int:
        """4 · rows · columns."""
        return BYTES * self.num_rows * self.num_cols


def lifetimes(computation: Computation, nnet: Nnet) -> list[Lifetime]:
    """Every matrix that exists at some time, ordered by the command at which it begins to."""
    matrix_of = [sub.matrix for sub in computation.submatrices]
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    exchanged: dict[int, str] = {}
    for c, command in enumerate(computation.commands):
        first = matrix_of[command.args[0]] if command.args[0] > 0 else 0
        if command.type in (CommandType.ALLOC_MATRIX, CommandType.ACCEPT_INPUT):
            begin.setdefault(first, c)
        elif command.type == CommandType.DEALLOC_MATRIX:
            end[first] = c
        elif command.type == CommandType.SWAP_MATRIX:       # the first takes the memory of the second
            begin.setdefault(first, c)
            end[matrix_of[command.args[1]]] = c
        if command.type == CommandType.ACCEPT_INPUT:
            exchanged[first] = "input"
        elif command.type == CommandType.PROVIDE_OUTPUT:
            exchanged.setdefault(first, "output")
    return [_lifetime(computation, nnet, m, begin[m], end.get(m, len(computation.commands)), exchanged.get(m))
            for m in sorted(begin, key=lambda m: (begin[m], m))]


def _lifetime(computation: Computation, nnet: Nnet, m: int, begin: int, end: int, exchanged: str | None) -> Lifetime:
    info = computation.matrices[m]
    nodes, contents, kind = "", "", "value"
    if m < len(computation.debug_info):
        rows = computation.debug_info[m]
        kind = "derivative" if rows.is_deriv else "value"
        named = [nnet.node_names[node] for node in distinct(rows.nodes).tolist()]
        nodes = ", ".join(named[:_NAMES]) + (", …" if len(named) > _NAMES else "")
        contents = f"{'derivative' if rows.is_deriv else 'value'} of {nodes} {format_indexes(rows.indexes)}"
    return Lifetime(m, info.num_rows, info.num_cols, begin, end, exchanged or kind, nodes, contents)


def memory_in_use(computation: Computation) -> np.ndarray:
    """int64 (commands,): 4 · rows · columns of all matrices that exist when each command has run."""
    sizes = np.array([BYTES * info.num_rows * info.num_cols for info in computation.matrices], np.int64)
    change = np.zeros(len(computation.commands), np.int64)
    alive = set()
    for c, command in enumerate(computation.commands):
        if command.type in (CommandType.ALLOC_MATRIX, CommandType.ACCEPT_INPUT):
            m = computation.submatrices[command.args[0]].matrix
            if m not in alive:
                alive.add(m)
                change[c] += sizes[m]
        elif command.type == CommandType.DEALLOC_MATRIX:
            m = computation.submatrices[command.args[0]].matrix
            alive.discard(m)
            change[c] -= sizes[m]
        elif command.type == CommandType.SWAP_MATRIX:
            taker, giver = (computation.submatrices[s].matrix for s in command.args[:2])
            alive.discard(giver)
            alive.add(taker)
            change[c] += sizes[taker] - sizes[giver]
    return np.cumsum(change)


def peak_memory(computation: Computation) -> tuple[int, int]:
    """The most bytes in use at any command, and the first command at which they are."""
    used = memory_in_use(computation)
    if not len(used):
        return 0, 0
    return int(used.max()), int(used.argmax())
