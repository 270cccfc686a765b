"""The command types of a computation, each declared once with the role of every argument.

Printing, analysis, checking and binding derive from ``COMMANDS``. Kaldi: ``CommandType`` (nnet-computation.h). One type
is ours: FUSED, for several commands that one call runs (compiler/fuse/).
"""
from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NUM_ARGS = 7


class CommandType(IntEnum):
    """The commands; the numbers are those of Kaldi's files, which never hold the last one."""

    ALLOC_MATRIX = 0
    DEALLOC_MATRIX = 1
    SWAP_MATRIX = 2
    SET_CONST = 3
    PROPAGATE = 4
    BACKPROP = 5
    BACKPROP_NO_MODEL_UPDATE = 6
    MATRIX_COPY = 7
    MATRIX_ADD = 8
    COPY_ROWS = 9
    ADD_ROWS = 10
    COPY_ROWS_MULTI = 11
    COPY_TO_ROWS_MULTI = 12
    ADD_ROWS_MULTI = 13
    ADD_TO_ROWS_MULTI = 14
    ADD_ROW_RANGES = 15
    COMPRESS_MATRIX = 16
    DECOMPRESS_MATRIX = 17
    ACCEPT_INPUT = 18
    PROVIDE_OUTPUT = 19
    NO_OPERATION = 20
    NO_OPERATION_PERMANENT = 21
    NO_OPERATION_MARKER = 22
    NO_OPERATION_LABEL = 23
    GOTO_LABEL = 24
    FUSED = 25


class Role(IntEnum):
    """What an argument of a command is."""

    SIZE = 0             # sub-matrix covering a whole matrix, which is allocated, freed or swapped
    READ = 1             # sub-matrix that is read
    WRITE = 2            # sub-matrix of which every element is set
    READ_WRITE = 3       # sub-matrix that is changed
    PROPAGATED = 4       # sub-matrix written by a component: changed if the component adds (PROPAGATE_ADDS)
    BACKPROPAGATED = 5   # sub-matrix written by a component: changed if the component adds (BACKPROP_ADDS)
    COMPONENT = 6        # number of a component
    PRECOMPUTED = 7      # entry of precomputed_indexes, 0 for none
    MEMO = 8             # number of a memo, 0 for none
    FLAG = 9             # 0 or 1
    NODE = 10            # number of a node
    ROWS = 11            # entry of indexes
    READ_PAIRS = 12      # entry of indexes_multi whose (sub-matrix, row) are read
    CHANGED_PAIRS = 13   # entry of indexes_multi whose (sub-matrix, row) are changed
    RANGES = 14          # entry of indexes_ranges
    COMPRESSION = 15     # 1 int8, 2 uint8, 3 int16, 4 uint16
    COMMAND = 16         # number of a command
    PARTS = 17           # entry of parts: the commands that a fused one stands for


SUBMATRIX_ROLES = frozenset((Role.SIZE, Role.READ, Role.WRITE, Role.READ_WRITE, Role.PROPAGATED, Role.BACKPROPAGATED))


class CommandInfo(NamedTuple):
    """One command type: Kaldi's name, the roles of its arguments, whether its sub-matrices must be whole matrices."""

    name: str
    roles: tuple[Role, ...]
    whole: bool = False


_BACKPROP = (Role.COMPONENT, Role.PRECOMPUTED, Role.READ, Role.READ, Role.READ, Role.BACKPROPAGATED, Role.MEMO)

