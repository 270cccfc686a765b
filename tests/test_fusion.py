"""nnet3py/compiler/fuse: the choice of passes, each fusion, and a new one that a test adds."""
from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from component_configs import CONFIGS
from fuse_cases import FRAMES, LAYER, ROUNDING, assert_same, compiled, fusions, results
from numpy_ops import NumpyOps
from paths import ROOT
from runtime_cases import LSTM, TDNN, training_request

import nnet3py
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import BACKPROPS, WITHOUT_CALL, Command, CommandType, Computation, command
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.fuse import PASSES, passes
from nnet3py.compiler.fuse.fusion import FuseBackprop, FuseSums, Fusion, Scope
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.components.registry import component_class
from nnet3py.config_line import ConfigLine
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.report.requests import natural_request
from nnet3py.runtime.calls import FUSED_CALLS, Call
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
    with caplog.at_level(logging.INFO, logger="nnet3py.runtime.computer"):
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
    """Two matrices that are set to a value one after the other."""

    name = "fuse-zeroing"
    operation = "set_const"

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        return 2 if [scope.commands[c].type for c in numbers[:2]] == [CommandType.SET_CONST] * 2 else 0


def both_calls(ops: Any, parts: Sequence[Call]) -> Call:
    def both() -> None:
        for function, args in parts:
            function(*args)

    return both, ()


def test_a_new_fusion_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing, checks, memory, running and files follow from the class and its place in the list of passes."""
    monkeypatch.setattr(passes, "PASSES", (*PASSES, FuseZeroing()))
    monkeypatch.setitem(FUSED_CALLS, FuseZeroing.name, both_calls)
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


# -- an affine map with what follows does what they did apart ----------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_a_layer_is_one_command(training: bool) -> None:
    found = []
    for chosen in ("fuse-affine", "none"):
        nnet = Nnet.from_config(LAYER, 3)
        if not training:
            results(nnet, compiled(nnet, True, "none"), True)
            nnet.component("norm").set_test_mode(True)
        computation = compiled(nnet, training, chosen)
        assert fusions(computation) == (["fuse-affine"] if chosen != "none" else [])
        assert not computation.parts or len(computation.parts[0].commands) == 3
        found.append(results(nnet, computation, training))
    assert_same(*found)


def test_settings_may_change_after_binding() -> None:
    nnet = Nnet.from_config(LAYER, 3)
    results(nnet, compiled(nnet, True, "none"), True)
    norm = nnet.component("norm")
    norm.set_test_mode(True)
    computer = Computer(compiled(nnet, False, "fuse-affine"), nnet)
    feats = np.random.default_rng(1).standard_normal((FRAMES + 3, 5))
    for scale in (1.0, 3.0):
        norm.scale(1.0 / scale)
        norm.sum *= scale ** 2
        norm.compute_derived()
        computer.accept_input("input", feats)
        computer.run()
        fresh = Computer(compiled(nnet, False, "none"), nnet)
        fresh.accept_input("input", feats)
        fresh.run()
        np.testing.assert_allclose(computer.output("output"), fresh.output("output"), rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("fuse", ["fuse-affine", "all"])
def test_a_batch_norm_put_in_test_mode_after_compiling_runs_by_itself(fuse: str) -> None:
    found = []
    for chosen in (fuse, "none"):
        nnet = Nnet.from_config(LAYER, 3)
        computation = compiled(nnet, True, chosen)
        results(nnet, computation, True)
        nnet.component("norm").set_test_mode(True)
        found.append(results(nnet, computation, True))
    assert_same(*found)


@pytest.mark.parametrize("kind, line", [(kind, line) for kind in sorted(CONFIGS) for line in CONFIGS[kind][:1]
                                        if not kind.startswith("Statistics")])      # which want certain times
def test_every_type_before_a_rectifier(kind: str, line: str) -> None:
    text = ConfigLine(f"component name=c type={kind} {line}")
    text.get_string("name"), text.get_string("type")
    component = component_class(kind).from_config(text, np.random.default_rng(0))
    nnet = Nnet.from_config(f"input-node name=input dim={component.input_dim}\ncomponent name=c type={kind} {line}\n"
                            f"component name=relu type=RectifiedLinearComponent dim={component.output_dim}\n"
                            "component-node name=c component=c input=input\n"
                            "component-node name=relu component=relu input=c\noutput-node name=output input=relu\n")
    asked = natural_request(nnet, frames=5, num_sequences=2)
    found = []
    for chosen in ("all", "none"):
        computer = Computer(nnet3py.compile(nnet, asked, OptimizeOptions(fuse=chosen)), nnet.copy())
        rng = np.random.default_rng(1)
        for given in asked.inputs:
            computer.accept_input(given.name, rng.random((len(given.indexes), nnet.input_dim(given.name))))
        computer.run()
        found.append(computer.output("output"))
    np.testing.assert_allclose(*found, rtol=ROUNDING, atol=ROUNDING * np.abs(found[1]).max())


# -- the way back through a batch norm and a rectifier in one pass -----------------------------------------------------


def test_a_layer_goes_back_in_one_pass() -> None:
    found = []
    for chosen in ("fuse-backprop", "none"):
        nnet = Nnet.from_config(LAYER, 3)
        computation = compiled(nnet, True, chosen)
        assert fusions(computation) == (["fuse-backprop"] if chosen != "none" else [])
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


def backprop_fusions(reader_after: int | None = None) -> list[str]:
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
    assert backprop_fusions() == ["fuse-backprop"] and backprop_fusions(0) == backprop_fusions(1) == []


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


# -- a copy and an addition become one sum -----------------------------------------------------------------------------


NNET = Nnet.from_config("input-node name=input dim=4\noutput-node name=output input=input\n")


def summed(*commands: Command) -> Computation:
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
    function, args = FUSED_CALLS[FuseSums.name](ops, parts)
    function(*args)
    np.testing.assert_allclose(dst, wanted, rtol=1e-6)


def test_what_stands_between_goes_before_and_after() -> None:
    made = summed(command(C.MATRIX_COPY, 1, 2, alpha=0.5), command(C.DEALLOC_MATRIX, 2),
                 command(C.ALLOC_MATRIX, 2), command(C.MATRIX_ADD, 1, 3))
    assert [one.type for one in made.commands] == [C.ALLOC_MATRIX, C.FUSED, C.DEALLOC_MATRIX]
    assert [one.args[0] for one in made.commands] == [2, 0, 2]
    assert made.parts[0].commands == (command(C.MATRIX_COPY, 1, 2, alpha=0.5), command(C.MATRIX_ADD, 1, 3))


@pytest.mark.parametrize("commands", [
    (command(C.MATRIX_COPY, 1, 2), command(C.MATRIX_ADD, 1, 1)),            # of the copy itself
    (command(C.MATRIX_COPY, 1, 2), command(C.MATRIX_ADD, 3, 2)),            # to something else
    (command(C.MATRIX_ADD, 1, 2), command(C.MATRIX_ADD, 1, 3)),             # no copy
    (command(C.MATRIX_COPY, 1, 2), command(C.NO_OPERATION_LABEL), command(C.MATRIX_ADD, 1, 3)),   # where a jump leads
    (command(C.MATRIX_COPY, 1, 2), command(C.SET_CONST, 3), command(C.MATRIX_ADD, 1, 3))])
def test_others_stay(commands: tuple[Command, ...]) -> None:
    assert summed(*commands).commands == list(commands)
