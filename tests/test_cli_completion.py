"""Completion in the shell: commands, options, values and files, asked as click asks, and in the shells themselves."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from paths import ROOT

from nnet3py.cli.main import load
from nnet3py.cli.process.command import COMPLETION_VARIABLE
from nnet3py.cli.process.completion import SHELLS, complete
from nnet3py.cli.process.group import nnet3py
from nnet3py.cli.registry import COMMANDS, PERSON_NAMES

FILE = ("file", "fi")


def answers(command: click.Command, args: list[str], incomplete: str, shell: str = "zsh") -> list[tuple[str, str]]:
    """What may stand there: (kind, text)."""
    asked = SHELLS[shell](command, {}, command.name or "", COMPLETION_VARIABLE)
    return [(item.type, item.value) for item in asked.get_completions(args, incomplete)]


def texts(*args: str, of: click.Command = nnet3py, shell: str = "zsh") -> list[str]:
    found = answers(of, list(args[:-1]), args[-1], shell)
    assert all(kind == "plain" for kind, _ in found)
    return [text for _, text in found]


def test_commands() -> None:
    assert {"copy", "compute", "copy-feats"} <= set(texts("co"))
    assert texts("") == sorted(PERSON_NAMES)
    assert texts("--ver") == ["--version"]


@pytest.mark.parametrize("args", [["compute"], ["nnet3-compute"], ["compute", "--use-gpu=no"], ["compute", "--bad=x"]])
def test_options(args: list[str]) -> None:
    assert texts(*args, "--use") == ["--use-gpu=", "--use-priors="]
    assert texts(*args, "--Use_g") == ["--use-gpu="]
    assert "--help" in texts(*args, "--") and "--optimization.optimize=" in texts(*args, "--")
    assert texts(*args, "--nothing") == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command(name: str) -> None:
    command = load(name)
    found = texts("--", of=command)
    expected = {f"--{one.name}=" for one in (*command.declared, *command.standard)} - {"--help="} | {"--help"}
    assert set(found) == expected and found == sorted(found)


@pytest.mark.parametrize("option, value, expected", [
    ("--use-gpu", "", ["yes", "no", "optional", "wait"]), ("--use-gpu", "o", ["optional"]), ("--use-gpu", "x", []),
    ("--use-priors", "", ["true", "false"]), ("--use_priors", "f", ["false"]), ("--frames-per-chunk", "", []),
])
def test_values(option: str, value: str, expected: list[str]) -> None:
    """Where the shell gives one word the whole word is completed, where it gives three only the value is."""
    compute = load("nnet3-compute")
    assert texts(f"{option}={value}", of=compute) == [f"{option}={one}" for one in expected]
    assert texts("compute", f"{option}={value}") == [f"{option}={one}" for one in expected]
    assert texts(option, "=", value or "=", of=compute, shell="bash") == expected
    assert texts("compute", option, "=", value or "=", shell="bash") == expected


def test_files() -> None:
    compute = load("nnet3-compute")
    assert answers(compute, [], "fi") == [FILE]
    assert answers(compute, ["final.mdl", "--use-gpu=no"], "fi") == [FILE]
    assert answers(nnet3py, ["compute", "final.mdl", "ark", ":"], "fi", "bash") == [FILE]
    assert answers(nnet3py, ["compute", "--config", "="], "fi", "bash") == [FILE]
    assert answers(compute, [], "--config=fi") == [("file", "--config=fi")]


def test_completing_prints_nothing_else_and_reads_no_file(capfd: pytest.CaptureFixture[str]) -> None:
    assert texts("compute", "--config=/does/not/exist", "--help", "--bin", of=nnet3py) == []
    assert texts("copy", "--config=/does/not/exist", "--help", "--bin", of=nnet3py) == ["--binary="]
    assert capfd.readouterr() == ("", "")


def test_the_script_serves_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in SHELLS:
        assert complete(nnet3py, f"{shell}_source") == 0
        script = capsys.readouterr().out
        for name in ("nnet3py", "nnet3-copy", "nnet3py-copy", "feat-to-len", "nnet3py-warmup"):
            assert f" {name} " in script.replace("\n", " ")
        assert " bin-path " not in script
    assert complete(nnet3py, "tcsh_source") == complete(nnet3py, "bash_something") == 1


def test_the_variable_asks_any_name_of_ours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv(COMPLETION_VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "nnet3-compute --use-gpu = o")
    monkeypatch.setenv("COMP_CWORD", "3")
    with pytest.raises(SystemExit) as caught:
        load("nnet3-compute").main()
    assert not caught.value.code and capsys.readouterr().out == "plain,optional\n"


# -- in the shells themselves ----------------------------------------------------------------------------------------

_BASH = """
compopt() { :; }
eval "$(%(variable)s=bash_source nnet3py)"
COMP_WORDS=(%(line)s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
_nnet3py_completion "${COMP_WORDS[0]}"
printf '%%s\\n' "${COMPREPLY[@]}"
complete -p nnet3-info
"""


def in_shell(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NNET3PY_PYTHON": sys.executable, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
@pytest.mark.parametrize("line, expected", [
    ("nnet3py am-i", ["am-info", "am-init"]), ("nnet3py compute --use-gpu = y", ["yes"]),
    ("nnet3-compute --use-g", ["--use-gpu="]), ("feat-to-len --print-args =", ["true", "false"]),
    ("nnet3-compute fin", [""]),
])
def test_bash(line: str, expected: list[str]) -> None:
    done = in_shell("bash", "-c", _BASH % {"variable": COMPLETION_VARIABLE, "line": line})
    *found, registered = done.stdout.splitlines()
    assert found == expected and "-F _nnet3py_completion nnet3-info" in registered, done.stderr


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish")
@pytest.mark.parametrize("line, expected", [
    ("nnet3py am-i", ["am-info", "am-init"]), ("nnet3py compute --use-gpu=y", ["--use-gpu=yes"]),
    ("nnet3-compute --use-g", ["--use-gpu="]), ("nnet3-compute ark:fi", ["ark:first", "ark:five"]),
    ("nnet3-compute --config=fiv", ["--config=five"]),
])
def test_fish(line: str, expected: list[str], tmp_path: Path) -> None:
    for name in ("first", "five"):
        (tmp_path / name).touch()
    done = in_shell("fish", "--no-config", "-c", f"cd {tmp_path}; {COMPLETION_VARIABLE}=fish_source nnet3py | source; "
                    f"complete --do-complete='{line}'")
    assert [found.split("\t")[0] for found in done.stdout.splitlines()] == expected, done.stderr
