"""nnet3py/network/inference.py: nothing computes in training mode unasked; an edited network is seen to be edited."""
from __future__ import annotations

import copy
import logging
from typing import Any

import numpy as np
import pytest
from component_forms import FORM_NAMES, FORMS, make
from runtime_cases import ROUNDING, assert_close

from nnet3py.errors import Nnet3Error
from nnet3py.network.inference import (
    InferenceForm,
    collapse_model,
    compute_only,
    for_inference,
    is_prepared,
    prepare_for_test,
)
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
from nnet3py.runtime.batch import BatchComputer, Utterance
from nnet3py.runtime.compute import UtteranceComputer, compute
from nnet3py.runtime.looped import LoopedComputer
from nnet3py.runtime.options import BatchedXvectorOptions, XvectorOptions
from nnet3py.runtime.xvectors import BatchedXvectorComputer, XvectorComputer

NORMALIZED = """
input-node name=input dim=4
component name=fixed type=FixedAffineComponent input-dim=12 output-dim=12
component name=a type=AffineComponent input-dim=12 output-dim=6
component name=b type=BatchNormComponent dim=6
component name=d type=DropoutComponent dim=6 dropout-proportion=0.5
component name=c type=AffineComponent input-dim=6 output-dim=5
component-node name=fixed component=fixed input=Append(Offset(input, -1), input, Offset(input, 2))
component-node name=a component=a input=fixed
component-node name=b component=b input=a
component-node name=d component=d input=b
component-node name=c component=c input=d
dim-range-node name=half input-node=b dim-offset=3 dim=3
output-node name=output input=c
output-node name=output-other input=Scale(3.0, half)
"""
VECTORS = NORMALIZED.replace("input=c\n", "input=s\n") + """
component name=s type=StatisticsPoolingComponent input-dim=11 left-context=500 right-context=500 output-stddevs=false
component name=e type=StatisticsExtractionComponent input-dim=5 input-period=1 output-period=1 include-variance=true
component-node name=e component=e input=c
component-node name=s component=s input=e
"""
NETWORK = """
input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim={dim} bias-stddev=0.2
component name=c type={type} {line}
component name=z type=AffineComponent input-dim={output_dim} output-dim=3
component-node name=a component=a input=input
component-node name=c component=c input={source}
component-node name=z component=z input=c
output-node name=output input=z
"""
FRAMES = 30


def normalized(text: str = NORMALIZED) -> Nnet:
    """A network as training leaves it: with statistics, in training mode."""
    nnet = Nnet.from_config(text)
    norm = nnet.component("b")
    norm.count[:], norm.sum[:] = 100.0, np.arange(6.0)
    norm.sumsq[:] = 50.0 + norm.sum ** 2
    return nnet


def features(frames: int = FRAMES, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, 4), dtype=np.float32)


def by_numpy(nnet: Nnet, feats: np.ndarray) -> dict[str, np.ndarray]:
    """What the nodes of NORMALIZED are in test mode, rows at the ends from copies of the first and last frames."""
    def affine(name: str, x: np.ndarray) -> np.ndarray:
        one = nnet.component(name)
        return x @ one.linear_params.T + one.bias_params

    t = np.clip(np.arange(len(feats))[:, None] + (-1, 0, 2), 0, len(feats) - 1)
    nodes = {"input": feats, "fixed": affine("fixed", feats[t].reshape(len(feats), -1))}
    nodes["a"] = affine("a", nodes["fixed"])
    norm = nnet.component("b")
    mean = norm.sum / norm.count
    nodes["b"] = (nodes["a"] - mean) / np.sqrt(norm.sumsq / norm.count - mean ** 2 + 1e-3)
    nodes["d"] = 0.5 * nodes["b"]
    nodes["c"] = nodes["output"] = affine("c", nodes["d"])
    nodes["half"] = nodes["b"][:, 3:]
    return nodes | {"output-other": 3 * nodes["half"], "c_input": nodes["d"]}


# -- nobody computes in training mode unasked --------------------------------------------------------------------------


def only(results) -> np.ndarray:
    (_, found), = results
    return found


