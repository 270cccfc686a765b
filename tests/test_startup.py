"""What starting a command imports: each check runs in a fresh interpreter and looks at ``sys.modules``."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import startup_commands
from fork_runs import ForkRuns
from paths import ROOT

from nnet3py.cli.registry import COMMANDS

HEAVY = {"numpy", "scipy", "numba", "llvmlite", "kaldi_io", "threadpoolctl", "importlib.metadata", "hypothesis"}
KERNELS = HEAVY - {"numpy"}


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has imported after ``code``."""
    report = "import sys; sys.__stdout__.write('\\nMODULES ' + ' '.join(sys.modules))"
    program = f"import sys\ntry:\n    {code}\nexcept SystemExit as done:\n    assert not done.code, done.code\n{report}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("MODULES ")[2].split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    modules = modules_after("import nnet3py")
    assert not modules & (HEAVY | {"click"})
    assert {name for name in modules if name.startswith("nnet3py")} == {"nnet3py"}


def test_group_help_imports_no_command() -> None:
    modules = modules_after("from nnet3py.cli.main import main; main(['--help'])")
    assert not modules & HEAVY
    assert not modules & {f"nnet3py.cli.{entry.module}" for entry in COMMANDS.values()}


@pytest.fixture(scope="module")
def runs() -> Iterator[ForkRuns]:
    with ForkRuns() as started:
        yield started


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_imports_no_commands_of_other_rooms(name: str, runs: ForkRuns) -> None:
    status, _, _, modules = runs.run(name, "--help")
    assert status == 0 and not modules & HEAVY
    own = f"nnet3py.cli.{COMMANDS[name].module}"
    commands = modules & {f"nnet3py.cli.{entry.module}" for entry in COMMANDS.values()}
    assert own in commands and {module.rpartition(".")[0] for module in commands} == {own.rpartition(".")[0]}


@pytest.mark.parametrize("module", ["nnet3py.io.tables", "nnet3py.network.nnet", "nnet3py.compiler",
                                    "nnet3py.components.registry"])
def test_files_and_compiler_need_no_numba(module: str) -> None:
    modules = modules_after(f"import {module}")
    assert not modules & KERNELS


def test_small_tools_need_no_numba_when_they_run(here: Path) -> None:
    startup_commands.write_inputs(here)
    with ForkRuns("numpy") as runs:
        for name, *words in startup_commands.COMMANDS:
            if name not in startup_commands.LIBRARIES:
                result = runs.run(name, *words)
                assert result.status in (0, startup_commands.OTHER_STATUS.get(name)), result
                assert "numpy" in result.modules and not result.modules & KERNELS, name


def test_the_benchmark_measures_every_command_that_needs_no_kernel() -> None:
    measured = [name for name, *_ in startup_commands.COMMANDS]
    assert len(measured) == len(set(measured))
    assert not set(measured) & set(startup_commands.NOT_MEASURED)
    assert set(measured) | set(startup_commands.NOT_MEASURED) == set(COMMANDS), \
        "name the new command in benchmarks/startup_commands.py"


@pytest.mark.parametrize("name", ["nnet3-info", "feat-to-len"])
def test_launcher(name: str, run_launcher: Callable[..., Any]) -> None:
    done = run_launcher(name, "--help")
    assert done.returncode == 0 and done.stdout == ""
    assert f"Usage: {name}" in done.stderr or f"Usage:  {name}" in done.stderr


def test_the_launcher_of_all_commands(run_launcher: Callable[..., Any]) -> None:
    done = run_launcher("nnet3py", "info", "--help")
    assert done.returncode == 0 and "nnet3-info" in done.stderr
    assert "inspect" in run_launcher("nnet3py").stdout
    assert run_launcher("nnet3py", "inspekt").returncode == 1


def test_launcher_works_through_a_link_and_from_a_folder_that_shadows(run_launcher: Callable[..., Any],
                                                                     tmp_path: Path) -> None:
    (tmp_path / "signal.py").write_text("raise SystemExit('the wrong module')\n")
    (tmp_path / "feat-to-len").symlink_to(ROOT / "bin" / "feat-to-len")
    done = subprocess.run(["./feat-to-len", "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "NNET3PY_PYTHON": sys.executable})
    assert done.returncode == 0 and "Standard options:" in done.stderr


def checkout_without_venv(tmp_path: Path) -> Path:
    """A copy of one launcher beside a link to the package, in a folder that has no ``.venv``."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "nnet3py").symlink_to(ROOT / "nnet3py")
    launcher = tmp_path / "bin" / "feat-to-len"
    launcher.write_text((ROOT / "bin" / "feat-to-len").read_text())
    launcher.chmod(0o755)
    shutil.copy(ROOT / "bin" / "launcher.sh", launcher.parent)
    return launcher


def test_launcher_in_a_folder_that_is_a_link(tmp_path: Path) -> None:
    launcher = checkout_without_venv(tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$0"\n')
    python.chmod(0o755)
    (tmp_path / "elsewhere" / "deeper").mkdir(parents=True)
    (tmp_path / "elsewhere" / "bin").symlink_to(launcher.parent)
    environment = {name: value for name, value in os.environ.items() if name != "NNET3PY_PYTHON"}
    done = subprocess.run(["../bin/feat-to-len"], cwd=tmp_path / "elsewhere" / "deeper", env=environment,
                          capture_output=True, text=True, timeout=60)
    # As Python shortens it: without a look at what is a link.
    assert os.path.normpath(done.stdout.strip()) == str(python)


def test_launcher_finds_a_python_on_path(tmp_path: Path) -> None:
    launcher = checkout_without_venv(tmp_path)
    bare, able = tmp_path / "bare", tmp_path / "able"
    for folder, body in ((bare, "exit 1"), (able, f'exec "{sys.executable}" "$@"')):
        folder.mkdir()
        (folder / "python3").write_text(f"#!/bin/sh\n{body}\n")
        (folder / "python3").chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "NNET3PY_PYTHON"}

    def start() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["/bin/sh", str(launcher), "--help"], env=environment, capture_output=True, text=True,
                              timeout=60)

    environment["PATH"] = f"{bare}:{able}"
    done = start()
    assert done.returncode == 0 and "Usage" in done.stderr
    environment["PATH"] = str(bare)
    done = start()
    assert done.returncode == 255 and "no python3 on PATH has numba" in done.stderr


def test_nothing_is_left_to_look_through_at_the_end() -> None:
    """When the interpreter ends, all objects are those that its search for garbage leaves out; called twice as well."""
    program = ("import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 1000, gc.get_count()[2]))\n"
               "from nnet3py.cli.main import collect_rarely; collect_rarely(); collect_rarely()")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"]
