"""Models as Python objects: every edit, its checks, and that a refused one leaves the network as it was."""
from __future__ import annotations

import doctest
import inspect
import logging
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from component_configs import CONFIGS

from nnet3py.components.registry import component_class
from nnet3py.config_line import ConfigLine
from nnet3py.errors import ConfigError, DescriptorError, Nnet3Error, NumericError, ShapeError
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.network.nnet_io import new_component
from nnet3py.network.structure import ComponentNode, InputNode

CONFIG = """
input-node name=input dim=40
component name=affine1 type=NaturalGradientAffineComponent input-dim=120 output-dim=32
component-node name=affine1 component=affine1 input=Append(Offset(input, -1), input, Offset(input, 1))
component name=relu1 type=RectifiedLinearComponent dim=32
component-node name=relu1 component=relu1 input=affine1
component name=affine2 type=AffineComponent input-dim=32 output-dim=10
component-node name=affine2 component=affine2 input=relu1
output-node name=output input=affine2
"""
# Methods that edit a network, or show what can be edited.
EDITS = ("edit", "named_components", "arrays", "set_parameters", "add_component", "replace_component",
         "rename_component", "remove_component", "named_nodes", "node", "node_input", "users_of", "add_input",
         "add_output", "add_node", "add_dim_range", "set_node_input", "redirect", "rename_node", "remove_node",
         "remove_orphans")
RECURRENT = CONFIG.replace("input=affine1\n", "input=Sum(affine1, IfDefined(Offset(relu1, -1)))\n")


@pytest.fixture
def nnet() -> Nnet:
    return Nnet.from_config(CONFIG, seed=1)


def content(nnet: Nnet) -> Any:
    """All that can be seen of a network."""
    return (nnet.version, nnet.config_lines(), list(nnet.component_names), [id(c) for c in nnet.components],
            [id(node) for node in nnet.nodes], [str(vars(node)) for node in nnet.nodes],
            [value.tolist() for c in nnet.components for value in c.parameters().values()])


def test_the_examples_of_the_docstrings() -> None:
    tests = doctest.DocTestFinder(exclude_empty=True).find(Nnet)
    assert len([test for test in tests if test.examples]) >= len(EDITS)
    for test in tests:
        test.globs = {"nnet": Nnet.from_config(CONFIG), "np": np}
        assert doctest.DocTestRunner().run(test).failed == 0


def test_every_edit_is_a_method_with_an_example() -> None:
    edits = {name for name, method in vars(Nnet).items() if isinstance(method, FunctionType)
             and "self.edit()" in inspect.getsource(method) and name != "edit"}
    assert edits < set(EDITS)
    for name in EDITS:
        assert ">>>" in (getattr(Nnet, name).__doc__ or ""), name


def test_iterating(nnet: Nnet) -> None:
    assert [(name, type(c).__name__) for name, c in nnet.named_components()] == [
        ("affine1", "NaturalGradientAffineComponent"), ("relu1", "RectifiedLinearComponent"),
        ("affine2", "AffineComponent")]
    nodes = dict(nnet.named_nodes())
    assert list(nodes) == ["input", "affine1", "relu1", "affine2", "output"]
    assert isinstance(nodes["input"], InputNode) and isinstance(nnet.node("relu1"), ComponentNode)
    assert nnet.node("output") is nodes["output"]
    with pytest.raises(Nnet3Error, match="no node 'relu'.*did you mean 'relu1'"):
        nnet.node("relu")


def test_what_feeds_what(nnet: Nnet) -> None:
    nnet.add_dim_range("half", "relu1", 3, 16)
    assert nnet.node_input("affine1") == "Append(Offset(input, -1), input, Offset(input, 1))"
    assert (nnet.node_input("output"), nnet.node_input("half"), nnet.node_input("input")) == ("affine2", "relu1", "")
    assert nnet.users_of("relu1") == ["affine2", "half"]
    assert nnet.users_of("output") == []


def test_setting_parameters_in_place_and_as_float32(nnet: Nnet) -> None:
    component: Any = nnet.component("affine2")
    weights, bias, version = component.linear_params, component.bias_params.copy(), nnet.version
    values = np.random.default_rng(0).standard_normal((10, 32))
    nnet.set_parameters("affine2", {"linear_params": values})
    assert component.linear_params is weights and weights.dtype == np.float32
    assert np.array_equal(weights, values.astype(np.float32)) and np.array_equal(component.bias_params, bias)
    nnet.set_parameters("affine2", {"bias_params": range(10)})
    assert component.bias_params.tolist() == list(range(10))
    assert nnet.version == version       # what is compiled for the network still fits


