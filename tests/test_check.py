"""The checker: sound lists pass, and each rule notices what breaks it."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from compiler_cases import RNN, TDNN, product, recorded_case, recorded_names, request

from nnet3py.compiler.check import check_computation
from nnet3py.compiler.commands import CommandType as C
from nnet3py.compiler.commands import command
from nnet3py.compiler.computation import Computation, SubMatrix
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet


@pytest.mark.parametrize("name", recorded_names())
def test_sound_computations_pass(name: str) -> None:
    nnet, asked, _ = recorded_case(name)
    computation = generate_computation(nnet, asked)
    check_computation(computation, nnet, check_rewrite=True, thorough=True)
    for _, optimized in optimization_steps(computation, nnet, OptimizeOptions(memory_compression_level=2)):
        check_computation(optimized, nnet, thorough=True)


def number_of(computation: Computation, kind: C, occurrence: int = 0) -> int:
    return [c for c, one in enumerate(computation.commands) if one.type == kind][occurrence]


def change_args(kind: C, place: int, value: int) -> Callable[[Computation], None]:
    def change(computation: Computation) -> None:
        c = number_of(computation, kind)
        args = list(computation.commands[c].args)
        args[place] = value
        computation.commands[c] = computation.commands[c]._replace(args=tuple(args))
    return change


def drop(kind: C, occurrence: int = 0) -> Callable[[Computation], None]:
    return lambda computation: computation.commands.pop(number_of(computation, kind, occurrence)) and None


def double(kind: C) -> Callable[[Computation], None]:
    def change(computation: Computation) -> None:
        c = number_of(computation, kind)
        computation.commands.insert(c, computation.commands[c])
    return change


def move_first(kind: C) -> Callable[[Computation], None]:
    return lambda computation: computation.commands.insert(0, computation.commands.pop(number_of(computation, kind)))


def long_row(computation: Computation) -> None:
    computation.indexes[0] = computation.indexes[0].copy()
    computation.indexes[0][0] = 1000


def short_rows(computation: Computation) -> None:
    computation.indexes[0] = computation.indexes[0][1:]


def outside(computation: Computation) -> None:
    computation.submatrices[-1] = SubMatrix(1, 5, 10**6, 0, 1)


def unused(computation: Computation) -> None:
    s = computation.new_matrix(3, 3)
    computation.debug_info.append(computation.debug_info[0])
    computation.commands.insert(0, command(C.ALLOC_MATRIX, s))


def overwrite_early(computation: Computation) -> None:
    c = number_of(computation, C.PROVIDE_OUTPUT)
    written = computation.commands[number_of(computation, C.PROPAGATE)].args[3]
    computation.commands.insert(c, command(C.SET_CONST, written, alpha=0.0))


def drop_debug_info(computation: Computation) -> None:
    computation.debug_info.pop()


def pair_twice(computation: Computation) -> None:
    entry = computation.commands[number_of(computation, C.ADD_TO_ROWS_MULTI)].args[1]
    pairs = computation.indexes_multi[entry] = computation.indexes_multi[entry].copy()
    pairs[1] = pairs[0]


@pytest.mark.parametrize(("change", "message"), [
    (change_args(C.PROPAGATE, 0, 99), "out of range"),
    (change_args(C.PROPAGATE, 3, 9999), "no sub-matrix"),
    (change_args(C.PROPAGATE, 2, 1), "rows of input|dimensions"),
    (change_args(C.DEALLOC_MATRIX, 0, -1), "no sub-matrix"),
    (change_args(C.ACCEPT_INPUT, 1, 2), "neither an input nor an output"),
    (change_args(C.BACKPROP, 2, 0), "needs a value"),
    (long_row, "row numbers do not fit"),
    (short_rows, "row numbers do not fit"),
    (outside, "beyond its matrix"),
    (drop(C.ALLOC_MATRIX), "not initialized"),
    (double(C.ALLOC_MATRIX), "initialized twice"),
    (double(C.DEALLOC_MATRIX), "destroyed twice"),
    (drop(C.SET_CONST), "undefined when it is first used"),
    (move_first(C.SET_CONST), "before it is initialized"),
    (move_first(C.DEALLOC_MATRIX), "after it is destroyed"),
    (unused, "never accessed|never used"),
    (overwrite_early, "modified after being read"),
    (drop_debug_info, "debug info"),
    (pair_twice, "changed twice"),
])
def test_broken_computations_are_noticed(change: Callable[[Computation], None], message: str) -> None:
    nnet = Nnet.from_config(RNN)
    nnet.read_config("component name=b type=NaturalGradientAffineComponent input-dim=4 output-dim=2\n"
                     "component-node name=b component=b input=t\noutput-node name=output input=b\n")
    asked = request(product([0, 1], range(5)), product([0, 1], range(5)), train=True, input_deriv=True)
    computation = generate_computation(nnet, asked)
    check_computation(computation, nnet, check_rewrite=True, thorough=True)
    change(computation)
    with pytest.raises(CheckError, match=message):
        check_computation(computation, nnet, check_rewrite=True, thorough=True)


def test_memos_and_jumps() -> None:
    nnet = Nnet.from_config(TDNN)
    computation = generate_computation(nnet, request(product([0], range(-4, 6)), product([0], range(4))))
    with_memo = computation.copy()
    change_args(C.PROPAGATE, 4, 3)(with_memo)
    with pytest.raises(CheckError, match="memo 3 is made and never used"):
        check_computation(with_memo, nnet, thorough=True)
    computation.commands.append(command(C.GOTO_LABEL, 0))
    with pytest.raises(CheckError, match="label"):
        check_computation(computation, nnet)


def test_compression_that_does_not_fit() -> None:
    nnet = Nnet.from_config(TDNN)
    asked = request(product([0], range(-4, 6)), product([0], range(4)), train=True)
    sound = list(optimization_steps(generate_computation(nnet, asked), nnet, OptimizeOptions()))[-1][1]
    assert np.sum([one.type == C.COMPRESS_MATRIX for one in sound.commands]) == 1
    check_computation(sound, nnet, thorough=True)
    broken = sound.copy()
    drop(C.DECOMPRESS_MATRIX)(broken)
    with pytest.raises(CheckError, match="not decompressed"):
        check_computation(broken, nnet, thorough=True)
    broken = sound.copy()
    c = number_of(broken, C.DECOMPRESS_MATRIX)
    broken.commands.insert(number_of(broken, C.COMPRESS_MATRIX) + 1, broken.commands.pop(c))
    with pytest.raises(CheckError, match="in the same pass"):
        check_computation(broken, nnet, thorough=True)
