"""nnet3py/runtime/memory_plan.py: matrices that live at the same time never share memory, others may."""
from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from nnet3py.compiler.computation import CommandType, Computation, Fused, command
from nnet3py.runtime.memory_plan import ALIGNMENT, plan_memory


def sequence_of_lives(events: list[tuple[bool, int, int]]) -> Computation:
    """A computation that allocates (True, rows, cols) and frees (False, which of the living, -) matrices."""
    computation, alive = Computation(), []
    for is_allocation, a, b in events:
        if is_allocation:
            alive.append(computation.new_matrix(a, b))
            computation.commands.append(command(CommandType.ALLOC_MATRIX, alive[-1]))
        elif alive:
            computation.commands.append(command(CommandType.DEALLOC_MATRIX, alive.pop(a % len(alive))))
    return computation


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40), st.integers(1, 40)), max_size=40))
def test_living_matrices_never_overlap(events):
    computation = sequence_of_lives(events)
    plan = plan_memory(computation)
    alive: dict[int, tuple[int, int]] = {}
    for one in computation.commands:
        matrix = computation.submatrices[one.args[0]].matrix
        if one.type == CommandType.DEALLOC_MATRIX:
            del alive[matrix]
            continue
        info = computation.matrices[matrix]
        begin = int(plan.offsets[matrix])
        end = begin + info.num_rows * info.num_cols
        assert begin % ALIGNMENT == 0 and end <= plan.size
        assert all(end <= b or e <= begin for b, e in alive.values())
        alive[matrix] = (begin, end)


def test_memory_of_the_dead_is_used_again():
    lives = [event for _ in range(10) for event in ((True, 8, 16), (False, 0, 0))]
    assert plan_memory(sequence_of_lives(lives)).size == 8 * 16


def test_holes_that_touch_become_one():
    lives = [(True, 1, 16)] * 3 + [(False, 0, 0)] * 2 + [(True, 2, 16)]
    plan = plan_memory(sequence_of_lives(lives))
    assert plan.size == 48 and plan.offsets[-1] == 0


def test_swap_takes_the_memory_over():
    computation = Computation()
    a, b = computation.new_matrix(4, 4), computation.new_matrix(4, 4)
    computation.commands += [command(CommandType.ALLOC_MATRIX, a), command(CommandType.SWAP_MATRIX, b, a),
                             command(CommandType.DEALLOC_MATRIX, b)]
    plan = plan_memory(computation)
    assert plan.offsets[1] == plan.offsets[2] and plan.size == 16


def test_what_a_swap_takes_over_is_free_until_then():
    computation = Computation()
    a, b, c, d = (computation.new_matrix(4, 4) for _ in range(4))
    computation.commands += [
        command(CommandType.ALLOC_MATRIX, a), command(CommandType.ALLOC_MATRIX, d), command(CommandType.SET_CONST, a),
        command(CommandType.ALLOC_MATRIX, c), command(CommandType.DEALLOC_MATRIX, c),
        command(CommandType.SWAP_MATRIX, b, a), command(CommandType.DEALLOC_MATRIX, b)]
    assert plan_memory(computation).size == 32
    computation.commands[3:3] = [command(CommandType.MATRIX_COPY, d, a)]
    assert plan_memory(computation).offsets[1] == plan_memory(computation).offsets[3]
    used_late = computation.commands.copy()
    used_late[5:5] = [command(CommandType.ADD_ROWS_MULTI, d, 0)]
    computation.indexes_multi.append(np.array([[a, 0], [-1, -1], [a, 1], [-1, -1]], np.int32))
    computation.commands = used_late
    plan = plan_memory(computation)
    assert plan.size == 48 and len({*plan.offsets[[1, 3, 4]].tolist()}) == 3


def test_a_loop_keeps_what_it_swaps():
    computation = Computation()
    a, b, c = (computation.new_matrix(4, 4) for _ in range(3))
    computation.commands += [
        command(CommandType.ALLOC_MATRIX, a), command(CommandType.NO_OPERATION_LABEL),
        command(CommandType.SET_CONST, a), command(CommandType.DEALLOC_MATRIX, a), command(CommandType.ALLOC_MATRIX, b),
        command(CommandType.SET_CONST, b), command(CommandType.ALLOC_MATRIX, c), command(CommandType.DEALLOC_MATRIX, c),
        command(CommandType.SWAP_MATRIX, a, b), command(CommandType.GOTO_LABEL, 1)]
    plan = plan_memory(computation)
    # What is in b is copied to the place of a, where the next round looks for it: nobody else may have that place.
    assert len(set(plan.offsets[1:].tolist())) == 3


def test_what_the_parts_of_a_fused_command_use_lives_until_then():
    """A matrix that is swapped away ends with its last use, which may be in a part of a fused command."""
    computation = Computation()
    first, second, third = (computation.new_matrix(4, 4) for _ in range(3))
    computation.parts = [Fused("fuse-sums", (command(CommandType.MATRIX_COPY, second, first),
                                             command(CommandType.MATRIX_ADD, second, first)))]
    computation.commands += [command(CommandType.ALLOC_MATRIX, first), command(CommandType.SET_CONST, first),
                             command(CommandType.ALLOC_MATRIX, second), command(CommandType.FUSED, 0),
                             command(CommandType.SWAP_MATRIX, third, first)]
    assert plan_memory(computation).offsets[1:].tolist() == [0, 16, 0]