COMPUTERS = {
    "compute": lambda nnet, feats, **mode: compute(nnet, feats),
    "utterance": lambda nnet, feats, **mode: UtteranceComputer(nnet, **mode).compute(feats),
    "batch": lambda nnet, feats, **mode: only(BatchComputer(nnet, **mode).compute([Utterance("u", feats)])),
    "looped": lambda nnet, feats, **mode: LoopedComputer(nnet, 7, **mode).compute(feats),
}


@pytest.mark.parametrize("kind", COMPUTERS)
def test_computing_is_in_test_mode(kind: str) -> None:
    nnet, feats = normalized(), features()
    components = list(nnet.components)
    assert_close(COMPUTERS[kind](nnet, feats), by_numpy(nnet, feats)["output"])
    assert nnet.components == components and not nnet.component("b").test_mode and not nnet.component("d").test_mode


@pytest.mark.parametrize("kind", [kind for kind in COMPUTERS if kind != "compute"])
def test_training_mode_is_asked_for(kind: str) -> None:
    nnet, feats = normalized(), features()
    set_dropout_test_mode(nnet, True)
    nodes = by_numpy(nnet, feats)
    found = COMPUTERS[kind](nnet, feats, training_mode=True)
    assert np.abs(found - nodes["output"]).max() > 0.1
    if kind == "utterance":      # one minibatch of all rows: its own mean and variance
        x = nodes["a"]
        normal = 0.5 * (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-3)
        expected = normal @ nnet.component("c").linear_params.T + nnet.component("c").bias_params
        assert_close(found, expected, 10 * ROUNDING)


@pytest.mark.parametrize("kind", ["one", "batched"])
def test_vectors_are_in_test_mode(kind: str) -> None:
    nnet, feats = normalized(VECTORS), features(60)
    expected = by_numpy(nnet, feats)["c"][1:-2].mean(axis=0)     # of the frames that have their context
    for mode, fits in (({}, True), ({"training_mode": True}, False)):
        if kind == "one":
            found = XvectorComputer(nnet, XvectorOptions(min_chunk_size=60), **mode).compute(feats)
        else:
            computer = BatchedXvectorComputer(nnet, BatchedXvectorOptions(chunk_size=60), **mode)
            found = only(computer.compute([("u", feats)]))
        assert np.allclose(found[:5], expected, rtol=ROUNDING, atol=ROUNDING) == fits


def test_a_copy_is_made_unless_the_network_is_prepared() -> None:
    nnet = normalized()
    assert not is_prepared(nnet) and for_inference(nnet) is not nnet and for_inference(nnet, training_mode=True) is nnet
    prepared = prepare_for_test(nnet.copy())
    assert is_prepared(prepared) and for_inference(prepared) is prepared and is_prepared(prepared.copy())
    feats = features()
    assert_close(UtteranceComputer(prepared).compute(feats), by_numpy(nnet, feats)["output"])


@pytest.mark.parametrize("undo", [
    lambda nnet: set_batchnorm_test_mode(nnet, False),
    lambda nnet: set_dropout_test_mode(nnet, False),
    lambda nnet: setattr(nnet.component("b"), "test_mode", False),
    lambda nnet: nnet.add_output("another", "c"),
])
def test_what_was_changed_is_prepared_again(undo) -> None:
    prepared = prepare_for_test(normalized())
    undo(prepared)
    assert not is_prepared(prepared)
    feats = features()
    assert_close(LoopedComputer(prepared).compute(feats), by_numpy(normalized(), feats)["output"])


@pytest.mark.parametrize("name", ["input", "fixed", "a", "b", "d", "c", "half", "output", "output-other", "c_input"])
def test_any_node_can_be_computed(name: str) -> None:
    nnet, feats = normalized(), features()
    assert_close(compute(nnet, feats, output=name), by_numpy(nnet, feats)[name])


def test_a_node_of_the_middle_that_is_called_output() -> None:
    nnet = Nnet.from_config(NORMALIZED.replace("name=output input=c\n", "name=result input=c\n").replace(
        "component-node name=d ", "component-node name=output ").replace("input=d\n", "input=output\n"))
    compute_only(nnet, "result")
    nnet.check()
    assert nnet.output_dim("output") == 5 and "half" not in nnet.node_names