COMMANDS: dict[CommandType, CommandInfo] = {
    CommandType.ALLOC_MATRIX: CommandInfo("kAllocMatrix", (Role.SIZE,), True),
    CommandType.DEALLOC_MATRIX: CommandInfo("kDeallocMatrix", (Role.SIZE,), True),
    CommandType.SWAP_MATRIX: CommandInfo("kSwapMatrix", (Role.SIZE, Role.SIZE), True),
    CommandType.SET_CONST: CommandInfo("kSetConst", (Role.WRITE,)),
    CommandType.PROPAGATE: CommandInfo("kPropagate", (
        Role.COMPONENT, Role.PRECOMPUTED, Role.READ, Role.PROPAGATED, Role.MEMO, Role.FLAG)),
    CommandType.BACKPROP: CommandInfo("kBackprop", _BACKPROP),
    CommandType.BACKPROP_NO_MODEL_UPDATE: CommandInfo("kBackpropNoModelUpdate", _BACKPROP),
    CommandType.MATRIX_COPY: CommandInfo("kMatrixCopy", (Role.WRITE, Role.READ)),
    CommandType.MATRIX_ADD: CommandInfo("kMatrixAdd", (Role.READ_WRITE, Role.READ)),
    CommandType.COPY_ROWS: CommandInfo("kCopyRows", (Role.WRITE, Role.READ, Role.ROWS)),
    CommandType.ADD_ROWS: CommandInfo("kAddRows", (Role.READ_WRITE, Role.READ, Role.ROWS)),
    CommandType.COPY_ROWS_MULTI: CommandInfo("kCopyRowsMulti", (Role.WRITE, Role.READ_PAIRS)),
    CommandType.ADD_ROWS_MULTI: CommandInfo("kAddRowsMulti", (Role.READ_WRITE, Role.READ_PAIRS)),
    CommandType.COPY_TO_ROWS_MULTI: CommandInfo("kCopyToRowsMulti", (Role.READ, Role.CHANGED_PAIRS)),
    CommandType.ADD_TO_ROWS_MULTI: CommandInfo("kAddToRowsMulti", (Role.READ, Role.CHANGED_PAIRS)),
    CommandType.ADD_ROW_RANGES: CommandInfo("kAddRowRanges", (Role.READ_WRITE, Role.READ, Role.RANGES)),
    CommandType.COMPRESS_MATRIX: CommandInfo("kCompressMatrix", (Role.READ_WRITE, Role.COMPRESSION, Role.FLAG), True),
    CommandType.DECOMPRESS_MATRIX: CommandInfo("kDecompressMatrix", (Role.WRITE,), True),
    CommandType.ACCEPT_INPUT: CommandInfo("kAcceptInput", (Role.WRITE, Role.NODE), True),
    CommandType.PROVIDE_OUTPUT: CommandInfo("kProvideOutput", (Role.READ, Role.NODE), True),
    CommandType.NO_OPERATION: CommandInfo("kNoOperation", ()),
    CommandType.NO_OPERATION_PERMANENT: CommandInfo("kNoOperationPermanent", ()),
    CommandType.NO_OPERATION_MARKER: CommandInfo("kNoOperationMarker", ()),
    CommandType.NO_OPERATION_LABEL: CommandInfo("kNoOperationLabel", ()),
    CommandType.GOTO_LABEL: CommandInfo("kGotoLabel", (Role.COMMAND,)),
    CommandType.FUSED: CommandInfo("kFused", (Role.PARTS,)),
}

# What allocates and frees, or does nothing.
SIZING = frozenset((CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX, CommandType.SWAP_MATRIX))
NO_OPERATIONS = frozenset((CommandType.NO_OPERATION, CommandType.NO_OPERATION_PERMANENT))
MARKS = frozenset((CommandType.NO_OPERATION_MARKER, CommandType.NO_OPERATION_LABEL, CommandType.COMPRESS_MATRIX,
                   CommandType.DECOMPRESS_MATRIX))
# What makes no call: sizing is settled by the plan of memory, and nothing is compressed.
WITHOUT_CALL = SIZING | NO_OPERATIONS | MARKS
KALDI_TYPES = tuple(kind for kind in CommandType if kind != CommandType.FUSED)
BACKPROPS = (CommandType.BACKPROP, CommandType.BACKPROP_NO_MODEL_UPDATE)


class Command(NamedTuple):
    """One command: its type, the factor of copies and additions, and Kaldi's seven arguments in order (-1: none)."""

    type: CommandType
    alpha: float = 1.0
    args: tuple[int, ...] = (-1,) * NUM_ARGS


_PADDING = [(-1,) * (NUM_ARGS - size) for size in range(NUM_ARGS + 1)]


def command(kind: CommandType, *args: int, alpha: float = 1.0) -> Command:
    """A command with ``args`` filled up with -1."""
    return Command(kind, alpha, args + _PADDING[len(args)])
