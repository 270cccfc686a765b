"""nnet3py/compiler/fuse: passes by name, by what the device can do; and that a new one is a file."""
from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fuse_cases import FRAMES, LAYER, assert_same, compiled, fusions
from runtime_cases import LSTM, TDNN, training_request

import nnet3py
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.commands import WITHOUT_CALL, CommandType, command
from nnet3py.compiler.fuse import PASSES, passes
from nnet3py.compiler.fuse.fusion import Call, Fusion, Scope
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer
from nnet3py.runtime.looped import LoopedComputer

_NO_CALL = WITHOUT_CALL | {CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT, CommandType.GOTO_LABEL}


def test_passes_are_switched_by_name() -> None:
    nnet = Nnet.from_config(LAYER, 3)
    assert fusions(compiled(nnet, True, "all")) == ["fuse-affine", "fuse-backprop"]
    assert fusions(compiled(nnet, True, "fuse-backprop, omit-marks")) == ["fuse-backprop"]
    assert fusions(compiled(nnet, True, "none")) == fusions(compiled(nnet, True, "")) == []
    with pytest.raises(UsageError, match="no pass 'fuse-all'"):
        compiled(nnet, True, "fuse-all")


def test_nothing_is_fused_without_optimization() -> None:
    nnet = Nnet.from_config(LAYER, 3)
    assert not nnet3py.compile(nnet, training_request_of(nnet), optimize=False).parts


def training_request_of(nnet: Nnet) -> nnet3py.ComputationRequest:
    indexes = np.zeros((FRAMES + 3, 3), np.int32)
    indexes[:, 1] = np.arange(-1, FRAMES + 2)
    return nnet3py.ComputationRequest([nnet3py.IoSpecification("input", indexes)],
                                      [nnet3py.IoSpecification("output", indexes[1:-2], has_deriv=True)], True)


@pytest.mark.parametrize("config", [TDNN, LSTM, LAYER])
def test_what_is_printed_is_what_runs(config: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each command that computes is a line of the listing and one call, which a trace sees."""
    nnet = Nnet.from_config(config, 1)
    request = training_request_of(nnet) if config == LAYER else training_request()
    computation = nnet3py.compile(nnet, request)
    assert computation.parts or config != LAYER
    listed = [line for line, one in zip(computation.describe(nnet).splitlines()[-len(computation.commands):],
                                        computation.commands, strict=True) if one.type not in _NO_CALL]
    computer = Computer(computation, nnet, nnet.as_gradient(), debug=True)
    with caplog.at_level(logging.INFO, logger="nnet3py.runtime.trace"):
        for ios in (request.inputs, request.outputs):
            for io in ios:
                computer.accept_input(io.name, np.ones((len(io.indexes), nnet.node_dim(nnet.node_index(io.name)))))
            computer.run()
    traced = [record.getMessage().split("\t|\t")[0] for record in caplog.records]
    assert traced == listed
    assert [c for stage in computer._bound.stages() for c in stage.commands] == [
        c for c, one in enumerate(computation.commands) if one.type not in _NO_CALL]


def test_a_loop_is_fused_and_jumps_to_where_its_label_is() -> None:
    text = LAYER.replace("time-offsets=-1,2", "time-offsets=-1,0")
    looped = LoopedComputer(Nnet.from_config(text, 3), 5, training_mode=True)
    assert "fuse-affine" in fusions(looped.computation)
    jump = looped.computation.commands[-1]
    assert looped.computation.commands[jump.args[0]].type == CommandType.NO_OPERATION_LABEL
    check_computation(looped.computation, looped.nnet)
    assert looped.computation.unfused().commands[-1].type == CommandType.GOTO_LABEL


class FuseZeroing(Fusion):
    """Two matrices that are set to a value one after the other: what a new file here could hold."""

    name = "fuse-zeroing"
    operation = "set_const"

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        return 2 if [scope.commands[c].type for c in numbers[:2]] == [CommandType.SET_CONST] * 2 else 0

    def bind(self, ops: Any, parts: Sequence[Call]) -> Call:
        def both() -> None:
            for function, args in parts:
                function(*args)

        return both, ()


def test_a_new_fusion_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing, checks, memory, running and files follow from the class and its place in the list of passes."""
    monkeypatch.setattr(passes, "PASSES", (*PASSES, FuseZeroing()))
    nnet = Nnet.from_config("input-node name=input dim=1\n"
                            "component name=a type=AffineComponent input-dim=6 output-dim=2\n"
                            "component-node name=a component=a input=Append(Const(1.0, 3), Const(2.0, 2), input)\n"
                            "output-node name=output input=a\n", 3)
    indexes = np.stack([np.zeros(4, np.int32), np.arange(4), np.zeros(4, np.int32)], axis=1)
    request = nnet3py.ComputationRequest([nnet3py.IoSpecification("input", indexes)],
                                         [nnet3py.IoSpecification("output", indexes)])
    computation = nnet3py.compile(nnet, request, OptimizeOptions(fuse="fuse-zeroing"), shortcut=False)
    assert fusions(computation) == ["fuse-zeroing"]
    assert "fuse-zeroing { m2(0:3, 0:2).set(1) [dim = 4 x 3];; m2(0:3, 3:4).set(2) [dim = 4 x 2]; }" in (
        computation.describe(nnet))
    check_computation(computation, nnet, thorough=True)
    found = []
    for one in (computation, computation.unfused()):
        computer = Computer(one, nnet)
        computer.accept_input("input", np.ones((4, 1)))
        computer.run()
        found.append([computer.output("output")])
    assert_same(*found)
    assert command(CommandType.FUSED, 0) not in computation.unfused().commands
