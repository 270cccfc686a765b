"""Limiting derivatives to a range of times is what zeroing all other derivatives would be, with less to do."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import RNN, TDNN, assert_same_results, product, request, run
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import config, few_waves, rows

from nnet3py.compiler.analyze import WRITE, submatrix_accesses
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, command
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.consolidate import consolidate_io
from nnet3py.compiler.optimize.limit_derivative_times import limit_derivative_times
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.compiler.tables import command_table
from nnet3py.errors import CompileError, NotComputableError
from nnet3py.network.nnet import Nnet

# Components of every kind that the pass treats differently: with a memo, not simple, with statistics.
MIXED = """
input-node name=input dim=2
component name=a type=AffineComponent input-dim=4 output-dim=4
component name=n type=BatchNormComponent dim=4
component name=d type=TdnnComponent input-dim=4 output-dim=3 time-offsets=-1,0,1
component name=s type=SigmoidComponent dim=3
component name=b type=AffineComponent input-dim=5 output-dim=2
component-node name=a component=a input=Append(input, Offset(input, 1))
component-node name=n component=n input=a
component-node name=d component=d input=n
component-node name=s component=s input=d
dim-range-node name=r input-node=s dim-offset=1 dim=2
component-node name=b component=b input=Append(Sum(s, Offset(s, 1)), Round(r, 2))
output-node name=output input=b
"""


def zeroed_outside(computation: Computation, nnet: Nnet, least: int, greatest: int) -> Computation:
    """Every derivative row outside of the range is set to zero after each command that may have changed it."""
    out = computation.copy()
    rows_of: dict[int, list[int]] = {}
    for m, info in enumerate(computation.debug_info):
        if info.is_deriv:
            t = info.indexes[:, 1]
            out.submatrices.append(out.submatrices[0]._replace(
                matrix=m, num_rows=len(t), num_cols=computation.matrices[m].num_cols))
            whole = len(out.submatrices) - 1
            rows_of[m] = [out.new_submatrix(whole, int(row), 1, 0, -1)
                          for row in np.flatnonzero((t < least) | (t > greatest))]
    after: dict[int, set[int]] = {}
    for c, s, kind in zip(*submatrix_accesses(computation, nnet, command_table(computation)), strict=True):
        if kind & WRITE:
            after.setdefault(int(c), set()).update(rows_of.get(computation.submatrices[s].matrix, []))
    out.commands = [one for c, original in enumerate(computation.commands)
                    for one in (original, *(command(C.SET_CONST, s, alpha=0.0) for s in sorted(after.get(c, ()))))]
    return consolidate_io(out)


@pytest.mark.parametrize("limits", [(0, 2), (-1, 1), (-2**31, 0), (1, 2**31 - 1), (3, 3), (-100, 100), (50, 60)])
@pytest.mark.parametrize("text", [TDNN, RNN, MIXED])
def test_other_derivatives_count_as_zero(text: str, limits: tuple[int, int]) -> None:
    nnet = Nnet.from_config(text)
    asked = request(product([0, 1, 2], range(-4, 8)), product([0, 1, 2], range(4)), train=True, input_deriv=True)
    computation = generate_computation(nnet, asked)
    before = computation.describe(nnet)
    limited = limit_derivative_times(computation, nnet, *limits)
    check_computation(limited, nnet, thorough=True, check_rewrite=True)
    assert computation.describe(nnet) == before
    expected = run(nnet, zeroed_outside(computation, nnet, *limits), asked)
    assert_same_results(run(nnet, consolidate_io(limited), asked), expected)


@settings(deadline=None, max_examples=30)
@given(config(component="type=AffineComponent input-dim=2 output-dim=2"), rows(1, 4), st.integers(-6, 4),
       st.integers(0, 5))
def test_random_networks(text: str, wanted: dict, least: int, length: int) -> None:
    nnet = Nnet.from_config(text)
    # Sorted outputs: a sum over derivatives that the caller gives can be cut off at its ends only, as in Kaldi.
    asked = request(np.array(wanted["input"], np.int32), np.array(sorted(wanted["output"]), np.int32), True, True)
    try:
        with few_waves():
            computation = generate_computation(nnet, asked)
    except (NotComputableError, CompileError):
        return
    limited = limit_derivative_times(computation, nnet, least, least + length)
    check_computation(limited, nnet, thorough=True)
    expected = run(nnet, zeroed_outside(computation, nnet, least, least + length), asked)
    assert_same_results(run(nnet, consolidate_io(limited), asked), expected)
    options = OptimizeOptions(min_deriv_time=least, max_deriv_time=least + length)
    for name, optimized in optimization_steps(computation, nnet, options):
        check_computation(optimized, nnet, thorough=True, after=name)
    assert_same_results(run(nnet, optimized, asked), expected)


def test_less_is_computed() -> None:
    nnet = Nnet.from_config(RNN)
    asked = request(product([0, 1], range(-4, 6)), product([0, 1], range(6)), train=True)
    computation = generate_computation(nnet, asked)

    def backprops(c: Computation) -> int:
        return sum(one.type == C.BACKPROP for one in c.commands)

    limited = limit_derivative_times(computation, nnet, 2, 4)
    # The affine component and the tanh, at each of the three times that are left.
    assert (backprops(computation), backprops(limited)) == (2 * 10, 2 * 3)
    assert len(limited.matrices) < len(computation.matrices)
    derivs = [info for info in limited.debug_info if info.is_deriv]
    given_rows = [info for info in derivs if nnet.node_names[int(info.nodes[0])] == "output"]
    assert len(given_rows) == 1 and len(given_rows[0].indexes) == 12       # what the caller gives keeps its size
    for info in derivs:
        if info is not given_rows[0]:
            assert info.indexes[:, 1].min() >= 2 and info.indexes[:, 1].max() <= 4


def test_statistics_of_times_outside_are_not_stored() -> None:
    nnet = Nnet.from_config(RNN)
    asked = request(product([0], range(-2, 4)), product([0], range(4)), train=True)
    stored = [one.args[5] for one in limit_derivative_times(generate_computation(nnet, asked), nnet, 0, 1).commands
              if one.type == C.PROPAGATE and one.args[0] == nnet.component_index("t")]
    assert stored == [0, 0, 1, 1, 0, 0]


def test_nothing_to_limit_and_nothing_left() -> None:
    nnet = Nnet.from_config(TDNN)
    computation = generate_computation(nnet, request(product([0], range(-4, 6)), product([0], range(4)), train=True))
    assert limit_derivative_times(computation, nnet) is computation
    assert limit_derivative_times(computation, nnet, -100, 100) is computation
    with pytest.raises(CompileError, match="times from 3 to 2"):
        limit_derivative_times(computation, nnet, 3, 2)