@pytest.mark.parametrize(("name", "values", "error", "message"), [
    ("affine2", {"bias_params": np.zeros(9)}, ShapeError, r"shape \(10,\) for bias_params of component affine2"),
    ("affine2", {"bias_params": np.zeros((10, 1))}, ShapeError, r"found \(10, 1\)"),
    ("affine2", {"bias_params": 1.0}, ShapeError, r"found \(\)"),
    ("affine2", {"bias_params": [np.nan] * 10}, NumericError, r"would be nan at \(0,\)"),
    ("affine2", {"bias_params": [0.0] * 9 + [1e39]}, NumericError, r"would be 1e\+39 at \(9,\)"),
    ("affine2", {"bias_params": ["a"] * 10}, ConfigError, "expected real numbers"),
    ("affine2", {"bias_params": [1j] * 10}, ConfigError, "found list of complex128"),
    ("affine2", {"bias_params": [[1], [1, 2]]}, ConfigError, "expected real numbers"),
    ("affine2", {"bias_params": None}, ConfigError, "expected real numbers"),
    ("affine2", {"bias": np.zeros(10)}, ConfigError, "no array 'bias' .*it has linear_params, bias_params"),
    ("relu1", {"bias_params": np.zeros(32)}, ConfigError, "it has no parameters"),
    ("affin2", {"bias_params": np.zeros(32)}, Nnet3Error, "did you mean 'affine2'"),
    ("affine2", {"linear_params": np.ones((10, 32)), "bias_params": np.zeros(9)}, ShapeError, "bias_params"),
])
def test_parameters_that_are_refused(nnet: Nnet, name: str, values: dict, error: type, message: str) -> None:
    before = content(nnet)
    with pytest.raises(error, match=message):
        nnet.set_parameters(name, values)
    assert content(nnet) == before


@pytest.mark.parametrize("type_name", sorted(CONFIGS))
def test_arrays_of_every_type(type_name: str) -> None:
    for config in CONFIGS[type_name]:
        nnet = Nnet.from_config(CONFIG)
        nnet.add_component("c", f"type={type_name} {config}", seed=3)
        arrays = nnet.arrays("c")
        nnet.set_parameters("c", {key: np.full(value.shape, 0.5) for key, value in arrays.items()})
        assert all((value == 0.5).all() for value in nnet.arrays("c").values())
        assert sum(value.size for value in arrays.values()) >= nnet.component("c").num_parameters()


def test_components_from_text_are_those_of_a_config(nnet: Nnet) -> None:
    line = "type=NaturalGradientAffineComponent input-dim=32 output-dim=7"
    nnet.add_component("extra", line, seed=5)
    expected = Nnet.from_config(f"{CONFIG}component name=extra {line}\n", seed=5).component("extra").parameters()
    for key, value in nnet.arrays("extra").items():
        assert np.array_equal(value, expected[key])
    assert nnet.component_names[-1] == "extra" and "extra" not in nnet.node_names


def test_replacing_a_component_with_an_object(nnet: Nnet) -> None:
    new = component_class("SigmoidComponent").from_config(ConfigLine("component dim=32"), np.random.default_rng(0))
    lines, version = nnet.config_lines(), nnet.version
    nnet.replace_component("relu1", new)
    assert nnet.component("relu1") is new and nnet.component_names == ["affine1", "relu1", "affine2"]
    assert nnet.config_lines() == lines and nnet.version > version
    nnet.replace_component("relu1", new)      # itself


def test_renaming_and_removing_components(nnet: Nnet) -> None:
    nnet.add_component("first", "type=NoOpComponent dim=3")
    nnet.rename_component("affine2", "last")
    assert "component-node name=affine2 component=last input=relu1" in nnet.config_lines()
    nnet.rename_component("last", "last")
    nnet.set_node_input("output", "relu1")
    nnet.remove_node("affine2")
    nnet.remove_component("last")
    assert nnet.component_names == ["affine1", "relu1", "first"]
    nnet.add_node("again", "first", "Const(1.0, 3)")
    nnet.redirect("relu1", "affine1")
    nnet.remove_node("relu1")
    nnet.remove_component("relu1")
    assert nnet.config_lines()[-1] == "component-node name=again component=first input=Const(1, 3)"


