"""nnet3py/compiler/fuse/sums.py: a copy and an addition become one sum."""
from __future__ import annotations

import numpy as np
import pytest
from numpy_ops import NumpyOps

from nnet3py.compiler.commands import Command, command
from nnet3py.compiler.commands import CommandType as C
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse.sums import FuseSums
from nnet3py.network.nnet import Nnet

NNET = Nnet.from_config("input-node name=input dim=4\noutput-node name=output input=input\n")


def fused(*commands: Command) -> Computation:
    """After the pass; the matrices 1, 2 and 3 have one size."""
    computation = Computation()
    for _ in range(3):
        computation.new_matrix(3, 4)
    computation.commands += commands
    return FuseSums().run(computation, NNET)


def test_a_copy_and_an_addition_become_one_sum() -> None:
    ops, rng = NumpyOps(), np.random.default_rng(0)
    dst, a, b = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
    parts = [(ops.copy_mat, (dst, a, 0.66)), (ops.add_mat, (dst, b, 2.0))]
    for function, args in parts:
        function(*args)
    wanted = dst.copy()
    function, args = FuseSums().bind(ops, parts)
    function(*args)
    np.testing.assert_allclose(dst, wanted, rtol=1e-6)


def test_what_stands_between_goes_before_and_after() -> None:
    made = fused(command(C.MATRIX_COPY, 1, 2, alpha=0.5), command(C.DEALLOC_MATRIX, 2), command(C.SWAP_MATRIX, 2, 3),
                 command(C.MATRIX_ADD, 1, 3))
    assert [one.type for one in made.commands] == [C.ALLOC_MATRIX, C.FUSED, C.DEALLOC_MATRIX, C.DEALLOC_MATRIX]
    assert [one.args[0] for one in made.commands] == [2, 0, 2, 3]
    assert made.parts[0].commands == (command(C.MATRIX_COPY, 1, 2, alpha=0.5), command(C.MATRIX_ADD, 1, 3))


@pytest.mark.parametrize("commands", [
    (command(C.MATRIX_COPY, 1, 2), command(C.MATRIX_ADD, 1, 1)),            # of the copy itself
    (command(C.MATRIX_COPY, 1, 2), command(C.MATRIX_ADD, 3, 2)),            # to something else
    (command(C.MATRIX_ADD, 1, 2), command(C.MATRIX_ADD, 1, 3)),             # no copy
    (command(C.MATRIX_COPY, 1, 2), command(C.NO_OPERATION_LABEL), command(C.MATRIX_ADD, 1, 3)),   # where a jump leads
    (command(C.MATRIX_COPY, 1, 2), command(C.SET_CONST, 3), command(C.MATRIX_ADD, 1, 3))])
def test_others_stay(commands: tuple[Command, ...]) -> None:
    assert fused(*commands).commands == list(commands)
