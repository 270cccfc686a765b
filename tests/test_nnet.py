"""Networks: configs into nodes, errors, consistency, arithmetic on parameters."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from paths import DATA
from runtime_cases import LSTM, TDNN

import nnet3py
from nnet3py.components.base import Properties
from nnet3py.errors import ConfigError, Nnet3Error, ShapeError
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import (
    ComponentNode,
    DescriptorNode,
    DimRangeNode,
    InputNode,
    remove_orphan_components,
    remove_orphan_nodes,
    remove_orphans,
)

CONFIG = """
input-node name=input dim=4    # the features
component name=a type=NaturalGradientAffineComponent input-dim=12 output-dim=6 learning-rate-factor=0.5
component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 1))
component name=r type=RectifiedLinearComponent dim=6
component-node name=r component=r input=a
dim-range-node name=half input-node=r dim-offset=2 dim=3
component name=o type=AffineComponent input-dim=9 output-dim=3
component-node name=o component=o input=Append(r, half)
output-node name=output input=Sum(o, Round(half, 2)) objective=quadratic
"""
HEAD = "input-node name=input dim=4\ncomponent name=c type=NoOpComponent dim=4\n"
OUTPUT = "output-node name=output input=input\n"
CASES = sorted(path.name for path in (DATA / "network").iterdir() if path.is_dir())


@pytest.fixture
def nnet() -> Nnet:
    return Nnet.from_config(CONFIG, seed=3)


def test_nodes_and_their_numbers(nnet: Nnet) -> None:
    assert nnet.node_names == ["input", "a_input", "a", "r_input", "r", "half", "o_input", "o", "output"]
    assert nnet.component_names == ["a", "r", "o"]
    kinds = [InputNode, DescriptorNode, ComponentNode, DescriptorNode, ComponentNode, DimRangeNode, DescriptorNode,
             ComponentNode, DescriptorNode]
    assert [type(node) for node in nnet.nodes] == kinds
    assert [i for i in range(9) if nnet.is_component_input(i)] == [1, 3, 6]
    assert [i for i in range(9) if nnet.is_output(i)] == [8]
    assert [nnet.node_dim(i) for i in range(9)] == [4, 12, 6, 6, 6, 3, 9, 3, 3]
    assert nnet.component_of(7) is nnet.component("o")
    assert (nnet.input_dim("input"), nnet.input_dim("ivector"), nnet.output_dim("output")) == (4, -1, 3)
    assert nnet.modulus() == 2
    assert nnet.is_simple()
    assert nnet.num_parameters() == 12 * 6 + 6 + 9 * 3 + 3


def test_config_lines(nnet: Nnet) -> None:
    lines = nnet.config_lines(include_dims=True)
    assert lines[1] == ("component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 1)) "
                        "input-dim=12 output-dim=6")
    assert lines[3] == "dim-range-node name=half input-node=r dim-offset=2 dim=3"
    assert lines[-1] == "output-node name=output input=Sum(o, Round(half, 2)) dim=3 objective=quadratic"
    assert "dim=3 objective" not in nnet.config_lines()[-1]


@pytest.mark.parametrize("case", CASES)
def test_configs_become_the_nodes_that_kaldi_makes(case: str) -> None:
    folder = DATA / "network" / case
    made = Nnet.from_config((folder / "config.txt").read_text())
    read = read_nnet(str(folder / "nnet.raw"))
    assert made.config_lines(include_dims=True) == read.config_lines(include_dims=True)
    assert [type(c).__name__ for c in made.components] == [type(c).__name__ for c in read.components]
    assert made.num_parameters() == read.num_parameters()


def test_initial_parameters_depend_on_seed_and_name_only(nnet: Nnet) -> None:
    again = Nnet.from_config(CONFIG, seed=3)
    other = Nnet.from_config(CONFIG, seed=4)
    extended = Nnet.from_config("component name=z type=AffineComponent input-dim=2 output-dim=2\n" + CONFIG, seed=3)
    mine = nnet.component("a").parameters()["linear_params"]
    assert np.array_equal(mine, again.component("a").parameters()["linear_params"])
    assert np.array_equal(mine, extended.component("a").parameters()["linear_params"])
    assert not np.array_equal(mine, other.component("a").parameters()["linear_params"])
    assert not np.array_equal(mine[:3, :9], nnet.component("o").parameters()["linear_params"])


def test_a_second_config_overrides(nnet: Nnet) -> None:
    first_a, version = nnet.component("a"), nnet.version
    nnet.read_config("component name=o type=LinearComponent input-dim=9 output-dim=2\n"
                     "component name=new type=NoOpComponent dim=2\n"
                     "component-node name=new component=new input=o\n"
                     "output-node name=output input=new\n")
    assert nnet.version > version
    assert nnet.component_names == ["a", "r", "o", "new"]         # replaced in place, appended
    assert type(nnet.component("o")).__name__ == "LinearComponent"
    assert nnet.component("a") is first_a
    assert nnet.node_names[-3:] == ["new_input", "new", "output"]  # a node moves to its new line
    assert nnet.node_names.count("output") == 1


def test_a_node_may_change_its_kind(nnet: Nnet) -> None:
    nnet.read_config("component name=h type=NoOpComponent dim=3\ncomponent-node name=half component=h input=o\n"
                     "component name=o type=AffineComponent input-dim=6 output-dim=3\n"
                     "component-node name=o component=o input=r\n")
    assert nnet.is_component(nnet.node_index("half"))


@pytest.mark.parametrize(("config", "message"), [
    (HEAD + "inptu-node name=x dim=3", "Invalid config-file line \\('inptu-node' not expected\\).*did you mean '"),
    (HEAD + "input-node dim=3", "Config line has no field 'name=xxx': input-node dim=3.*line 3"),
    (HEAD + "input-node name=3x dim=3", "Name '3x' is not allowable, in line: "),
    (HEAD + "input-node name=input dim=3", "Node name input appears twice in the same config file"),
    (HEAD + "component name=c type=NoOpComponent dim=4", "Component name c appears twice"),
    (HEAD + "component name=d", "Expected type=xxx in config line"),
    (HEAD + "component name=d type=AffinComponent", "Unknown component-type 'AffinComponent' in config file.*did yo"),
    (HEAD + "component name=d type=NoOpComponent dim=4 foo=1" + OUTPUT, "Unused values 'foo=1"),
    (HEAD + OUTPUT + "component-node name=c input=input", "Expected component=xxx in config line"),
    (HEAD + OUTPUT + "component-node name=c component=c", "Expected input=xxx in config line"),
    (HEAD + OUTPUT + "component-node name=c component=cc input=input", "No component named 'cc'.*did you mean 'c'"),
    (HEAD + OUTPUT + "component-node name=c component=c input=inpt", "got instead inpt.*Error parsing Descriptor in"),
    (HEAD + "output-node name=output input=Append(input", "Error parsing descriptor \\(input=...\\) in config line"),
    (HEAD + OUTPUT + "output-node name=o2 input=output", "Expected a Descriptor, got instead output"),
    (HEAD + "output-node name=output input=input objective=cubic", "Invalid objective type: cubic"),
    (HEAD + OUTPUT + "input-node name=x dim=0", "Invalid dimension"),
    (HEAD + OUTPUT + "input-node name=x", "Expected dim=xxx"),
    (HEAD + OUTPUT + "dim-range-node name=x input-node=output dim-offset=0 dim=1", "Invalid input-node 'output'"),
    (HEAD + OUTPUT + "dim-range-node name=x input-node=input dim-offset=2 dim=3", "columns 2 to 4 of input, which"),
    (HEAD + OUTPUT + "component-node name=c component=c input=Append(input, input)",
     "Dimension mismatch for network-node c: input-dim 8 versus component-input-dim 4"),
    (HEAD + OUTPUT + "component-node name=c component=c input=Sum(input, Const(1, 3))",
     "Neural net contains Sum expression with inconsistent dimension: 4 vs. 3"),
    (HEAD, "no output node"),
    ("output-node name=output input=Const(1, 2)", "no input node"),
    (HEAD + OUTPUT + "component-node name=c component=c input=input\ninput-node name=c_input dim=3", "c_input"),
])
def test_what_is_refused(config: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Nnet.from_config(config, path="net.config")


def test_a_refused_config_changes_nothing(nnet: Nnet) -> None:
    before, version = nnet.config_lines(), nnet.version
    with pytest.raises(ConfigError):
        nnet.read_config("component name=a type=NoOpComponent dim=4\noutput-node name=output input=a\n")
    assert (nnet.config_lines(), nnet.version) == (before, version)
    assert type(nnet.component("a")).__name__ == "NaturalGradientAffineComponent"


def test_names_that_do_not_exist(nnet: Nnet) -> None:
    with pytest.raises(Nnet3Error, match="the network has no node 'hafl' .did you mean 'half'"):
        nnet.node_index("hafl")
    with pytest.raises(Nnet3Error, match="no component 'zzz' .it has a, r, o"):
        nnet.component("zzz")


def test_orphans_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Nnet.from_config(HEAD + OUTPUT + "component-node name=c component=c input=input\n"
                         "component name=d type=NoOpComponent dim=4")
    assert caplog.messages == [
        "Component d is never used by any node.", "Node c is never used to compute any output."]


def test_scale_add_and_dot_product(nnet: Nnet) -> None:
    other = Nnet.from_config(CONFIG, seed=8)
    mine = {name: nnet.component(name).parameters() for name in ("a", "o")}
    expected = sum(float(np.vdot(np.float64(value), np.float64(other.component(name).parameters()[key])))
                   for name, values in mine.items() for key, value in values.items())
    assert nnet.dot_product(other) == pytest.approx(expected, rel=1e-12)    # both sums are in float64
    before = mine["a"]["linear_params"].copy()
    nnet.scale(0.5)
    nnet.add(2.0, other)
    wanted = np.float32(0.5) * before + np.float32(2.0) * other.component("a").parameters()["linear_params"]
    assert np.array_equal(nnet.component("a").parameters()["linear_params"], wanted)


def test_networks_of_other_structure_are_not_added(nnet: Nnet) -> None:
    with pytest.raises(ShapeError):
        nnet.add(1.0, Nnet.from_config(HEAD + OUTPUT))


def test_a_gradient_is_a_zeroed_copy(nnet: Nnet) -> None:
    gradient = nnet.as_gradient()
    assert gradient.dot_product(gradient) == 0.0
    assert nnet.dot_product(nnet) > 0.0
    for component in gradient.components:
        if component.has(Properties.UPDATABLE):
            assert (component.learning_rate, component.is_gradient) == (1.0, True)   # type: ignore[attr-defined]


def test_copies_are_independent(nnet: Nnet) -> None:
    copy = nnet.copy()
    copy.component("a").parameters()["linear_params"][...] = 0
    copy.read_config("output-node name=output input=o")
    assert np.any(nnet.component("a").parameters()["linear_params"])
    assert "quadratic" in nnet.config_lines()[-1]


WITH_ORPHANS = """
input-node name=x1 dim=4
input-node name=x2 dim=4
input-node name=input dim=4
component name=n type=NoOpComponent dim=4
component name=d type=NoOpComponent dim=4
component-node name=lost component=d input=x1
component-node name=n component=n input=Scale(0.5, input)
dim-range-node name=part input-node=n dim-offset=1 dim=2
output-node name=output input=part
"""


def test_removing_orphans_renumbers(caplog: pytest.LogCaptureFixture) -> None:
    nnet = Nnet.from_config(WITH_ORPHANS)
    with caplog.at_level(logging.INFO):
        caplog.clear()
        remove_orphans(nnet, remove_inputs=True)
    assert nnet.node_names == ["input", "n_input", "n", "part", "output"]
    assert nnet.config_lines()[1:3] == ["component-node name=n component=n input=Scale(0.5, input)",
                                        "dim-range-node name=part input-node=n dim-offset=1 dim=2"]
    assert nnet.component_names == ["n"]
    assert caplog.messages == ["Removed 3 orphan nodes.", "Removing 1 orphan components."]


def test_what_nodes_read_and_are_read_by() -> None:
    nnet = Nnet.from_config(WITH_ORPHANS)
    assert {name: nnet.node_input(name) for name in nnet.node_names} == {
        "x1": "", "x2": "", "input": "", "lost_input": "x1", "lost": "x1", "n_input": "Scale(0.5, input)",
        "n": "Scale(0.5, input)", "part": "n", "output": "part"}
    assert {name: nnet.users_of(name) for name in nnet.node_names if nnet.users_of(name)} == {
        "x1": ["lost"], "input": ["n"], "n": ["part"], "part": ["output"]}
    assert [nnet.input_dim(name) for name in ("input", "x1", "n", "nobody")] == [4, 4, -1, -1]
    assert [nnet.output_dim(name) for name in ("output", "n", "nobody")] == [2, -1, -1]


def test_of_two_neighboring_orphan_inputs_one_is_kept() -> None:
    nnet = Nnet.from_config(WITH_ORPHANS)
    remove_orphan_nodes(nnet)
    assert nnet.node_names[:2] == ["x1", "input"]


def test_nothing_to_remove(nnet: Nnet) -> None:
    version = nnet.version
    remove_orphans(nnet)
    remove_orphan_components(nnet)
    assert nnet.version == version


def test_calling_a_network_computes() -> None:
    nnet, feats = Nnet.from_config(TDNN), np.random.default_rng(0).standard_normal((12, 3))
    np.testing.assert_array_equal(nnet(feats), nnet3py.compute(nnet, feats))
    assert nnet(feats, output="t").shape == (12, 5)


def test_items_are_components_then_nodes() -> None:
    nnet = Nnet.from_config(LSTM)
    assert nnet["gates"] is nnet.component("gates")
    assert isinstance(nnet["input"], InputNode) and isinstance(nnet["m"], DimRangeNode)
    named = Nnet.from_config(TDNN.replace("component-node name=a component=a", "component-node name=first component=a")
                             .replace("input=a\n", "input=first\n"))
    assert named["first"] is named.component("a")


@pytest.mark.parametrize(("name", "hint"), [("gate", "did you mean 'gates'"), (0, "it has gates, cell, out, input")])
def test_a_name_that_is_not_there(name: object, hint: str) -> None:
    with pytest.raises(nnet3py.Nnet3Error, match=f"no component or node {name!r} .{hint}"):
        Nnet.from_config(LSTM)[name]        # type: ignore[index]


def test_iteration_gives_the_names_of_components() -> None:
    nnet = Nnet.from_config(TDNN)
    assert list(nnet) == nnet.component_names and "t" in nnet and "output" in nnet and "nobody" not in nnet
    assert {name: nnet[name] for name in nnet} == dict(nnet.named_components())
    assert not Nnet().component_names and Nnet(), "an empty network is true, too"


def test_text() -> None:
    nnet = Nnet.from_config(TDNN)
    assert repr(nnet) == "<Nnet: input (3) -> output (4), 6 components, 130 parameters>"
    assert repr(nnet["a"]) == "<AffineComponent 9 -> 5: linear_params 5 x 9, bias_params 5>"
    assert repr(nnet["t"]) == "<TanhComponent 5 -> 5>"
    assert repr(Nnet()) == "<Nnet: no input -> no output, 0 components, 0 parameters>"
    nnet.nodes[1].descriptor = nnet.nodes[-1].descriptor        # edited by hand, and wrong
    assert "input (3)" in repr(nnet)