def test_no_such_node() -> None:
    with pytest.raises(Nnet3Error, match="the network has no node 'nobody'"):
        compute(normalized(), features(), output="nobody")


# -- an edited network is seen to be edited ----------------------------------------------------------------------------


@pytest.mark.parametrize("reads_shared", [True, False])
@pytest.mark.parametrize(("type_name", "line"), [
    pytest.param(*form, id=name) for form, name in zip(FORMS, FORM_NAMES, strict=True)
    if any(isinstance(value, np.ndarray) for value in vars(make(*form)).values())])
def test_arrays_edited_in_place(type_name: str, line: str, reads_shared: bool,
                                caplog: pytest.LogCaptureFixture) -> None:
    """A form reads the edited array itself, or says that it is out of date; no type of component escapes."""
    caplog.set_level(logging.ERROR)
    component = make(type_name, line)
    nnet = Nnet.from_config(NETWORK.format(
        dim=component.input_dim, output_dim=component.output_dim, type=type_name, line=line,
        source="c" if type_name == "ConstantComponent" else "a"), seed=1)
    form, feats = InferenceForm(nnet, reads_shared=reads_shared), features(12)
    computer = UtteranceComputer(form.nnet)
    before = computer.compute(feats)
    assert form.is_of(nnet)
    for name in ("c", "z") if type_name == "ConstantComponent" else ("a", "c", "z"):
        for array in vars(nnet.component(name)).values():
            if isinstance(array, np.ndarray) and array.size and array.dtype.kind == "f":
                kept = array.copy()
                array += array.dtype.type(0.125)
                if form.is_of(nnet):
                    assert reads_shared
                    np.testing.assert_array_equal(computer.compute(feats), UtteranceComputer(nnet).compute(feats))
                array[...] = kept
                assert form.is_of(nnet)
    np.testing.assert_array_equal(computer.compute(feats), before)


@pytest.mark.parametrize("edit", [
    lambda nnet: nnet.component("fixed").linear_params.__imul__(1.5),           # one of those that were merged
    lambda nnet: nnet.component("a").bias_params.__iadd__(1.0),
    lambda nnet: nnet.component("b").sum.__iadd__(1.0),
    lambda nnet: np.copyto(nnet.component("c").linear_params, nnet.component("c").linear_params[::-1].copy()),
    lambda nnet: setattr(nnet.component("c"), "bias_params", nnet.component("c").bias_params + 1),
    lambda nnet: setattr(nnet.component("b"), "target_rms", 0.5),
    lambda nnet: nnet.set_parameters("c", {"bias_params": np.ones(5)}),
    lambda nnet: nnet.replace_component("c", "type=AffineComponent input-dim=6 output-dim=5 param-stddev=3"),
    lambda nnet: nnet.components.__setitem__(nnet.component_index("c"), nnet.component("c").copy()),
    lambda nnet: nnet.set_node_input("c", "a"),
    lambda nnet: nnet.scale(0.5),
])
def test_compute_sees_every_edit(edit) -> None:
    nnet, feats = normalized(), features()
    compute(nnet, feats)
    edit(nnet)
    np.testing.assert_array_equal(compute(nnet, feats), compute(copy.deepcopy(nnet), feats))


HEAD = """
input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim=6
component-node name=a component=a input=input
component name=b type=NaturalGradientAffineComponent input-dim=12 output-dim=5
"""
COLLAPSE_ROUNDING = 5e-6     # float32 products of a dozen numbers around 1


def arrays(nnet: Nnet, name: str) -> tuple[np.ndarray, np.ndarray]:
    component: Any = nnet.component(name)
    return component.linear_params, component.bias_params


