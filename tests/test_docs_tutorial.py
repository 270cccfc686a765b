"""docs/tutorial.md: every block of code runs, from top to bottom of each part, on a few utterances."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from digits_cases import write_recipe_data
from pages import blocks, run_blocks, shell
from paths import ROOT

import nnet3py
from nnet3py.components import registry

PAGE = ROOT / "docs" / "tutorial.md"
RECIPE = ROOT / "egs" / "digits"
UTTERANCES = {"train": 12, "test": 4}      # jobs of alignments are four


def part(heading: str) -> list[tuple[str, str]]:
    """The blocks of a part of the page: kind and code."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return blocks(text, "sh", "python")


def run(page: list[tuple[str, str]]) -> None:
    """Run blocks: those of the shell, which come first, in one shell; those of Python in one namespace."""
    print(shell("".join(code for kind, code in page if kind == "sh")), end="")
    print("".join(run_blocks([block for block in page if block[0] == "python"], {"__name__": "page"})), end="")


def small_recipe(folder: Path) -> None:
    """A checkout's bin/ and egs/digits, with the first utterances only."""
    (folder / "egs" / "digits").mkdir(parents=True)
    for name in ("bin", "egs/utils", "egs/digits/local", "egs/digits/path.sh"):
        (folder / name).symlink_to(ROOT / name)
    write_recipe_data(folder / "egs" / "digits" / "data", UTTERANCES)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe's folder after the first part of the page."""
    folder = tmp_path_factory.mktemp("checkout")
    small_recipe(folder)
    commands = [block for block in part("Your first network") if block[0] == "sh"]
    assert len(commands) >= 6
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(commands)
    return folder / "egs" / "digits"


@pytest.fixture(autouse=True)
def _commands_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNET3PY_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(registry, "_registered", {})


def test_your_first_network(recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(recipe)
    run([block for block in part("Your first network") if block[0] == "python"])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == UTTERANCES["test"] and all(len(line.split()) > 1 for line in printed)
    objectives = [float(re.search(r"Overall average objective function for 'output' is (\S+)", path.read_text())[1])
                  for path in sorted((recipe / "exp" / "first").glob("train.*.log"))]
    assert len(objectives) == 4 and objectives == sorted(objectives), "every pass is better than the one before"


def test_what_the_page_says_of_the_network(recipe: Path) -> None:
    nnet = nnet3py.read_nnet(str(recipe / "exp" / "first" / "0.raw"))
    shown = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert nnet3py.info(nnet).startswith(shown[0])


@pytest.mark.slow
def test_from_a_kaldi_directory(recipe: Path, monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture) -> None:
    """The page makes the directory itself."""
    monkeypatch.chdir(recipe)
    page = part("From a Kaldi directory to posteriors in Python")
    assert [kind for kind, _ in page] == ["sh", *["python"] * 5]
    run(page[:1])
    monkeypatch.chdir(recipe / "exp" / "kaldi")
    run(page[1:])
    printed = capsys.readouterr().out
    assert "for computing     nothing is missing" in printed and "begins with phone" in printed
    written = dict(nnet3py.read_matrices("scp:post.scp"))
    kept = np.load("post.npz")
    assert len(written) == UTTERANCES["test"] and set(written) == set(kept)
    subprocess.run(["nnet3-compute", "--apply-exp=true", "tdnn/final.mdl", "scp:data/test/feats.scp",
                    "ark:by-command.ark"], capture_output=True, check=True)
    for key, posterior in nnet3py.read_matrices("ark:by-command.ark"):
        np.testing.assert_allclose(written[key], posterior, rtol=1e-4, atol=1e-9)         # float32, in other chunks
    for key, posterior in written.items():
        np.testing.assert_array_equal(posterior, kept[key])
        np.testing.assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-5)      # float32 sums of 28 numbers


def test_a_component_of_your_own(recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(recipe)
    page = part("A component of your own")
    assert len(page) >= 4
    run(page)
    printed = capsys.readouterr().out
    assert "type=BendComponent, input-dim=40, output-dim=40, learning-rate=0.001" in printed
    assert float(printed.rpartition("largest change of c:")[2]) > 0
