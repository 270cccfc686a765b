"""nnet3py/compiler/tables.py: command lists as arrays, which stay known as long as the lists are the same."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, Role, command
from nnet3py.compiler.tables import (
    CommandTable,
    command_table,
    drop_commands,
    greatest,
    least,
    make_commands,
    matrix_sizes,
    replace_commands,
    sort_commands,
    submatrix_table,
    substitute_commands,
    take_commands,
    whole_submatrices,
)


def small() -> Computation:
    made = Computation()
    a, b = made.new_matrix(4, 3), made.new_matrix(4, 3)
    made.new_submatrix(a, 1, 2, 0, -1)
    made.commands = [command(C.ALLOC_MATRIX, a), command(C.SET_CONST, a, alpha=0.0), command(C.ALLOC_MATRIX, b),
                     command(C.MATRIX_COPY, b, a, alpha=0.5), command(C.DEALLOC_MATRIX, a)]
    return made


def assert_table_is_right(computation: Computation) -> None:
    found, expected = command_table(computation), CommandTable.of(computation.commands)
    for one, other in ((found.types, expected.types), (found.alphas, expected.alphas), (found.rows, expected.rows)):
        np.testing.assert_array_equal(one, other)
    assert make_commands(found) == computation.commands


def test_table() -> None:
    table = command_table(small())
    assert table.types.tolist() == [C.ALLOC_MATRIX, C.SET_CONST, C.ALLOC_MATRIX, C.MATRIX_COPY, C.DEALLOC_MATRIX]
    assert table.alphas.tolist() == [1.0, 0.0, 1.0, 0.5, 1.0]
    assert table.numbers[C.ALLOC_MATRIX].tolist() == [0, 2] and len(table.numbers[C.PROPAGATE]) == 0
    assert table.args[C.MATRIX_COPY].tolist() == [[2, 1, -1, -1, -1, -1, -1]]
    assert table.positions((Role.READ, Role.WRITE)).tolist() == [7, 21, 22]
    assert make_commands(table) == small().commands


def test_tables_are_made_again_only_for_other_lists() -> None:
    computation = small()
    table, subs = command_table(computation), submatrix_table(computation)
    assert command_table(computation) is table and submatrix_table(computation.copy()) is subs
    copied = computation.copy()
    copied.commands[1] = command(C.SET_CONST, 2, alpha=0.0)
    assert command_table(copied).rows[1, 0] == 2 and command_table(computation) is table
    computation.new_submatrix(1, 0, 1, 0, -1)
    assert len(submatrix_table(computation)) == len(subs) + 1
    computation.commands.pop()
    assert len(command_table(computation).types) == 4
    computation.invalidate_caches()
    assert_table_is_right(computation)


def test_changed_lists_come_with_their_table() -> None:
    computation = small()
    one, two = command(C.NO_OPERATION), command(C.SET_CONST, 2, alpha=2.0)
    for changed, order in ((take_commands(computation, np.array([4, 0])), [4, 0]),
                           (drop_commands(computation, [0, 3]), [1, 2, 4]),
                           (sort_commands(computation, np.array([3, 1, 1, 0, 9])), [3, 1, 2, 0, 4])):
        assert changed.commands == [computation.commands[c] for c in order]
        assert_table_is_right(changed)
    a, b, c, d, e = computation.commands
    for changed, expected in ((replace_commands(computation, {3: one, 0: two}), [two, b, c, one, e]),
                              (substitute_commands(computation, {5: [two, one], 0: [one, two], 3: [d, one, two]}),
                               [one, two, b, c, d, one, two, e, two, one]),
                              (substitute_commands(computation, {1: []}), [a, c, d, e])):
        assert changed.commands == expected
        assert_table_is_right(changed)
    assert computation.commands == small().commands
    assert drop_commands(computation, []) is replace_commands(computation, {}) is computation
    assert sort_commands(computation, np.array([0, 0, 1, 1, 2])) is substitute_commands(computation, {}) is computation


def test_submatrices_and_matrices() -> None:
    computation = small()
    assert submatrix_table(computation).tolist() == [list(sub) for sub in computation.submatrices]
    assert matrix_sizes(computation).tolist() == [[0, 0], [4, 3], [4, 3]]
    assert whole_submatrices(computation).tolist() == [False, True, True, False]


def test_least_and_greatest_of_lists_of_different_lengths() -> None:
    lists = [np.array([3, -1, 5]), np.zeros(0, np.int32), np.array([[7, 2], [4, 9]], np.int32)]
    assert least(lists).tolist() == [-1, 0, 2] and greatest(lists).tolist() == [5, -1, 9]
    assert least([]).tolist() == greatest([]).tolist() == []