def test_putting_a_layer_in_between_and_writing(nnet: Nnet, tmp_path: Any) -> None:
    with nnet.edit():
        nnet.add_component("tanh", "type=TanhComponent dim=32")
        nnet.add_node("tanh", component="tanh", input="Offset(relu1, -2)")
        nnet.redirect("relu1", "tanh")
    assert nnet.node_input("affine2") == "tanh" and nnet.node_input("tanh") == "Offset(relu1, -2)"
    for binary in (True, False):
        nnet.write(str(tmp_path / "model"), binary=binary)
        again = read_nnet(str(tmp_path / "model"))
        assert again.config_lines() == nnet.config_lines() and again.component_names == nnet.component_names
        for key, value in nnet.arrays("affine1").items():
            digits = 0 if binary else 1e-5       # text has seven
            np.testing.assert_allclose(again.arrays("affine1")[key], value, rtol=digits)


def test_inputs_outputs_and_ranges(nnet: Nnet) -> None:
    nnet.add_input("ivector", 5)
    nnet.add_dim_range("part", "ivector", np.int64(1), 4)
    nnet.add_output("second", "Append(ReplaceIndex(part, t, 0), Scale(0.5, relu1))", objective="quadratic")
    assert nnet.config_lines()[-3:] == [
        "input-node name=ivector dim=5", "dim-range-node name=part input-node=ivector dim-offset=1 dim=4",
        "output-node name=second input=Append(ReplaceIndex(part, t, 0), Scale(0.5, relu1)) objective=quadratic"]
    assert nnet.output_dim("second") == 36
    nnet.set_node_input("part", "affine1")
    assert nnet.node_input("part") == "affine1"
    nnet.set_node_input("second", "part")
    nnet.remove_node("ivector")
    assert nnet.node_input("second") == "part" and nnet.input_dim("ivector") == -1


def test_an_exact_scale_survives_other_edits(nnet: Nnet) -> None:
    scale = 0.123456789
    nnet.set_node_input("affine2", f"Scale({scale}, relu1)")
    source = next(nnet.descriptor_of(nnet.node_index("affine2") - 1).descriptor.sources())
    assert source.scale == np.float32(scale)
    nnet.add_input("x", 3)
    nnet.remove_node("x")
    nnet.redirect("relu1", "affine1")
    source = next(nnet.descriptor_of(nnet.node_index("affine2") - 1).descriptor.sources())
    assert source.scale == np.float32(scale) and nnet.node_names[source.node] == "affine1"


def test_renaming_nodes(nnet: Nnet) -> None:
    nnet.rename_node("relu1", "r")
    nnet.rename_node("output", "out")
    assert "component-node name=r component=relu1 input=affine1" in nnet.config_lines()
    assert nnet.node_input("affine2") == "r" and "r_input" in nnet.node_names
    assert nnet.config_lines()[-1] == "output-node name=out input=affine2 objective=linear"
    nnet.rename_node("out", "out")


def test_a_shared_component_and_one_way_recurrences(nnet: Nnet) -> None:
    nnet.add_node("again", component="relu1", input="Sum(affine1, IfDefined(Offset(again, -3)))")
    nnet.redirect("relu1", "again")
    assert nnet.users_of("again") == ["affine2", "again"]
    with pytest.raises(ConfigError, match="feeds affine2"):
        nnet.remove_node("again")
    nnet.redirect("again", "relu1")
    nnet.remove_node("again")          # what it fed was itself
    assert "again_input" not in nnet.node_names


def test_removing_orphans(nnet: Nnet, caplog: pytest.LogCaptureFixture) -> None:
    nnet.add_input("spare", 3)
    nnet.set_node_input("output", "relu1")
    with caplog.at_level(logging.INFO):
        nnet.remove_orphans(remove_inputs=True)
    assert nnet.component_names == ["affine1", "relu1"]
    assert nnet.node_names == ["input", "affine1_input", "affine1", "relu1_input", "relu1", "output"]


