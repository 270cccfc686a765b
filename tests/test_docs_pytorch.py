"""docs/pytorch.md: its code runs and prints what stands there; on a few utterances, what is trained is decoded."""
from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from digits_cases import RECIPE, write_recipe_data
from pages import blocks, run_blocks
from paths import ROOT

pytest.importorskip("torch", reason="the extra torch")

PAGE = ROOT / "docs" / "pytorch.md"
SMALLER = "EPOCHS, BATCH = 5, 16", "EPOCHS, BATCH = 2, 4"
UTTERANCES = {"train": 12, "test": 4}        # make_kaldi_dirs.sh has four jobs


def parts() -> tuple[str, str]:
    """What runs anywhere, and what needs the recipe's data."""
    before, after = PAGE.read_text(encoding="utf-8").split("\n## From features to words\n")
    return before, after


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Those of the page after its parts that need no data."""
    result: dict = {"__name__": "page"}
    folder = tmp_path_factory.mktemp("page")
    before = Path.cwd()
    os.chdir(folder)
    try:
        run_blocks(blocks(parts()[0]), result, folder)
    finally:
        os.chdir(before)
    return result


def test_the_page_runs(names: dict) -> None:
    assert len(names["values"]) == 20 and "network" in names


@pytest.mark.slow
def test_from_features_to_words(names: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kaldifst", reason="words are decoded with the extra 'decode'")
    recipe = tmp_path / "egs" / "digits"
    write_recipe_data(recipe / "data", UTTERANCES)
    shutil.copytree(RECIPE / "local", recipe / "local")
    shutil.copy(RECIPE / "path.sh", recipe)
    (recipe.parent / "utils").symlink_to(ROOT / "egs" / "utils")
    (tmp_path / "bin").symlink_to(ROOT / "bin")
    monkeypatch.chdir(recipe)
    text = parts()[1]
    assert SMALLER[0] in text
    printed = run_blocks(blocks(text.replace(*SMALLER)), names, recipe)
    assert names["objectives"][1] > names["objectives"][0] and "%WER" in printed[-1]
