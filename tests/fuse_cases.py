"""A layer, compiled with some of the passes that fuse commands and run."""
from __future__ import annotations

import numpy as np

import nnet3py
from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer

LAYER = """
input-node name=input dim=5
component name=tdnn type=TdnnComponent input-dim=5 output-dim=6 time-offsets=-1,2 learning-rate=0.1
component-node name=tdnn component=tdnn input=input
component name=relu type=RectifiedLinearComponent dim=6 self-repair-scale=0.01
component-node name=relu component=relu input=tdnn
component name=norm type=BatchNormComponent dim=6
component-node name=norm component=norm input=relu
component name=last type=AffineComponent input-dim=6 output-dim=3
component-node name=last component=last input=norm
output-node name=output input=last
"""
FRAMES = 150
ROUNDING = 1e-5       # sums of columns in another order; a sum of two in one pass rounds once less


def compiled(nnet: Nnet, training: bool, fuse: str) -> Computation:
    """For FRAMES frames of a network with the context of LAYER."""
    indexes = np.zeros((FRAMES + 3, 3), np.int32)
    indexes[:, 1] = np.arange(-1, FRAMES + 2)
    request = ComputationRequest([IoSpecification("input", indexes, has_deriv=training)],
                                 [IoSpecification("output", indexes[1:-2], has_deriv=training)],
                                 need_model_derivative=training, store_component_stats=training)
    return nnet3py.compile(nnet, request, OptimizeOptions(fuse=fuse))


def fusions(computation: Computation) -> list[str]:
    """The passes that made its fused commands, in order."""
    return [computation.parts[one.args[0]].fusion for one in computation.commands if one.type == CommandType.FUSED]


def results(nnet: Nnet, computation: Computation, training: bool) -> list[np.ndarray]:
    """Output, derivative, parameters and statistics after two minibatches."""
    rng = np.random.default_rng(0)
    computer = Computer(computation, nnet, nnet if training else None)
    found = []
    for _ in range(2):
        computer.accept_input("input", rng.standard_normal((FRAMES + 3, 5)))
        computer.run()
        found.append(computer.output("output"))
        if training:
            computer.accept_input("output", rng.standard_normal((FRAMES, 3)))
            computer.run()
            found.append(computer.output("input"))
    for component in nnet.components:
        found += [getattr(component, name) for name in (*component.PARAMETERS, *component.STATISTICS)]
    return found


def assert_same(first: list[np.ndarray], second: list[np.ndarray]) -> None:
    """All but rounding."""
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING * np.abs(other).max())
