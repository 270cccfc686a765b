"""docs/training.md: its commands run, on a few utterances; those that need other machines are at least understood."""
from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pages
import pytest
from command_lines import read
from digits_cases import RECIPE, write_recipe_data
from paths import ROOT

import nnet3py
from nnet3py.cli.process.options import Options, declared, fields_from
from nnet3py.drivers.options import DnnOptions
from nnet3py.option_fields import settings_of

PAGE = ROOT / "docs" / "training.md"
UTTERANCES = {"train": 20, "test": 2}
# Two iterations on two archives, and fewer small jobs.
SMALLER = {"num-epochs=1": "num-epochs=0.25 --trainer.num-jobs-compute-prior=1 --egs.opts='--nj 2'",
           "num_epochs=1.0": "num_epochs=0.25, egs_opts='--nj 2'",
           "samples-per-iter=4000": "samples-per-iter=400", "samples_per_iter=4000": "samples_per_iter=400"}
OTHER_MACHINES = [(False, False), (False, True), (True, False)]     # by no program, a scheduler, a program


def blocks(kind: str) -> list[str]:
    found = [code for _, code in pages.blocks(PAGE, kind)]
    for old, new in SMALLER.items():
        found = [code.replace(old, new) for code in found]
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe's folder after all commands of the page."""
    pytest.importorskip("matplotlib", reason="the report needs the extra 'plot'")
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / "bin").symlink_to(ROOT / "bin")
    recipe = checkout / "egs" / "digits"
    write_recipe_data(recipe / "data", UTTERANCES)
    shutil.copytree(RECIPE / "local", recipe / "local")
    shutil.copy(RECIPE / "path.sh", recipe)
    (recipe.parent / "utils").symlink_to(ROOT / "egs" / "utils")
    commands = blocks("sh")
    assert len(commands) >= 6 and all(old in PAGE.read_text(encoding="utf-8") for old in SMALLER)
    shown = pages.shell(f"exec 2>&1\n{''.join(commands)}", checkout, timeout=500)
    (recipe / "shown").write_text(shown, encoding="utf-8")
    return recipe


@pytest.mark.slow
def test_what_the_commands_leave(trained: Path) -> None:
    folder = trained / "exp" / "tdnn_page"
    assert nnet3py.read_model(str(folder / "final.mdl")).nnet.output_dim("output") == 28
    assert len(dict(nnet3py.read_matrices(f"ark:{folder / 'post.ark'}"))) == UTTERANCES["test"]
    assert (folder / "report" / "report.html").stat().st_size > 1000
    for name in ("log/combine.log", "log/progress.1.log", "log/train.0.1.log", "driver_options.json", "configs"):
        assert (folder / name).exists()
    assert not list(folder.glob("egs/egs.*.ark"))


@pytest.mark.slow
def test_what_the_commands_show(trained: Path) -> None:
    shown = (trained / "shown").read_text(encoding="utf-8")
    line = r"Iter: \d+/\d+   Jobs: \d   Epoch: \S+ \(\S+% complete\)   lr: \S+   train: \S+   .* frames/s   \S+ left"
    assert len(re.findall(line, shown)) >= 2
    page = next(block for block in blocks("text") if block.startswith("Iter: "))
    assert all(re.fullmatch(line, one) for one in page.splitlines())
    assert "%Iter\tduration\ttrain_objective\tvalid_objective\tdifference\n" in shown
    assert "Overall accuracy for 'output' is " in shown


@pytest.mark.slow
def test_the_python_of_the_page_finds_it_trained(trained: Path, monkeypatch: pytest.MonkeyPatch,
                                                 caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.chdir(trained)
    caplog.set_level(logging.INFO)
    code, _ = blocks("python")
    exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    assert "exp/tdnn_page is trained already: exp/tdnn_page/final.mdl" in caplog.text


@pytest.mark.slow
def test_a_loss_of_ones_own_goes_on_with_it(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NNET3PY_PYTHON", sys.executable)
    _, code = blocks("python")
    names: dict = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), names)
    before, after = (nnet3py.read_model(f"exp/tdnn_page/{name}.mdl") for name in ("final", "smoothed"))
    assert names["history"]["num_minibatches"][0] > 5 and before.nnet != after.nnet
    assert after.priors is not None and before.nnet.component_names == after.nnet.component_names


def test_commands_that_train_are_understood() -> None:
    """Those for other machines, too."""
    options = declared(settings_of(DnnOptions))
    found = [shlex.split(line.replace("\\\n", ""))[1:] for code in (*blocks("sh"), *blocks("bash"))
             for line in re.findall(r"^train-dnn (?:.*\\\n)*.*\n", code, re.MULTILINE)]
    assert len(found) == 3
    understood = []
    for words in found:
        rest, values = read(options, words, detached_values=True)
        assert rest == [] and isinstance(values, Options)
        understood.append(fields_from(values, DnnOptions()))
        understood[-1].check()
    assert sorted((bool(fields.cmd), bool(fields.scheduler)) for fields in understood) == OTHER_MACHINES
