"""Calls that are joined do what they did apart; others stay as they are."""
from __future__ import annotations

import numpy as np
import pytest
from component_configs import CONFIGS
from nnet3py.runtime.joining import BatchNormAndRelu, join_calls
from numpy_ops import NumpyOps
from paths import ROOT

import nnet3py
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.registry import component_class
from nnet3py.config_line import ConfigLine
from nnet3py.network.nnet import Nnet
from nnet3py.report.requests import natural_request
from nnet3py.runtime.computer import Computer


def test_a_copy_and_an_addition_become_one_sum() -> None:
    ops, rng = NumpyOps(), np.random.default_rng(0)
    dst, a, b = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
    apart = [(ops.copy_mat, (dst, a, 0.66)), (ops.add_mat, (dst, b, 2.0))]
    calls, commands = join_calls(ops, apart, [5, 6], lambda c, matrix: True)
    assert [function for function, _ in calls] == [ops.sum_mats] and commands == [6]
    for function, args in apart:
        function(*args)
    wanted = dst.copy()
    for function, args in calls:
        function(*args)
    np.testing.assert_allclose(dst, wanted, rtol=1e-6)


def test_what_depends_on_the_copy_itself_stays() -> None:
    ops = NumpyOps()
    dst, other, a = (np.ones((2, 2), np.float32) for _ in range(3))
    for calls in ([(ops.copy_mat, (dst, a, 1.0)), (ops.add_mat, (dst, dst, 1.0))],
                  [(ops.copy_mat, (dst, a, 1.0)), (ops.add_mat, (other, a, 1.0))],
                  [(ops.add_mat, (dst, a, 1.0)), (ops.add_mat, (dst, other, 1.0))]):
        assert join_calls(ops, calls, [0, 1], lambda c, matrix: True) == (calls, [0, 1])


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
ROUNDING = 1e-5       # sums of columns in another order


def made(nnet: Nnet, training: bool) -> Computation:
    indexes = np.zeros((FRAMES + 3, 3), np.int32)
    indexes[:, 1] = np.arange(-1, FRAMES + 2)
    request = ComputationRequest([IoSpecification("input", indexes, has_deriv=training)],
                                 [IoSpecification("output", indexes[1:-2], has_deriv=training)],
                                 need_model_derivative=training, store_component_stats=training)
    return nnet3py.compile(nnet, request)


def run(nnet: Nnet, training: bool, debug: bool) -> tuple[list[np.ndarray], list[str]]:
    """Output, derivative, parameters and statistics after two minibatches, and the calls that made them."""
    rng = np.random.default_rng(0)
    computer = Computer(made(nnet, training), nnet, nnet if training else None, debug=debug)
    names = [type(function).__name__ for stage in computer._bound.stages() for function, _ in stage.calls]
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
    return found, names


def test_a_layer_in_training_passes_once_each_way() -> None:
    (joined, names), (apart, others) = (run(Nnet.from_config(LAYER, 3), True, debug) for debug in (False, True))
    assert names.count("FinishedProduct") == names.count("BatchNormAndRelu") == 1
    assert not {"FinishedProduct", "BatchNormAndRelu"} & set(others)
    for one, other in zip(joined, apart, strict=True):
        np.testing.assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING * np.abs(other).max())


def test_a_layer_in_test_mode_is_one_call() -> None:
    nnet = Nnet.from_config(LAYER, 3)
    run(nnet, True, False)
    nnet.component("norm").set_test_mode(True)
    (joined, names), (apart, others) = (run(nnet, False, debug) for debug in (False, True))
    assert names.count("FinishedProduct") == 1 and len(names) <= len(others) - 2
    for one, other in zip(joined, apart, strict=True):
        np.testing.assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING * np.abs(other).max())


def test_settings_may_change_after_binding() -> None:
    nnet = Nnet.from_config(LAYER, 3)
    run(nnet, True, False)
    norm = nnet.component("norm")
    norm.set_test_mode(True)
    computer = Computer(made(nnet, False), nnet)
    feats = np.random.default_rng(1).standard_normal((FRAMES + 3, 5))
    for scale in (1.0, 3.0):
        norm.scale(1.0 / scale)
        norm.sum *= scale ** 2
        norm.compute_derived()
        computer.accept_input("input", feats)
        computer.run()
        fresh = Computer(made(nnet, False), nnet, debug=True)
        fresh.accept_input("input", feats)
        fresh.run()
        np.testing.assert_allclose(computer.output("output"), fresh.output("output"), rtol=ROUNDING, atol=ROUNDING)


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
    computation = nnet3py.compile(nnet, asked)
    found = []
    for debug in (False, True):
        computer = Computer(computation, nnet.copy(), debug=debug)
        rng = np.random.default_rng(1)
        for given in asked.inputs:
            computer.accept_input(given.name, rng.random((len(given.indexes), nnet.input_dim(given.name))))
        computer.run()
        found.append(computer.output("output"))
    np.testing.assert_allclose(*found, rtol=ROUNDING, atol=ROUNDING * np.abs(found[1]).max())


def test_no_joined_call_writes_over_what_it_reads() -> None:
    """The way back through a batch norm whose output is part of a spliced matrix that nothing else reads any more."""
    nnet = Nnet.from_config((ROOT / "egs" / "digits" / "conf" / "tdnn.config").read_text(encoding="utf-8"), 1)
    frames = np.zeros((64, 3), np.int32)
    frames[:, 1] = np.arange(-28, 36)        # more than are needed, as there are in examples for several networks
    asked = ComputationRequest([IoSpecification("input", frames)], [IoSpecification("output", frames[28:36], True)],
                               need_model_derivative=True, store_component_stats=True)
    computer = Computer(nnet3py.compile(nnet, asked), nnet, nnet)
    pairs = [function for stage in computer._bound.stages() for function, _ in stage.calls
             if isinstance(function, BatchNormAndRelu)]
    assert len(pairs) == 4
    for pair in pairs:
        (_, (_, _, y, dy, _, _, _)), (_, (_, _, active, _, _, _, dx)) = pair._batch_norm, pair._relu
        for read in (y, dy, active):
            in_place = read.ctypes.data == dx.ctypes.data and read.strides == dx.strides
            assert in_place or not np.may_share_memory(read, dx)
