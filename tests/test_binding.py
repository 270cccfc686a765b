"""nnet3py/runtime/binding.py: a bound computation allocates nothing, and each call draws numbers of its own."""
from __future__ import annotations

import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from runtime_cases import (
    LSTM,
    TDNN,
    assert_close,
    computer_for,
    forward_request,
    grid,
    matrices_for,
    run_both,
    training_request,
)

from nnet3py.compiler import compile
from nnet3py.compiler.computation import CommandType, Computation, Fused, command
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import freeze_natural_gradient
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import ALIGNMENT, Arena, BoundComputation, plan_memory
from nnet3py.runtime.parameter_store import HostStore

SMALL = 16_384        # bytes: Python's own small objects; the matrices below are two to four times as large
RANK_BY_RANK = 40_000  # bytes: natural gradient looks at a matrix of its rank (80 here) squared on the host

# Natural gradient, normalization with a memo, a recurrence and a sum: the kinds of commands that could allocate.
LARGER = """
input-node name=input dim=40
component name=a type=NaturalGradientAffineComponent input-dim=120 output-dim=64
component name=r type=RectifiedLinearComponent dim=64
component name=n type=BatchNormComponent dim=64
component name=b type=NaturalGradientAffineComponent input-dim=128 output-dim=64
component name=t type=TanhComponent dim=64
component name=c type=LinearComponent input-dim=64 output-dim=64
component name=l type=LogSoftmaxComponent dim=64
component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=r component=r input=a
component-node name=n component=n input=r
component-node name=b component=b input=Append(n, IfDefined(Offset(t, -3)))
component-node name=t component=t input=b
component-node name=c component=c input=Sum(t, Offset(n, 1))
component-node name=l component=l input=c
output-node name=output input=l
"""

DROPOUT_IN_TIME = """
input-node name=input dim=8
component name=d type=DropoutComponent dim=8 dropout-proportion=0.5
component-node name=d component=d input=Sum(input, IfDefined(Offset(d, -1)))
output-node name=output input=d
"""


def bind(nnet: Nnet, computation: Computation | ComputationRequest, update: Nnet | None = None,
         stats: Nnet | None = None, arena: Arena | None = None) -> BoundComputation:
    ops = get_ops("cpu")
    if isinstance(computation, ComputationRequest):
        computation = compile(nnet, computation)
    return BoundComputation(computation, nnet, ops, arena or Arena(ops), update, stats)


def exchanges(bound: BoundComputation) -> list[tuple[list[str], list[str]]]:
    """The inputs and outputs of each stage."""
    return [(list(stage.inputs), list(stage.outputs)) for stage in bound.stages()]


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("natural_gradient", [False, True])
def test_a_run_allocates_nothing(optimize, natural_gradient):
    nnet, request = Nnet.from_config(LARGER), training_request(8, range(-4, 14), range(9))
    update = nnet if natural_gradient else nnet.as_gradient()
    bound = bind(nnet, compile(nnet, request, optimize), update, nnet)
    given = matrices_for(nnet, request)

    def run() -> None:
        for stage in bound.stages():
            for name, view in stage.inputs.items():
                bound.ops.copy_in(view, given[name])
            for function, args in stage.calls:
                function(*args)

    for _ in range(3):      # scratch memory grows to its size, and the natural gradient starts
        run()
    freeze_natural_gradient(update, True)     # its rare refresh works on the host
    run()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2):
            run()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < SMALL
    assert peak - before < (RANK_BY_RANK if natural_gradient else SMALL)
    assert bound.plan.size * 4 > 10 * SMALL


def test_every_view_lies_in_the_arena():
    nnet, arena = Nnet.from_config(LSTM), Arena(get_ops("cpu"))
    bound = bind(nnet, training_request(), nnet.as_gradient(), arena=arena)
    assert arena.buffer.dtype == np.float32 and arena.buffer.size >= bound.plan.size > 0
    assert bound.view(0) is None
    for s, sub in enumerate(bound.computation.submatrices[1:], 1):
        view = bound.view(s)
        assert view.shape == (sub.num_rows, sub.num_cols) and view.base is not None
        assert np.shares_memory(view, arena.buffer)


def test_stages_are_the_forward_and_the_backward_pass():
    nnet = Nnet.from_config(TDNN)
    bound = bind(nnet, training_request(), nnet.as_gradient())
    assert exchanges(bound) == [(["input"], ["output"]), (["output"], ["input"])]
    assert all(stage.calls for stage in bound.stages())
    assert exchanges(bind(nnet, forward_request())) == [(["input"], ["output"])]


@pytest.mark.parametrize(("kind", "further", "expected"), [
    (CommandType.PROVIDE_OUTPUT, 1, [(["input"], ["output"]), ([], [])]),      # read before the rest runs
    (CommandType.ACCEPT_INPUT, 0, [([], []), (["input"], ["output"])])])       # taken after what comes before it
