"""Extras: what is missing of them, and commands that really install it, for a checkout and for a wheel."""
from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from nnet3py import extras
from nnet3py.cli.machine.installation import extras as command

# Installed by make.
DEVELOPERS = {"test", "test-ptx", "test-browser", "test-published", "mutants", "lint", "docs", "dist"}
ADVICE = re.compile(r"pip install[^\n]*nnet3py\[|pip install[^\n]*'\.\[")


def test_all_extras_are_described() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    assert set(parser["options.extras_require"]) == {*extras.EXTRAS, *DEVELOPERS}


def test_the_command_of_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    (checkout / ".venv").mkdir(parents=True)
    (checkout / "setup.cfg").write_text("")
    monkeypatch.setattr(extras, "_ROOT", str(checkout))
    monkeypatch.setattr(sys, "prefix", str(checkout / ".venv"))
    assert extras.install_command("plot") == f"cd '{checkout}' && .venv/bin/python -m pip install -e '.[plot]'"
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert extras.install_command("plot") == f"/usr/bin/python3 -m pip install -e '{checkout}[plot]'"


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "setup.cfg").write_text("[options.extras_require]\nplot =\n    no-such-package>=3.6\n    numpy>=1\n"
                                        "decode =\n    numpy>=1\ndask =\n    other>=1; sys_platform == 'elsewhere'\n")
    monkeypatch.setattr(extras, "_ROOT", str(tmp_path))
    assert extras.missing_packages("plot") == ["no-such-package>=3.6"] and extras.missing_packages("decode") == []
    assert command.execute(["--print-args=false", "decode"]) == 0
    assert command.execute(["--print-args=false", "decode", "plot"]) == 1
    out = capfd.readouterr().out.splitlines()
    assert out[0] == out[1] == "decode    graphs for decoding and alignment: installed"
    assert out[2].endswith(f"no-such-package>=3.6 missing; install: {extras.install_command('plot')}")
    assert command.execute(["--print-args=false", "plots"]) == 255
    assert "there is no extra 'plots' (expected some of decode, " in capfd.readouterr().err
    assert command.execute(["--print-args=false", "--python"]) == 0
    assert capfd.readouterr().out == f"{sys.executable}\n"


def test_the_command_of_a_wheel_installs_by_name(tmp_path: Path) -> None:
    """pip is content with the wheel that is there, wherever it came from, and gets what the extra needs besides."""
    package = tmp_path / "package"
    (package / "nnet3py").mkdir(parents=True)
    for name in ("__init__.py", "extras.py"):
        (package / "nnet3py" / name).write_text((ROOT / "nnet3py" / "extras.py").read_text())
    info = package / "nnet3py-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nnet3py\nVersion: 1\nProvides-Extra: plot\n"
                                   "Requires-Dist: no-such-package-of-nnet3py>=1; extra == \"plot\"\n"
                                   "Requires-Dist: pip; extra == \"decode\"\nProvides-Extra: decode\n")
    (info / "RECORD").write_text("")
    (info / "INSTALLER").write_text("pip\n")
    environment = {**os.environ, "PYTHONPATH": str(package)}
    code = "from nnet3py.extras import *; print(missing_packages('plot'), missing_packages('decode')); print({})"
    found = subprocess.run([sys.executable, "-c", code.format("install_command('decode')")], capture_output=True,
                           text=True, cwd=tmp_path, env=environment, check=True).stdout.splitlines()
    assert found == ["['no-such-package-of-nnet3py>=1'] []", f"{sys.executable} -m pip install 'nnet3py[decode]'"]
    done = subprocess.run(["sh", "-c", f"{found[1]} --no-index --dry-run"], capture_output=True, text=True,
                          cwd=tmp_path, env=environment)
    assert done.returncode == 0 and "Requirement already satisfied: nnet3py[decode]" in done.stdout, done.stderr


def test_advice_is_made_in_one_place() -> None:
    """A command that names the package in pip's way works for one way of installing only."""
    allowed = {"nnet3py/extras.py", "README.md", "tests/test_extras.py"}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    for name in listed.stdout.split("\n"):
        path = ROOT / name
        if path.suffix in (".py", ".md", ".sh") and path.is_file() and name not in allowed:
            assert not ADVICE.search(path.read_text()), name


def test_recipes_ask_the_python_of_their_launchers(tmp_path: Path) -> None:
    """Another folder of launchers may have another Python, whatever lies in the checkout's .venv."""
    other = tmp_path / "bin"
    other.mkdir()
    (other / "nnet3-extras").write_text(
        '#!/bin/sh\ncase "$*" in\n*--python) echo /other/python ;;\n'
        '*) echo "decode  words: x missing; install: this and that"; exit 1 ;;\nesac\n')
    (other / "nnet3-extras").chmod(0o755)
    script = f'. {ROOT}/egs/utils/recipe.sh; has_extra decode || echo "$python: $extra_hint"'
    environment = {key: value for key, value in os.environ.items() if key != "NNET3PY_PYTHON"}
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True,
                          env={**environment, "NNET3PY_BIN": str(other)})
    assert done.stdout == "/other/python: this and that\n", done.stderr
