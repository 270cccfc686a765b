"""nnet3py/compiler/fuse/affine.py: an affine map with what follows does what they did apart."""
from __future__ import annotations

import numpy as np
import pytest
from component_configs import CONFIGS
from fuse_cases import FRAMES, LAYER, ROUNDING, assert_same, compiled, fusions, results

import nnet3py
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.components.registry import component_class
from nnet3py.config_line import ConfigLine
from nnet3py.network.nnet import Nnet
from nnet3py.report.requests import natural_request
from nnet3py.runtime.computer import Computer


@pytest.mark.parametrize("training", [True, False])
def test_a_layer_is_one_command(training: bool) -> None:
    found = []
    for fuse in ("fuse-affine", "none"):
        nnet = Nnet.from_config(LAYER, 3)
        if not training:
            results(nnet, compiled(nnet, True, "none"), True)
            nnet.component("norm").set_test_mode(True)
        computation = compiled(nnet, training, fuse)
        assert fusions(computation) == (["fuse-affine"] if fuse != "none" else [])
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
    for fuse in ("all", "none"):
        computer = Computer(nnet3py.compile(nnet, asked, OptimizeOptions(fuse=fuse)), nnet.copy())
        rng = np.random.default_rng(1)
        for given in asked.inputs:
            computer.accept_input(given.name, rng.random((len(given.indexes), nnet.input_dim(given.name))))
        computer.run()
        found.append(computer.output("output"))
    np.testing.assert_allclose(*found, rtol=ROUNDING, atol=ROUNDING * np.abs(found[1]).max())
