"""docs/models.md: every block of code runs, from top to bottom, on a small acoustic model."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from paths import DATA, ROOT
from test_edit_checks import EDITS

import nnet3py
from nnet3py.acoustic_model import AcousticModel

PAGE = ROOT / "docs" / "models.md"
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


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    transitions = nnet3py.read_model(str(DATA / "network" / "am-priors.mdl")).transition_model
    AcousticModel(transitions, nnet3py.Nnet.from_config(CONFIG), np.full(10, 0.1, np.float32)).write("final.mdl")
    assert len(blocks()) >= 10
    names: dict = {}
    for block in blocks():
        exec(compile(block, str(PAGE), "exec"), names)
    assert nnet3py.read_model("renamed.mdl").nnet.component_names[-1] == "output.affine"
    assert "affine1_b" in nnet3py.read_nnet("changed.raw").component_names


def test_the_page_names_every_edit() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in EDITS:
        assert f"{name}(" in text, name
