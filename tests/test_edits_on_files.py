"""Every edit directive through ``nnet3-copy --edits``: what it logs, and what stands in the written file afterwards."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnet3py.cli.main import load
from nnet3py.network.edits import DIRECTIVES
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet

CONFIG = """
input-node name=input dim=6
input-node name=spare dim=2
component name=a1 type=NaturalGradientAffineComponent input-dim=6 output-dim=8 learning-rate-factor=0.5
component-node name=a1 component=a1 input=input
component name=drop type=GeneralDropoutComponent dim=8 dropout-proportion=0.1
component-node name=drop component=drop input=a1
component name=mask type=DropoutComponent dim=8 dropout-proportion=0.2
component-node name=mask component=mask input=a1
component name=d2 type=DropoutComponent dim=8 dropout-proportion=0.3
component-node name=d2 component=d2 input=Sum(drop, mask)
component name=a2 type=AffineComponent input-dim=8 output-dim=4 l2-regularize=0.01 max-change=0.75
component-node name=a2 component=a2 input=d2
component name=unused type=NoOpComponent dim=3
component name=side type=LinearComponent input-dim=8 output-dim=3
component-node name=side component=side input=a1
output-node name=output input=a2
output-node name=output-xent input=Scale(0.5, a2) objective=quadratic
"""
ROUNDING = 2e-6     # of float32 products of a few numbers around 1

Edit = Callable[..., "tuple[Nnet, Nnet, list[str]]"]


@pytest.fixture
def edit(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Edit:
    """``edit(directives)``: the network before, what was read back after, and the messages between."""
    def run(directives: str, binary: bool = True) -> tuple[Nnet, Nnet, list[str]]:
        monkeypatch.chdir(tmp_path)
        Nnet.from_config(CONFIG, seed=1).write("in", binary=binary)
        capfd.readouterr()
        status = load("nnet3-copy").execute([f"--binary={str(binary).lower()}", "--print-args=false",
                                             f"--edits={directives}", "in", "out"])
        err = capfd.readouterr().err
        assert status == 0, err
        messages = [text for text in re.findall(r"^(?:LOG|WARNING) \(.*?:\d+\) (.*)$", err, re.MULTILINE)
                    if "is never used" not in text]
        assert messages.pop() == "Copied raw neural net from in to out"
        return read_nnet("in"), read_nnet("out"), messages
    return run


def changed_components(before: Nnet, after: Nnet) -> dict[str, tuple[str, str]]:
    """Name -> information before and after, of the components that differ."""
    old, new = ({name: component.info() for name, component in nnet.named_components()} for nnet in (before, after))
    return {name: (old.get(name, ""), new.get(name, "")) for name in [*old, *new] if old.get(name) != new.get(name)}


@pytest.mark.parametrize("binary", [True, False])
def test_set_learning_rate(edit: Edit, binary: bool) -> None:
    before, after, messages = edit("set-learning-rate name=a* learning-rate=0.4", binary)
    assert messages == ["Set learning rates for 2 components."]
    changed = changed_components(before, after)
    assert set(changed) == {"a1", "a2"}
    assert "learning-rate=0.2," in changed["a1"][1] and "learning-rate=0.4," in changed["a2"][1]
    assert after.config_lines() == before.config_lines()


@pytest.mark.parametrize("binary", [True, False])
def test_set_learning_rate_factor(edit: Edit, binary: bool) -> None:
    before, after, messages = edit("set-learning-rate-factor learning-rate-factor=0.25", binary)
    assert messages == ["Set learning rate factors for 3 components."]
    changed = changed_components(before, after)
    assert set(changed) == {"a1", "a2", "side"}
    assert all("learning-rate=0.001, " in new and "learning-rate-factor=0.25" in new for _, new in changed.values())


@pytest.mark.parametrize("binary", [True, False])
def test_set_dropout_proportion(edit: Edit, binary: bool) -> None:
    before, after, messages = edit("set-dropout-proportion name=d* proportion=0.5;set-dropout-proportion name=mask "
                                   "proportion=0", binary)
    assert messages == ["Set dropout proportions for 2 components.", "Set dropout proportions for 1 components."]
    changed = changed_components(before, after)
    assert {name: re.findall("dropout-proportion=([0-9.]*)", new)[0] for name, (_, new) in changed.items()} == {
        "drop": "0.5", "d2": "0.5", "mask": "0"}


@pytest.mark.parametrize("binary", [True, False])
def test_convert_to_fixed_affine(edit: Edit, binary: bool) -> None:
    before, after, messages = edit("convert-to-fixed-affine name=a*", binary)
    assert messages == ["Converted 2 components to FixedAffineComponent."]
    assert set(changed_components(before, after)) == {"a1", "a2"}
    for name in ("a1", "a2"):
        assert type(after.component(name)).__name__ == "FixedAffineComponent"
        for key, value in before.arrays(name).items():
            assert np.array_equal(after.arrays(name)[key], value)
    assert after.component_names == before.component_names and after.config_lines() == before.config_lines()


def test_rename_node(edit: Edit) -> None:
    before, after, messages = edit("rename-node old-name=a2 new-name=last; rename-node old-name=output "
                                   "new-name=out # and so on")
    assert messages == [] and changed_components(before, after) == {}
    assert after.config_lines() == [
        line.replace("name=a2", "name=last").replace("input=a2", "input=last").replace("0.5, a2", "0.5, last")
        .replace("name=output ", "name=out ") for line in before.config_lines()]


def test_remove_output_nodes(edit: Edit) -> None:
    before, after, messages = edit("remove-output-nodes name=*-xent")
    assert messages == ["Removing 1 output nodes."] and changed_components(before, after) == {}
    assert after.config_lines() == before.config_lines()[:-1]


def test_orphans(edit: Edit) -> None:
    before, after, messages = edit("remove-orphan-nodes")
    assert messages == ["Removed 1 orphan nodes."] and changed_components(before, after) == {}
    assert set(before.node_names) - set(after.node_names) == {"side", "side_input"}
    _, after, messages = edit("remove-orphan-components")
    assert messages == ["Removing 1 orphan components."]
    assert after.config_lines() == before.config_lines() and "unused" not in after.component_names
    _, after, messages = edit("remove-orphans remove-orphan-inputs=true")
    assert messages == ["Removed 2 orphan nodes.", "Removing 2 orphan components."]
    assert "spare" not in after.node_names and after.component_names == ["a1", "drop", "mask", "d2", "a2"]
    again = edit("remove-orphans remove-orphan-inputs=true; remove-orphans")
    assert again[2][2:] == ["Removed 0 orphan nodes.", "Removing 0 orphan components."]


def test_apply_svd(edit: Edit) -> None:
    before, after, messages = edit("apply-svd name=a* bottleneck-dim=2 shrinkage-threshold=0.9")
    assert messages[-4:] == ["Converted 2 components to FixedAffineComponent.", "Removed 3 orphan nodes.",
                             "Removing 4 orphan components.", "Decomposed 2 components with SVD dimension 2"]
    assert after.component_names == ["drop", "mask", "d2", "a1_a", "a1_b", "a2_a", "a2_b"]
    for name in ("a1", "a2"):
        old, first, second = before.arrays(name), after.arrays(f"{name}_a"), after.arrays(f"{name}_b")
        u, s, v = np.linalg.svd(old["linear_params"], full_matrices=False)
        product = second["linear_params"] @ first["params"]
        np.testing.assert_allclose(product, (u[:, :2] * s[:2]) @ v[:2], atol=ROUNDING)
        assert np.array_equal(second["bias_params"], old["bias_params"])
    assert [type(after.component(name)).__name__ for name in ("a1_a", "a1_b")] == [
        "LinearComponent", "NaturalGradientAffineComponent"]
    assert all("learning-rate-factor=0.5" in after.component(name).info() for name in ("a1_a", "a1_b"))
    info = after.component("a2_a").info()
    assert "l2-regularize=0.01" in info and "max-change=0.75" in info and "learning-rate=0.001" in info
    assert {after.node_input(name) for name in ("drop", "output", "output-xent", "a2_b")} == {
        "a1_b", "a2_b", "Scale(0.5, a2_b)", "a2_a"}


@pytest.mark.parametrize(("directive", "messages"), [
    ("apply-svd name=side bottleneck-dim=1 shrinkage-threshold=0.9", [
        "Not decomposing component side as it is not an AffineComponent."]),
    ("apply-svd name=a2 bottleneck-dim=4 shrinkage-threshold=0.9", [
        "Not decomposing component a2 with SVD to rank 4 because its dimension is 8 -> 4"]),
    ("reduce-rank name=side rank=1", ["Not reducing rank of component side as it is not an AffineComponent."]),
    ("reduce-rank name=a2 rank=4", [
        "Not reducing rank of component a2 with SVD to rank 4 because its dimension is 8 -> 4"]),
])
def test_components_that_are_left_alone(edit: Edit, directive: str, messages: list[str]) -> None:
    before, after, found = edit(directive)
    assert found[0] == messages[0] and "0 components" in found[-1]
    assert changed_components(before, after) == {} and after.config_lines() == before.config_lines()


def test_a_layer_that_would_not_shrink_is_left_alone(edit: Edit) -> None:
    before, after, messages = edit("apply-svd name=a2 bottleneck-dim=3 shrinkage-threshold=0.9")
    assert "Shrinkage ratio 1.125 greater than threshold : 0.9 Skipping SVD for this layer." in messages
    assert after.config_lines() == before.config_lines()


def test_reduce_rank(edit: Edit) -> None:
    before, after, messages = edit("reduce-rank name=* rank=2")
    assert messages[-1] == "Reduced rank of parameters of 2 components."
    assert set(changed_components(before, after)) == {"a1", "a2"}
    u, s, v = np.linalg.svd(before.arrays("a1")["linear_params"], full_matrices=False)
    np.testing.assert_allclose(after.arrays("a1")["linear_params"], (u[:, :2] * s[:2]) @ v[:2], atol=ROUNDING)
    assert np.array_equal(after.arrays("a1")["bias_params"], before.arrays("a1")["bias_params"])


def test_every_directive_is_tested_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in DIRECTIVES if f'"{name}' not in text and f"; {name}" not in text] == []


@pytest.mark.parametrize("taken", ["component name=a1_b type=NoOpComponent dim=3",
                                   "component-node name=a1_b component=unused input=side"])
def test_a_taken_name_stops_the_decomposition_and_changes_nothing(taken: str) -> None:
    from nnet3py.errors import ConfigError
    from nnet3py.network.edits import apply_edits

    nnet = Nnet.from_config(f"{CONFIG}{taken}\n")
    lines, components = nnet.config_lines(), list(nnet.component_names)
    with pytest.raises(ConfigError, match="already has a (component|node) named a1_b"):
        apply_edits(nnet, "apply-svd name=* bottleneck-dim=2 shrinkage-threshold=0.9")
    assert nnet.config_lines() == lines and nnet.component_names == components