REFUSED: list[tuple[Callable[[Nnet], Any], str]] = [
    (lambda n: n.add_component("relu1", "type=NoOpComponent dim=3"), "already has a component named 'relu1'"),
    (lambda n: n.add_component("9", "type=NoOpComponent dim=3"), "'9' cannot name a component"),
    (lambda n: n.add_component("c", "type=NoOpComponen dim=3"), "did you mean NoOpComponent"),
    (lambda n: n.add_component("c", "dim=3"), "Expected type=xxx"),
    (lambda n: n.add_component("c", "type=NoOpComponent dim=3 x=1"), "Unused values 'x=1'"),
    (lambda n: n.add_component("c", "type=NoOpComponent dim=3\n"), "one config line"),
    (lambda n: n.add_component("c", 3), "expected a component.*found int"),
    (lambda n: n.add_component("c", n.component("relu1")), "in the network already, as 'relu1'"),
    (lambda n: n.replace_component("relu", "type=NoOpComponent dim=32"), "did you mean 'relu1'"),
    (lambda n: n.replace_component("relu1", "type=NoOpComponent dim=31"),
     "Dimension mismatch for network-node relu1: input-dim 32 versus component-input-dim 31"),
    (lambda n: n.replace_component("affine2", n.component("affine1")), "as 'affine1'"),
    (lambda n: n.replace_component("affine2", broken_component()), "linear_params of component affine2 would be nan"),
    (lambda n: n.rename_component("relu1", "affine1"), "already has a component named 'affine1'"),
    (lambda n: n.rename_component("relu1", "a b"), "cannot name a component"),
    (lambda n: n.remove_component("relu1"), "component relu1 is in use by relu1"),
    (lambda n: n.remove_component("x"), "no component 'x'"),
    (lambda n: n.add_input("input", 3), "already has a node named 'input'"),
    (lambda n: n.add_input("relu1_input", 3), "already has a node named 'relu1_input'"),
    (lambda n: n.add_input("x", 0), "cannot have 0 columns"),
    (lambda n: n.add_input("x", True), "cannot have True columns"),
    (lambda n: n.add_input("x", 2.0), "cannot have 2.0 columns"),
    (lambda n: n.add_output("x", "rel1"), "node x: .*did you mean 'relu1'"),
    (lambda n: n.add_output("x", "output"), "node x: "),
    (lambda n: n.add_output("x", "relu1_input"), "node x: "),
    (lambda n: n.add_output("x", "Sum(relu1, affine2)"), "node x: .*inconsistent dimension: 32 vs. 10"),
    (lambda n: n.add_output("x", "Sum(relu1, Scale(2, relu1))"), "node x: the same node is used with the scales"),
    (lambda n: n.add_output("x", "relu1", objective="square"), "objective 'square'.*linear or quadratic"),
    (lambda n: n.add_node("x", "x", "relu1"), "no component 'x'"),
    (lambda n: n.add_node("x", "affine2", "affine1, relu1"), "node x: "),
    (lambda n: n.add_node("x", "affine2", "Append(relu1, relu1)"), "input-dim 64 versus component-input-dim 32"),
    (lambda n: n.add_node("relu1", "relu1", "affine1"), "already has a node named 'relu1'"),
    (lambda n: n.add_node("x", "relu1", "Sum(affine1, IfDefined(x))"), "x would depend on each other within one time"),
    (lambda n: n.add_dim_range("x", "relu1", 20, 13), "columns 20 to 32 of relu1, which has 32"),
    (lambda n: n.add_dim_range("x", "relu1", -1, 3), "Invalid node dimensions"),
    (lambda n: n.add_dim_range("x", "output", 0, 3), "takes columns of output"),
    (lambda n: n.add_dim_range("x", "relu1", 0.0, 3), "expected integers"),
    (lambda n: n.set_node_input("input", "relu1"), "is an input of the network"),
    (lambda n: n.set_node_input("affine2", "input"), "input-dim 40 versus component-input-dim 32"),
    (lambda n: n.set_node_input("affine1", "Append(input, Offset(input, 1"), "node affine1: "),
    (lambda n: n.set_node_input("affine1", 3), "node affine1: "),
    (lambda n: n.set_node_input("relu1", "Sum(affine1, IfDefined(relu1))"), "relu1 would depend on each other"),
    (lambda n: n.set_node_input("relu1", "Sum(IfDefined(Offset(relu1, 1)), IfDefined(Offset(relu1, -1)))"),
     "a recurrence goes one way in time"),
    (lambda n: n.redirect("affine1", "affine2"), "input-dim 10 versus component-input-dim 32"),
    (lambda n: n.redirect("relu1", "output"), "node output is an output"),
    (lambda n: n.redirect("x", "relu1"), "no node 'x'"),
    (lambda n: n.rename_node("relu1", "affine1"), "already has a node named 'affine1'"),
    (lambda n: n.rename_node("output", "affine1_input"), "already has a node named 'affine1_input'"),
    (lambda n: n.rename_node("relu1_input", "x"), "is the input of a component node.*component node is relu1"),
    (lambda n: n.rename_node("relu1", "-"), "'-' cannot name a node"),
    (lambda n: n.remove_node("relu1"), "node relu1 feeds affine2"),
    (lambda n: n.remove_node("input"), "node input feeds affine1"),
    (lambda n: n.remove_node("output"), "no output node"),
    (lambda n: n.remove_node("relu1_input"), "cannot be edited by itself"),
]


