"""Every command gives the same output, messages and exit status through click's CliRunner as through its launcher."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import startup_commands
from click.testing import CliRunner
from fork_runs import ForkRuns, Result
from thinned import thinned

from nnet3py.cli.main import load
from nnet3py.cli.process.group import nnet3py
from nnet3py.cli.registry import COMMANDS, PERSON_NAMES, person_name

REAL_RUNS = {"warmup": ["--list"], "tune": ["--show"],
             **{name: words for name, *words in startup_commands.COMMANDS}}
LAUNCHED = [name for name, entry in COMMANDS.items() if entry.launcher]
# Times differ from run to run, and whoever is first on a machine, or after a change, compiles kernels and says so.
_TIME = re.compile(r"\d+\.?\d*(e-\d+)?(?=( ?s| seconds)\b)")
_COMPILING = re.compile(r"^LOG \([^)]*:compiling\(\):engine/compiling\.py:\d+\) Compil.*\n", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder, with what the real runs read."""
    path = tmp_path_factory.mktemp("inputs")
    before = Path.cwd()
    os.chdir(path)
    startup_commands.write_inputs(path)
    yield path
    os.chdir(before)


@pytest.fixture(scope="module")
def launched(folder: Path) -> Iterator[Callable[..., Result]]:
    """Runs a command in a process of its own, as its launcher does."""
    with ForkRuns("numpy") as runs:
        yield lambda *words: _comparable(runs.run(*words)._replace(modules=frozenset()))


def invoked(name: str, *words: str) -> Result:
    """What click's own runner makes of it."""
    done = CliRunner().invoke(load(name), list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return _comparable(Result(done.exit_code, done.stdout, done.stderr))


def _comparable(result: Result) -> Result:
    return result._replace(messages=_TIME.sub("T", _COMPILING.sub("", result.messages)))


@pytest.mark.parametrize("name", thinned(COMMANDS, keep=4))
def test_help(name: str, launched: Callable[..., Result]) -> None:
    result = invoked(name, "--help")
    assert result == launched(name, "--help")
    assert result.status == 0 and result.output == "" and "\nStandard options:\n" in result.messages


@pytest.mark.parametrize("name", thinned(COMMANDS, keep=4))
def test_wrong_usage(name: str, launched: Callable[..., Result]) -> None:
    most = load(name).bounds[1]
    for words, status in ((["--no-such-option=1"], 255), (["x"] * (1 + (most or 0)), 1)):
        if status == 1 and most is None:
            words = []
            if load(name).bounds[0] == 0:
                continue
        result = invoked(name, *words)
        assert result == launched(name, *words)
        assert result.status == status and "\nUsage:" in result.messages
        assert (("Invalid option --no-such-option=1" in result.messages)
                == result.messages.endswith("kaldi::KaldiFatalError\n") == (status == 255))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_real_run(name: str, launched: Callable[..., Result]) -> None:
    """What the benchmark of starting runs; the others at least begin their work, on files that are not there."""
    words = REAL_RUNS.get(name) or ["missing"] * (1 if name == "docs" else load(name).bounds[0])     # which serves
    result = invoked(name, *words)
    assert result == launched(name, *words)
    expected = (0, startup_commands.OTHER_STATUS.get(name)) if name in REAL_RUNS else (0, 1, 255)
    assert result.status in expected


@pytest.mark.parametrize("name", ["nnet3-info", "nnet3-am-info", "copy-feats", "feat-to-dim"])
def test_the_launcher_itself_the_group_and_the_name_of_a_person(
        name: str, folder: Path, run_launcher: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    words = REAL_RUNS[name]
    expected = invoked(name, *words)
    for program, more in ((name, []), ("nnet3py", [person_name(name)]), ("nnet3py", [name])):
        done = run_launcher(program, *more, *words, cwd=folder)
        assert _comparable(Result(done.returncode, done.stdout, done.stderr)) == expected
    assert PERSON_NAMES[person_name(name)] == name
    done = CliRunner().invoke(nnet3py, [person_name(name), *words])
    assert _comparable(Result(done.exit_code, done.stdout, done.stderr)) == expected


def test_who_is_first_on_a_machine_only_says_more(
        folder: Path, tmp_path: Path, run_launcher: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    name, words = "apply-cmvn-online", REAL_RUNS["apply-cmvn-online"]
    environment = {**os.environ, "NNET3PY_PYTHON": sys.executable, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    first, second = (run_launcher(name, *words, cwd=folder, env=environment) for _ in range(2))
    assert _COMPILING.search(first.stderr) and not _COMPILING.search(second.stderr)
    results = [_comparable(Result(done.returncode, done.stdout, done.stderr)) for done in (first, second)]
    assert results == [invoked(name, *words)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", LAUNCHED)
def test_every_launcher(name: str, folder: Path,
                        run_launcher: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    for words in (["--help"], REAL_RUNS.get(name, ["--no-such-option=1"])):
        done = run_launcher(name, *words, cwd=folder)
        assert _comparable(Result(done.returncode, done.stdout, done.stderr)) == invoked(name, *words)
