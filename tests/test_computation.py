"""The command list as data, and its text."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import TDNN

from nnet3py.compiler.computation import (
    COMMANDS,
    KALDI_TYPES,
    NUM_ARGS,
    SUBMATRIX_ROLES,
    Command,
    CommandType,
    Computation,
    MatrixDebugInfo,
    SubMatrix,
    command,
)
from nnet3py.network.nnet import Nnet


@pytest.fixture
def nnet() -> Nnet:
    return Nnet.from_config(TDNN)


@pytest.fixture
def computation() -> Computation:
    """m1 (4 x 6) with windows 3 and 4, m2 (2 x 3)."""
    made = Computation()
    assert made.new_matrix(4, 6) == 1
    assert made.new_matrix(2, 3) == 2
    assert made.new_submatrix(1, 1, 2, 0, 3) == 3
    assert made.new_submatrix(3, 1, -1, 1, -1) == 4
    made.indexes = [np.array([0, 1], np.int32), np.array([-1, 1], np.int32)]
    made.indexes_multi = [np.array([[3, 0], [2, 1], [-1, -1]], np.int32)]
    made.indexes_ranges = [np.array([[0, 2], [-1, -1]], np.int32)]
    return made


def test_windows_count_from_their_base(computation: Computation) -> None:
    assert computation.submatrices[3] == SubMatrix(1, 1, 2, 0, 3)
    assert computation.submatrices[4] == SubMatrix(1, 2, 1, 1, 2)
    assert [computation.is_whole(s) for s in range(5)] == [False, True, True, False, False]
    assert computation.whole_submatrices() == [0, 1, 2]
    computation.submatrices = [computation.submatrices[0], *computation.submatrices[2:]]
    assert computation.whole_submatrices() == [0, 4, 1]


def test_a_copy_has_lists_of_its_own(computation: Computation) -> None:
    other = computation.copy()
    other.commands.append(command(CommandType.NO_OPERATION))
    other.new_matrix(1, 1)
    assert not computation.commands
    assert len(computation.matrices) == 3


def test_every_command_type_is_declared_with_kaldis_name_and_number() -> None:
    assert set(COMMANDS) == set(CommandType)
    assert [int(kind) for kind in KALDI_TYPES] == list(range(25))
    assert [int(kind) for kind in CommandType] == list(range(26))
    for kind, info in COMMANDS.items():
        assert info.name == "k" + "".join(word.capitalize() for word in kind.name.split("_"))
        assert len(info.roles) <= NUM_ARGS
        assert not info.whole or info.roles[0] in SUBMATRIX_ROLES
    filled = Command(CommandType.SET_CONST, 2.0, (3, -1, -1, -1, -1, -1, -1))
    assert command(CommandType.SET_CONST, 3, alpha=2.0) == filled


C = CommandType


@pytest.mark.parametrize(("one", "text"), [
    (command(C.ALLOC_MATRIX, 2), "m2 = undefined(2,3)"),
    (command(C.DEALLOC_MATRIX, 2), "m2 = []"),
    (command(C.SWAP_MATRIX, 2, 1), "m2.swap(m1) [dim = 2 x 3]"),
    (command(C.SET_CONST, 3, alpha=0.0), "m1(1:2, 0:2).set(0) [dim = 2 x 3];"),
    (command(C.PROPAGATE, 1, 0, 2, 3, 0, 0), "r.Propagate(NULL, m2, &m1(1:2, 0:2))"),
    (command(C.PROPAGATE, 1, 4, 0, 2, 0, 0), "r.Propagate(precomputed_indexes[4], [], &m2)"),
    (command(C.BACKPROP, 0, 0, 1, 0, 2, 0, 0), "a.Backprop(NULL, m1, [], m2, [component-pointer], NULL)"),
    (command(C.BACKPROP_NO_MODEL_UPDATE, 0, 0, 1, 0, 2, 3, 0), "a.Backprop(NULL, m1, [], m2, NULL, &m1(1:2, 0:2))"),
    (command(C.MATRIX_COPY, 2, 3), "m2 = m1(1:2, 0:2)"),
    (command(C.MATRIX_ADD, 2, 3, alpha=0.5), "m2 += 0.5 * m1(1:2, 0:2)"),
    (command(C.COPY_ROWS, 2, 3, 0), "m2.CopyRows(1, m1(1:2, 0:2)[0, 1])"),
    (command(C.ADD_ROWS, 2, 3, 1, alpha=0.25), "m2.AddRows(0.25, m1(1:2, 0:2)[-1, 1])"),
    (command(C.COPY_ROWS_MULTI, 2, 0), "m2.CopyRowsMulti(1, [m1(1,0:2),m2(1,:),NULL])"),
    (command(C.ADD_TO_ROWS_MULTI, 2, 0), "m2.AddToRowsMulti(1, [m1(1,0:2),m2(1,:),NULL])"),
    (command(C.ADD_ROW_RANGES, 2, 3, 0), "m2.AddRowRanges(1, m1(1:2, 0:2), [0:1,null])"),
    (command(C.COMPRESS_MATRIX, 2, 2, 1, alpha=0.0), "CompressMatrix(m2, 0, uint8, true)"),
    (command(C.DECOMPRESS_MATRIX, 2), "DecompressMatrix(m2)"),
    (command(C.ACCEPT_INPUT, 1, 0), "m1 = user input [for node: 'input']"),
    (command(C.PROVIDE_OUTPUT, 2, 7), "output m2 to user [for node: 'output']"),
    (command(C.NO_OPERATION), "[no-op]"),
    (command(C.NO_OPERATION_PERMANENT), "[no-op-permanent]"),
    (command(C.NO_OPERATION_MARKER), "# computation segment separator [e.g., begin backward commands]"),
    (command(C.NO_OPERATION_LABEL), "[label for goto statement]"),
    (command(C.GOTO_LABEL, 5), "goto c5"),
])
def test_texts_of_commands(computation: Computation, nnet: Nnet, one: Command, text: str) -> None:
    computation.commands = [one]
    computation.need_model_derivative = True
    computation.debug_info = []
    assert computation.describe(nnet) == f"matrix m1(4, 6), m2(2, 3)\n# begin forward commands\nc0: {text}\n"


def test_long_commands_and_debug_info(computation: Computation, nnet: Nnet) -> None:
    computation.indexes = [np.arange(0, 400, 2, dtype=np.int32)]
    computation.commands = [command(C.ADD_ROWS, 2, 1, 0)]
    indexes = np.zeros((4, 3), np.int32)
    indexes[:, 1] = range(4)
    computation.debug_info += [MatrixDebugInfo(np.zeros(4, np.int32), indexes, False),
                               MatrixDebugInfo(np.full(2, 2, np.int32), indexes[:2], True)]
    lines = computation.describe(nnet).splitlines()
    assert lines[1].startswith("# The following show how matrices correspond")
    assert lines[5:7] == ["m1 == value: input[(0,0:3)]", "m2 == deriv: a[(0,0:1)]"]
    whole = "c0: m2.AddRows(1, m1[" + ", ".join(str(i) for i in range(0, 400, 2)) + "])\n"
    assert lines[-1] + "\n" == whole[:100] + " ... " + whole[-100:]
