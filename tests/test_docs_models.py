"""docs/models.md: every block of code runs, from top to bottom, on a small acoustic model."""
from __future__ import annotations

from pathlib import Path

import numpy as np
from pages import blocks, run_blocks
from paths import DATA, ROOT
from test_edit_checks import CONFIG, EDITS

import nnet3py
from nnet3py.acoustic_model import AcousticModel

PAGE = ROOT / "docs" / "models.md"


def test_the_page_runs(here: Path) -> None:
    transitions = nnet3py.read_model(str(DATA / "network" / "am-priors.mdl")).transition_model
    AcousticModel(transitions, nnet3py.Nnet.from_config(CONFIG), np.full(10, 0.1, np.float32)).write("final.mdl")
    assert len(run_blocks(blocks(PAGE), {})) >= 10
    assert nnet3py.read_model("renamed.mdl").nnet.component_names[-1] == "output.affine"
    assert "affine1_b" in nnet3py.read_nnet("changed.raw").component_names


def test_the_page_names_every_edit() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in EDITS:
        assert f"{name}(" in text, name