def test_affine_after_affine(caplog: pytest.LogCaptureFixture) -> None:
    nnet = Nnet.from_config(HEAD + "component-node name=b component=b input=Append(Offset(a, -1), a)\n"
                            "output-node name=output input=b\n")
    (w1, b1), (w2, b2) = arrays(nnet, "a"), arrays(nnet, "b")
    version = nnet.version
    with caplog.at_level(logging.INFO):
        collapse_model(nnet)
    assert nnet.config_lines() == ["input-node name=input dim=4",
                                   "component-node name=b component=a.b input=Append(Offset(input, -1), input)",
                                   "output-node name=output input=b objective=linear"]
    assert type(nnet.component("a.b")).__name__ == "AffineComponent"
    assert nnet.component_names == ["a.b"] and nnet.version > version
    weights, bias = arrays(nnet, "a.b")
    x = np.random.default_rng(0).standard_normal((7, 8)).astype(np.float32)
    hidden = np.hstack([x[:, :4] @ w1.T + b1, x[:, 4:] @ w1.T + b1])
    np.testing.assert_allclose(x @ weights.T + bias, hidden @ w2.T + b2, atol=COLLAPSE_ROUNDING)
    assert caplog.messages == [
        "Removed 1 orphan nodes.", "Removing 2 orphan components.", "Added 1 components, removed 2"]


def test_a_scale_after_affine_and_chains() -> None:
    nnet = Nnet.from_config(HEAD + "component-node name=b component=b input=Append(a, Offset(a, 2))\n"
                            "component name=s type=FixedScaleComponent dim=5\n"
                            "component-node name=s component=s input=b\n"
                            "output-node name=output input=s\n")
    scales: Any = nnet.component("s")
    (w1, _), (w2, b2) = arrays(nnet, "a"), arrays(nnet, "b")
    b1 = arrays(nnet, "a")[1]
    collapse_model(nnet)
    assert nnet.component_names == ["a.b.s"]
    weights, bias = arrays(nnet, "a.b.s")
    expected = np.hstack([w2[:, :6] @ w1, w2[:, 6:] @ w1]) * scales.vector[:, None]
    np.testing.assert_allclose(weights, expected, atol=COLLAPSE_ROUNDING)
    np.testing.assert_allclose(bias, (b2 + w2 @ np.tile(b1, 2)) * scales.vector, atol=COLLAPSE_ROUNDING)


@pytest.mark.parametrize("descriptor", [
    "Append(a, input, Const(0, 2))", "Append(a, IfDefined(Offset(a, 1)))", "Append(a, Failover(Offset(a, 1), a))",
    "Append(a, Round(a, 2))", "Append(a, ReplaceIndex(a, t, 0))", "Append(a, Sum(a, Offset(a, 1)))",
    "Append(a, Switch(a, Offset(a, 1)))", "Append(Const(1, 6), a)",
])
def test_what_prevents_it(descriptor: str) -> None:
    nnet = Nnet.from_config(HEAD + f"component-node name=b component=b input={descriptor}\n"
                            "output-node name=output input=b\n")
    before = nnet.config_lines()
    collapse_model(nnet)
    assert nnet.config_lines() == before


def test_a_component_that_narrows_stays() -> None:
    config = HEAD.replace("output-dim=6", "output-dim=3").replace("input-dim=12", "input-dim=3")
    nnet = Nnet.from_config(config + "component-node name=b component=b input=a\noutput-node name=output input=b\n")
    collapse_model(nnet)
    assert nnet.component_names == ["a", "b"]


def test_what_others_read_stays() -> None:
    nnet = Nnet.from_config(HEAD + "component-node name=b component=b input=Append(a, a)\n"
                            "output-node name=output input=b\noutput-node name=second input=a\n")
    collapse_model(nnet)
    assert nnet.component_names == ["a", "a.b"]


def test_batchnorm_and_dropout_stay_and_are_in_test_mode() -> None:
    nnet = Nnet.from_config(HEAD + """
        component name=bn type=BatchNormComponent dim=6
        component-node name=bn component=bn input=a
        component name=d type=DropoutComponent dim=6 dropout-proportion=0.2
        component-node name=d component=d input=bn
        component-node name=b component=b input=Append(d, d)
        output-node name=output input=b""")
    bn: Any = nnet.component("bn")
    bn.count[0], bn.sumsq[...] = 4.0, 8.0
    assert prepare_for_test(nnet) is nnet
    assert nnet.component_names == ["a", "b", "bn", "d"]
    dropout: Any = nnet.component("d")
    assert bn.test_mode and dropout.test_mode