def test_exchanges_are_in_the_order_of_commands(kind, further, expected):
    nnet = Nnet.from_config(TDNN)
    computation = compile(nnet, forward_request())
    commands = list(computation.commands)
    place = next(c for c, exchange in enumerate(commands) if exchange.type == kind)
    commands.insert(place + further, command(CommandType.SET_CONST, commands[place].args[0], alpha=7.0))
    computation.set_commands(commands)
    bound = bind(nnet, computation)
    assert exchanges(bound) == expected
    assert [len(stage.calls) for stage in bound.stages() if not stage.inputs] == [1]


def test_an_input_that_is_an_output_is_given_back_before_its_derivative_comes():
    nnet = Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input\n")
    given, wanted = (IoSpecification(name, grid(1, range(3)), True) for name in ("input", "output"))
    assert exchanges(bind(nnet, ComputationRequest([given], [wanted]))) == [(["input"], ["output"]),
                                                                           (["output"], ["input"])]


def test_commands_without_effect_make_no_calls():
    nnet = Nnet.from_config(TDNN)
    bound = bind(nnet, forward_request())
    silent = {CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX, CommandType.SWAP_MATRIX,
              CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT, CommandType.NO_OPERATION_PERMANENT,
              CommandType.NO_OPERATION, CommandType.NO_OPERATION_MARKER}
    working = [c for c in bound.computation.commands if c.type not in silent]
    assert sum(len(stage.calls) for stage in bound.stages()) == len(working)


def test_binding_again_after_the_arena_grew():
    nnet, arena = Nnet.from_config(TDNN), Arena(get_ops("cpu"))
    small = bind(nnet, forward_request(1), arena=arena)
    first = small.stages()
    assert small.stages() is first
    bind(nnet, forward_request(9), arena=arena)
    assert not vars(small)["_views"] and vars(small)["_buffer"].size == 0, "else it would keep the old block"
    second = small.stages()
    assert second is not first
    assert np.shares_memory(second[0].inputs["input"], arena.buffer)
    assert not np.shares_memory(first[0].inputs["input"], arena.buffer)


def test_settings_of_each_network_are_taken_once(monkeypatch):
    nnet, ops, taken = Nnet.from_config(TDNN), get_ops("cpu"), []
    store, update = HostStore(nnet), HostStore(nnet.as_gradient())
    bound = BoundComputation(compile(nnet, forward_request(1)), store, ops, Arena(ops), update, stats=store)
    monkeypatch.setattr(HostStore, "take_settings", lambda store: taken.append(store))
    bound.take_settings()
    assert taken == [store, update]


@pytest.mark.parametrize("size", [50, 100])
def test_a_reservation_that_is_not_larger_keeps_the_arena(size):
    arena = Arena(get_ops("cpu"))
    arena.reserve(100)
    buffer = arena.buffer
    arena.reserve(size)
    assert arena.buffer is buffer and buffer.size == 100


# -- random streams ----------------------------------------------------------------------------------------------------


def dropped(computer, rows: int) -> np.ndarray:
    """Which elements dropout dropped, in each step of the recurrence (bool, frames x 8), when ones are given."""
    computer.restart()
    computer.accept_input("input", np.ones((rows, 8)))
    computer.run()
    return computer.output("output") == 0.0


def test_each_step_of_a_recurrence_has_its_own_mask():
    nnet = Nnet.from_config(DROPOUT_IN_TIME)
    request = ComputationRequest([IoSpecification("input", grid(4, range(6)))],
                                 [IoSpecification("output", grid(4, range(6)))])
    masks = dropped(computer_for(nnet, request), 24).reshape(6, 32)
    assert len({mask.tobytes() for mask in masks}) == 6
    assert 0.3 < masks.mean() < 0.7       # 192 draws of 1/2: five standard deviations


def test_each_pass_has_its_own_masks_and_a_fresh_computer_the_same():
    nnet, request = Nnet.from_config(DROPOUT_IN_TIME), training_request(4, range(6), range(6), True, False)
    used, fresh = computer_for(nnet, request), computer_for(nnet, request)
    first, second = dropped(used, 24), dropped(used, 24)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(dropped(fresh, 24), first)
    np.testing.assert_array_equal(dropped(fresh, 24), second)


def test_the_backward_pass_uses_the_masks_of_the_forward_pass():
    nnet = Nnet.from_config(DROPOUT_IN_TIME.replace("IfDefined(Offset(d, -1))", "Const(0.0, 8)"))
    request = training_request(4, range(6), range(6), True, False)
    ones = {"input": np.ones((24, 8), np.float32), "output": np.ones((24, 8), np.float32)}
    output, deriv = run_both(computer_for(nnet, request), ones)
    np.testing.assert_array_equal(output == 0.0, deriv == 0.0)
    assert_close(output, deriv)


def test_a_large_arena_is_announced(caplog):
    arena = Arena(get_ops("cpu"))
    with caplog.at_level("INFO"):
        arena.reserve(1000)
        assert not caplog.text
        arena.reserve(2**22)
    assert "The matrices of a minibatch take 16 MB of memory" in caplog.text


# -- matrices that live at the same time never share memory, others may ------------------------------------------------


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
