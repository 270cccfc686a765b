"""Copies that are left out: where, and that nothing changes by it."""
from __future__ import annotations

import numpy as np
import pytest
from nnet3py.runtime.copies import needless_copies

import nnet3py
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_dropout_proportion
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import Arena, BoundComputation
from nnet3py.runtime.computer import Computer

CONFIG = """
input-node name=input dim=5
component name=affine type=AffineComponent input-dim=5 output-dim=6
component-node name=affine component=affine input=input
component name=norm type=BatchNormComponent dim=6
component-node name=norm component=norm input=affine
component name=dropout type=GeneralDropoutComponent dim=6 dropout-proportion=0.0
component-node name=dropout component=dropout input=norm
component name=last type=AffineComponent input-dim=6 output-dim=3
component-node name=last component=last input=Sum(Scale(0.5, norm), dropout)
output-node name=output input=last
"""
ROWS = 7


def made(proportion: float) -> tuple[Nnet, Computation]:
    nnet = Nnet.from_config(CONFIG, 3)
    set_dropout_proportion(nnet, proportion)
    indexes = np.zeros((ROWS, 3), np.int32)
    indexes[:, 1] = np.arange(ROWS)
    request = ComputationRequest([IoSpecification("input", indexes, has_deriv=True)],
                                 [IoSpecification("output", indexes, has_deriv=True)], need_model_derivative=True)
    return nnet, nnet3py.compile(nnet, request)


def test_dropout_that_drops_nothing_makes_no_matrix() -> None:
    nnet, computation = made(0.0)
    (copy, source), = needless_copies(computation, nnet).values()
    assert copy != source
    lean, full = (BoundComputation(computation, nnet, get_ops("cpu"), Arena(get_ops("cpu")), nnet.as_gradient(), None,
                                   join=join) for join in (True, False))
    assert lean.plan.offsets[copy] == lean.plan.offsets[source] and lean.plan.size <= full.plan.size
    assert sum(len(stage.calls) for stage in lean.stages()) < sum(len(stage.calls) for stage in full.stages())


def test_dropout_that_drops_is_left_alone() -> None:
    nnet, computation = made(0.5)
    assert needless_copies(computation, nnet) == {}


@pytest.mark.parametrize("proportion", [0.0, 0.5])
def test_results_are_those_of_every_command_run(proportion) -> None:
    found = []
    for debug in (False, True):         # every command is run, and logged, where debug is asked for
        nnet, computation = made(proportion)
        gradient, rng = nnet.as_gradient(), np.random.default_rng(0)
        computer = Computer(computation, nnet, gradient, debug=debug)
        computer.accept_input("input", rng.standard_normal((ROWS, 5)))
        computer.run()
        output = computer.output("output")
        computer.accept_input("output", rng.standard_normal((ROWS, 3)))
        computer.run()
        found.append((output, computer.output("input"), *(c.vectorize() for c in gradient.components
                                                          if hasattr(c, "vectorize"))))
    for lean, full in zip(*found, strict=True):
        np.testing.assert_allclose(lean, full, rtol=1e-5, atol=1e-6)     # a sum of two in one pass rounds once less
