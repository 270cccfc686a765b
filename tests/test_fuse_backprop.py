"""nnet3py/compiler/fuse/backprop.py: the way back through a batch norm and a rectifier in one pass."""
from __future__ import annotations

import numpy as np
from fuse_cases import LAYER, assert_same, compiled, fusions, results
from paths import ROOT

import nnet3py
from nnet3py.compiler.request import ComputationRequest, IoSpecification
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
