"""docs/tutorial.md: every block of code runs, from top to bottom of each part, on a few utterances."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from digits_cases import write_recipe_data
from paths import DATA, ROOT

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.components import registry
from nnet3py.io.holders import FLOAT_MATRIX
from nnet3py.io.tables import TableWriter, read_matrices

PAGE = ROOT / "docs" / "tutorial.md"
RECIPE = ROOT / "egs" / "digits"
UTTERANCES = {"train": 12, "test": 3}
FEATURES = "ark:apply-cmvn --utt2spk=ark:data/test/utt2spk scp:data/test/cmvn.scp scp:data/test/feats.scp ark:- |"
PDFS = 10        # of the transition model in tests/data
CONFIG = f"""
input-node name=input dim=40
component name=affine type=AffineComponent input-dim=120 output-dim={PDFS}
component name=norm type=BatchNormComponent dim={PDFS}
component name=softmax type=LogSoftmaxComponent dim={PDFS}
component-node name=affine component=affine input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=norm component=norm input=affine
component-node name=softmax component=softmax input=norm
output-node name=output input=softmax
"""


def part(heading: str) -> list[tuple[str, str]]:
    """The blocks of a part of the page: kind and code."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```(sh|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(blocks: list[tuple[str, str]]) -> None:
    """Run blocks: those of the shell, which come first, in one shell; those of Python in one namespace."""
    script = "".join(code for kind, code in blocks if kind == "sh")
    done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names: dict = {"__name__": "page"}
    for kind, code in blocks:
        if kind == "python":
            exec(compile(code, str(PAGE), "exec"), names)


def small_recipe(folder: Path) -> None:
    """A checkout's bin/ and egs/digits, with the first utterances only."""
    (folder / "bin").symlink_to(ROOT / "bin")
    write_recipe_data(folder / "egs" / "digits" / "data", UTTERANCES)


def kaldi_directory(folder: Path) -> None:
    """exp/tdnn with a model, and data/test, as Kaldi lays them out."""
    data = folder / "data" / "test"
    data.mkdir(parents=True)
    (folder / "exp" / "tdnn").mkdir(parents=True)
    transitions = nnet3py.read_model(str(DATA / "network" / "am-priors.mdl")).transition_model
    priors = np.full(PDFS, 0.1, np.float32)
    AcousticModel(transitions, nnet3py.Nnet.from_config(CONFIG), priors).write(str(folder / "exp/tdnn/final.mdl"))
    with TableWriter(f"ark,scp:{data / 'feats.ark'},{data / 'feats.scp'}", FLOAT_MATRIX) as writer:
        for key, feats in islice(read_matrices(f"ark:{RECIPE / 'data' / 'test' / 'feats.ark'}"), 3):
            writer.write(key, np.asarray(feats))
    keys = [line.split()[0] for line in (data / "feats.scp").read_text(encoding="utf-8").splitlines()]
    (data / "utt2spk").write_text("".join(f"{key} someone\n" for key in keys), encoding="utf-8")
    (data / "spk2utt").write_text(f"someone {' '.join(keys)}\n", encoding="utf-8")
    subprocess.run(["compute-cmvn-stats", f"--spk2utt=ark:{data / 'spk2utt'}", f"scp:{data / 'feats.scp'}",
                    f"ark,scp:{data / 'cmvn.ark'},{data / 'cmvn.scp'}"], capture_output=True, check=True)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe's folder after the first part of the page."""
    folder = tmp_path_factory.mktemp("checkout")
    small_recipe(folder)
    shell = [block for block in part("Your first network") if block[0] == "sh"]
    assert len(shell) >= 6
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("NNET3PY_PYTHON", sys.executable)
        run(shell)
    return folder / "egs" / "digits"


@pytest.fixture(autouse=True)
def _commands_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNET3PY_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(registry, "_FROM_OUTSIDE", {})


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


def test_from_a_kaldi_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kaldi_directory(tmp_path)
    blocks = part("From a Kaldi directory to posteriors in Python")
    assert len(blocks) >= 5
    run(blocks)
    written = dict(nnet3py.read_matrices("scp:post.scp"))
    kept = np.load("post.npz")
    assert len(written) == 3 and set(written) == set(kept)
    subprocess.run(["nnet3-compute", "--apply-exp=true", "exp/tdnn/final.mdl", FEATURES, "ark:by-command.ark"],
                   capture_output=True, check=True)
    for key, posterior in nnet3py.read_matrices("ark:by-command.ark"):
        np.testing.assert_allclose(written[key], posterior, rtol=1e-4)         # float32, in other chunks
    for key, posterior in written.items():
        np.testing.assert_array_equal(posterior, kept[key])
        np.testing.assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-5)      # float32 sums of ten numbers


def test_a_component_of_your_own(recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(recipe)
    blocks = part("A component of your own")
    assert len(blocks) >= 4
    run(blocks)
    printed = capsys.readouterr().out
    assert "type=BendComponent, input-dim=40, output-dim=40, learning-rate=0.001" in printed
    assert float(printed.rpartition("largest change of c:")[2]) > 0
