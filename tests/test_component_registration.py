"""Component classes of outside programs: registered, they are in config lines and files like Kaldi's."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnet3py
from nnet3py.components import registry
from nnet3py.components.registry import COMPONENT_MODULES, component_class
from nnet3py.components.structural import NoOpComponent
from nnet3py.errors import ConfigError, FormatError

CONFIG = """
input-node name=input dim=3
component name=c type=TwiceComponent dim=3
component-node name=c component=c input=input
output-node name=output input=c
"""


class TwiceComponent(nnet3py.Component):
    """y = 2 x."""

    properties = nnet3py.Properties.SIMPLE
    input_dim = output_dim = 3

    def propagate(self, ops, indexes, x, y, memo):
        ops.copy_mat(y, x, 2.0)

    @classmethod
    def from_config(cls, line, rng):
        line.get_int("dim")
        return cls()

    @classmethod
    def read(cls, reader):
        reader.expect("</TwiceComponent>")
        return cls()

    def write(self, writer):
        writer.token("<TwiceComponent>")
        writer.token("</TwiceComponent>")


@pytest.fixture(autouse=True)
def _only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.parametrize("binary", [True, False])
def test_a_registered_class_is_in_config_lines_and_files(tmp_path: Path, binary: bool) -> None:
    assert nnet3py.register_component(TwiceComponent) is TwiceComponent
    assert component_class("TwiceComponent") is TwiceComponent
    nnet3py.Nnet.from_config(CONFIG).write(str(tmp_path / "1.raw"), binary=binary)
    nnet = nnet3py.read_nnet(str(tmp_path / "1.raw"))
    assert type(nnet.component("c")) is TwiceComponent
    feats = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(nnet3py.compute(nnet, feats), 2 * feats)
    assert "type=TwiceComponent, input-dim=3, output-dim=3" in nnet3py.info(nnet)


def test_without_registration_it_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Unknown component-type 'TwiceComponent'"):
        nnet3py.Nnet.from_config(CONFIG)
    nnet3py.register_component(TwiceComponent)
    nnet3py.Nnet.from_config(CONFIG).write(str(tmp_path / "1.raw"))
    registry._registered.clear()
    with pytest.raises(FormatError, match="unknown component type <TwiceComponent>"):
        nnet3py.read_nnet(str(tmp_path / "1.raw"))


def test_a_misspelled_name_is_told_the_registered_one() -> None:
    nnet3py.register_component(TwiceComponent)
    with pytest.raises(ConfigError) as caught:
        component_class("TwiseComponent")
    assert caught.value.hint == "did you mean TwiceComponent?"


def test_registering_again_replaces() -> None:
    nnet3py.register_component(TwiceComponent)
    again = type("TwiceComponent", (TwiceComponent,), {})
    nnet3py.register_component(again)
    assert component_class("TwiceComponent") is again


@pytest.mark.parametrize(("cls", "message"), [
    (int, "expected a subclass of Component"), (TwiceComponent(), "expected a subclass of Component"),
    (NoOpComponent, "one of Kaldi's component types"),
    (type("NoOpComponent", (nnet3py.Component,), {}), "one of Kaldi's component types"),
    (type("Größe", (nnet3py.Component,), {}), "cannot be the name of a component type"),
])
def test_what_cannot_be_registered(cls: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        nnet3py.register_component(cls)  # type: ignore[arg-type]
    assert set(COMPONENT_MODULES).isdisjoint(registry._registered)
