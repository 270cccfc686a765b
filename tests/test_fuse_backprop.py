"""nnet3py/compiler/fuse/backprop.py: the way back through a batch norm and a rectifier in one pass."""
from __future__ import annotations

import numpy as np
from fuse_cases import LAYER, assert_same, compiled, fusions, results
from paths import ROOT

import nnet3py
from nnet3py.compiler.commands import BACKPROPS, CommandType, command
from nnet3py.compiler.fuse.backprop import FuseBackprop
from nnet3py.compiler.fuse.fusion import Scope
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer


def test_a_layer_goes_back_in_one_pass() -> None:
    found = []
    for fuse in ("fuse-backprop", "none"):
        nnet = Nnet.from_config(LAYER, 3)
        computation = compiled(nnet, True, fuse)
        assert fusions(computation) == (["fuse-backprop"] if fuse != "none" else [])
        found.append(results(nnet, computation, True))
    assert_same(*found)


def test_a_derivative_that_others_need_is_written() -> None:
    """Two layers read the rectifier's output, so that its derivative is a sum, and no batch norm comes just before."""
    shared = LAYER.replace("component-node name=last component=last input=norm",
                           "component-node name=last component=last input=Sum(norm, relu)")
    assert fusions(compiled(Nnet.from_config(shared, 3), True, "fuse-backprop")) == []


def test_it_writes_over_nothing_that_it_reads() -> None:
    """Through batch norms whose output is part of a spliced matrix that nothing else reads any more."""
    nnet = Nnet.from_config((ROOT / "egs" / "digits" / "conf" / "tdnn.config").read_text(encoding="utf-8"), 1)
    frames = np.zeros((64, 3), np.int32)
    frames[:, 1] = np.arange(-28, 36)        # more than are needed, as there are in examples for several networks
    asked = ComputationRequest([IoSpecification("input", frames)], [IoSpecification("output", frames[28:36], True)],
                               need_model_derivative=True, store_component_stats=True)
    bound = Computer(nnet3py.compile(nnet, asked), nnet, nnet)._bound
    pairs = [one.commands for one in bound.computation.parts if one.fusion == "fuse-backprop"]
    assert len(pairs) == 4
    for norm, relu, *_ in pairs:
        dx = bound.view(relu.args[5])
        for read in map(bound.view, (*norm.args[3:5], relu.args[3])):
            in_place = read.ctypes.data == dx.ctypes.data and read.strides == dx.strides
            assert in_place or not np.may_share_memory(read, dx)


def fused(reader_after: int | None = None) -> list[str]:
    """The fusions of the layer, if a command copies the derivative between batch norm and rectifier elsewhere.

    ``reader_after``: how many commands after the rectifier's way back; None for no such command.
    """
    nnet = Nnet.from_config(LAYER, 3)
    computation = compiled(nnet, True, "fuse-backprop").unfused()
    commands = list(computation.commands)
    relu = next(c for c, back in enumerate(commands) if back.type in BACKPROPS
                and isinstance(nnet.components[back.args[0]], RectifiedLinearComponent))
    between = commands[relu].args[4]
    shape = computation.submatrices[between][2:]
    target = next(s for s, sub in enumerate(computation.submatrices)
                  if sub[2:] == shape and sub.matrix != computation.submatrices[between].matrix)
    if reader_after is not None:
        commands.insert(relu + 1 + reader_after, command(CommandType.MATRIX_COPY, target, between))
    computation.set_commands(commands)
    return fusions(FuseBackprop().run(computation, nnet))


def test_a_derivative_that_is_read_later_is_written() -> None:
    assert fused() == ["fuse-backprop"] and fused(0) == fused(1) == []


def test_what_is_used_after_a_command() -> None:
    nnet = Nnet.from_config(LAYER, 3)
    computation = compiled(nnet, True, "none")
    scope, commands = Scope(computation, nnet), computation.commands
    last = len(commands) - 1
    output = next(c.args[0] for c in commands if c.type == CommandType.PROVIDE_OUTPUT)
    freed = next(c for c, freeing in enumerate(commands) if freeing.type == CommandType.DEALLOC_MATRIX)
    assert scope.is_used_after(output, last)                       # the caller reads it
    assert scope.is_used_after(commands[freed].args[0], 0) and not scope.is_used_after(commands[freed].args[0], freed)
    computation.set_commands([command(CommandType.NO_OPERATION_LABEL), *commands, command(CommandType.GOTO_LABEL, 0)])
    assert Scope(computation, nnet).is_used_after(commands[freed].args[0], last)        # in the next round, perhaps