def broken_component() -> Any:
    component = new_component(ConfigLine("component name=c type=AffineComponent input-dim=32 output-dim=10"))
    component.parameters()["linear_params"][3, 4] = np.nan
    return component


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_refused_edit_changes_nothing(nnet: Nnet, number: int) -> None:
    edit, message = REFUSED[number]
    before = content(nnet)
    with pytest.raises(Nnet3Error, match=message):
        edit(nnet)
    assert content(nnet) == before


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_refused_edit_undoes_its_block(nnet: Nnet, number: int) -> None:
    before = content(nnet)
    with pytest.raises(Nnet3Error), nnet.edit():
        nnet.add_component("new", "type=NoOpComponent dim=10")
        nnet.add_node("new", "new", "affine2")
        nnet.redirect("affine2", "new")
        nnet.set_parameters("affine2", {"bias_params": np.ones(10)})
        nnet.set_parameters("affine2", {"bias_params": np.zeros(10)})
        nnet.rename_component("new", "newer")
        REFUSED[number][0](nnet)
        raise ConfigError("not all of them fail before the end of the block")
    assert content(nnet) == before
    nnet.set_parameters("affine2", {"bias_params": np.ones(10)})       # the block is closed
    with pytest.raises(ConfigError):
        nnet.replace_component("relu1", "type=NoOpComponent dim=31")


def test_whatever_is_raised_undoes_a_block(nnet: Nnet) -> None:
    before = content(nnet)
    with pytest.raises(KeyboardInterrupt), nnet.edit():
        nnet.rename_node("relu1", "x")
        raise KeyboardInterrupt
    assert content(nnet) == before


def test_a_failure_inside_a_block_can_be_survived(nnet: Nnet) -> None:
    with nnet.edit():
        nnet.add_output("second", "relu1")
        with pytest.raises(DescriptorError):
            nnet.add_output("third", "nothing")
    assert nnet.node_names[-1] == "second"


def test_dimensions_are_checked_at_the_end_of_a_block(nnet: Nnet) -> None:
    with nnet.edit():
        nnet.replace_component("affine1", "type=AffineComponent input-dim=120 output-dim=20")
        nnet.replace_component("relu1", "type=RectifiedLinearComponent dim=20")
        nnet.replace_component("affine2", "type=AffineComponent input-dim=20 output-dim=7")
    assert nnet.output_dim("output") == 7
    before = content(nnet)
    with pytest.raises(ConfigError, match="Dimension mismatch"), nnet.edit():
        nnet.replace_component("affine1", "type=AffineComponent input-dim=120 output-dim=21")
    assert content(nnet) == before


def test_building_a_network_from_nothing() -> None:
    nnet = Nnet()
    with nnet.edit():
        nnet.add_input("input", 40)
        for line in CONFIG.splitlines():
            if line.startswith("component "):
                _, name, rest = line.split(None, 2)
                nnet.add_component(name.removeprefix("name="), rest, seed=1)
        nnet.add_node("affine1", "affine1", "Append(Offset(input, -1), input, Offset(input, 1))")
        nnet.add_node("relu1", "relu1", "affine1")
        nnet.add_node("affine2", "affine2", "relu1")
        nnet.add_output("output", "affine2")
    expected = Nnet.from_config(CONFIG, seed=1)
    assert nnet.config_lines() == expected.config_lines()
    assert nnet.dot_product(expected) == expected.dot_product(expected)
    with pytest.raises(ConfigError, match="no input node"):
        Nnet().add_component("c", "type=NoOpComponent dim=3")


def test_a_circle_that_a_network_came_with_does_not_forbid_other_edits() -> None:
    nnet = Nnet.from_config(RECURRENT.replace("Offset(relu1, -1)", "relu1"))
    nnet.rename_node("output", "out")
    nnet.set_node_input("relu1", "Sum(affine1, IfDefined(Offset(relu1, -1)))")
    with pytest.raises(ConfigError, match="within one time step"):
        nnet.set_node_input("relu1", "Sum(affine1, IfDefined(relu1))")


def test_a_descriptor_that_never_compiled_does_not_forbid_other_edits() -> None:
    nnet = Nnet.from_config(f"{CONFIG}output-node name=odd input=Sum(relu1, Scale(2, relu1))\n")
    nnet.rename_node("output", "out")
    with pytest.raises(DescriptorError, match="node out: the same node is used with the scales"):
        nnet.set_node_input("out", "Sum(relu1, Scale(2, relu1))")


def test_a_copy_made_inside_a_block_is_a_network_of_its_own(nnet: Nnet) -> None:
    with nnet.edit():
        nnet.add_output("second", "relu1")
        other = nnet.copy()
    with pytest.raises(ConfigError, match="input-dim 40"):
        other.set_node_input("affine2", "input")
