"""Commands: exit statuses, errors in one line, the command echo, and the lazy group of them all."""
from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from paths import ROOT

from nnet3py.cli import registry
from nnet3py.cli.main import main as nnet3py_main
from nnet3py.cli.main import run_person_name
from nnet3py.cli.process import option_groups
from nnet3py.cli.process.command import KaldiCommand, kaldi_command
from nnet3py.cli.process.group import nnet3py
from nnet3py.cli.process.option_groups import BINARY, DEVICE
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.process.run import guarded
from nnet3py.errors import ArgumentsError, DeviceError, FormatError, UsageError


def make(body: Callable[[list[str], Options], Any], arguments: tuple[int, int | None] = (2, 2)) -> KaldiCommand:
    decorate = kaldi_command("nnet3-copy", "Models", "Copy it.",
                             "\nCopy it.\nUsage: nnet3-copy [options] <in> <out>\n", arguments=arguments,
                             options=[BINARY, option("scale", float, 1.0, "Factor"), *DEVICE])
    return decorate(body)


def fail(error: BaseException) -> Callable[[list[str], Options], Any]:
    def body(args: list[str], options: Options) -> None:
        raise error
    return body


def test_a_command_gets_arguments_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    command = make(lambda args, options: seen.append((args, options.binary, options.scale)))
    assert command.execute(["--binary=false", "--scale=2", "a b", "out"]) == 0
    assert seen == [(["a b", "out"], False, 2.0)]
    captured = capsys.readouterr()
    assert captured.err == "nnet3-copy --binary=false --scale=2 'a b' out \n"
    assert captured.out == ""


def test_print_args_can_be_switched_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert make(lambda args, options: None).execute(["--print-args=false", "a", "b"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("status, expected", [(None, 0), (0, 0), (1, 1)])
def test_the_function_gives_the_exit_status(status: int | None, expected: int) -> None:
    assert make(lambda args, options: status).execute(["a", "b"]) == expected


@pytest.mark.parametrize("words", [[], ["a"], ["a", "b", "c"], ["a", "--scale=2", "b"]])
def test_wrong_number_of_arguments(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert make(fail(AssertionError("must not run"))).execute(words) == 1
    captured = capsys.readouterr()
    assert "Usage: nnet3-copy [options] <in> <out>" in captured.err and "ERROR" not in captured.err
    assert captured.out == ""


def test_any_number_of_arguments() -> None:
    command = make(lambda args, options: len(args), arguments=(2, None))
    assert [command.execute(["x"] * count) for count in (2, 5)] == [2, 5]


def test_help_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert make(fail(AssertionError("must not run"))).execute(["--help"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("\nCopy it.\n") and "--scale" in captured.err and captured.out == ""


def test_unknown_option_shows_usage_and_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert make(fail(AssertionError("must not run"))).execute(["--scael=2", "a", "b"]) == 255
    err = capsys.readouterr().err
    assert "Standard options:" in err
    assert "Command line was: nnet3-copy --scael=2 a b \n" in err
    assert err.count("ERROR (nnet3-copy[5.5]:") == 1
    assert "Invalid option --scael=2 (did you mean --scale?)" in err


def disk_full() -> OSError:
    return OSError(28, "No space left on device", "out.raw")


@pytest.mark.parametrize("error, status, text", [
    (FormatError("expected <Nnet3>, found <Nnet>", path="a.raw", offset=2), 255,
     "expected <Nnet3>, found <Nnet> [a.raw, byte 2]"),
    (UsageError("--left and --right exclude each other"), 255, "--left and --right exclude each other"),
    (ArgumentsError("4 arguments were given"), 1, "4 arguments were given"),
    (disk_full(), 255, "out.raw: No space left on device"),
    (FileNotFoundError(2, "No such file or directory", "in.raw"), 255, "in.raw: No such file or directory"),
    (MemoryError(), 255, "Out of memory"),
    (ValueError("two\nlines"), 255, "internal error: ValueError: two lines (run again with --verbose=2"),
])
def test_errors_are_one_line(error: Exception, status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert make(fail(error)).execute(["--print-args=false", "a", "b"]) == status
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("ERROR (nnet3-copy[5.5]:body():tests/test_cli_command.py:") and text in lines[0]
    assert lines[1:] == (["kaldi::KaldiFatalError"] if status == 255 else [])


def test_traceback_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert make(fail(ValueError("bad"))).execute(["--verbose=2", "a", "b"]) == 255
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err and err.count("ERROR (") == 1


def test_interrupt() -> None:
    assert guarded(lambda: fail(KeyboardInterrupt())([], Options({}))) == 130


def test_broken_pipe_is_quiet(run_launcher: Callable[..., Any], tmp_path: Any) -> None:
    script = tmp_path / "many.py"
    script.write_text("from nnet3py.cli.process.command import kaldi_command\n"
                      "@kaldi_command('many', '', '', '', arguments=(0, 0))\n"
                      "def many(args, options):\n"
                      "    for i in range(200000):\n"
                      "        print(i)\n"
                      "many.main()\n")
    import subprocess
    import sys
    done = subprocess.run(["bash", "-c", f"'{sys.executable}' '{script}' --print-args=false | head -n 1; "
                           "exit ${PIPESTATUS[0]}"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (141, "0\n", "")


def test_library_warnings_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    command = make(lambda args, options: logging.getLogger("nnet3py.io.tables").warning("odd key"))
    assert command.execute(["--print-args=false", "a", "b"]) == 0
    assert capsys.readouterr().err.startswith("WARNING (nnet3-copy[5.5]:")


def test_commands_are_click_commands() -> None:
    command = make(lambda args, options: click.echo(f"{options.scale} {args}"))
    assert isinstance(command, click.Command)
    result = CliRunner().invoke(command, ["--scale=3", "a", "b"])
    assert result.exit_code == 0 and result.stdout == "3.0 ['a', 'b']\n"
    assert "scale" in [parameter.name for parameter in command.params]


# -- the device ------------------------------------------------------------------------------------------------------


def device_options(**values: Any) -> Options:
    given = {name.replace("_", "-"): value for name, value in values.items()}
    return Options({"use-gpu": "optional", "device": "", "num-threads": 0, "cuda-use-tensor-cores": False, **given})


@pytest.mark.parametrize("reason, values, device", [
    ("there is none", {}, "cpu"), (None, {}, "cuda"), (None, {"use_gpu": "no"}, "cpu"),
    (None, {"use_gpu": "yes"}, "cuda"),
    (None, {"use_gpu": "wait"}, "cuda"), (None, {"device": "cpu", "use_gpu": "yes"}, "cpu"),
    ("there is none", {"device": "cpu", "use_gpu": "yes"}, "cpu"), (None, {"device": "cuda", "use_gpu": "no"}, "cuda"),
])
def test_choice_of_device(reason: str | None, values: dict, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_groups, "why_no_gpu", lambda busy: reason)
    assert option_groups.chosen_device(device_options(**values)) == device


@pytest.mark.parametrize("values", [{"use_gpu": "yes"}, {"device": "cuda"}])
def test_a_gpu_that_is_not_there(values: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_groups, "why_no_gpu", lambda busy: "there is none")
    with pytest.raises(DeviceError, match="A GPU was asked for, but there is none .--use-gpu=optional"):
        option_groups.chosen_device(device_options(**values))


def test_waiting_where_there_is_no_gpu_is_computing_on_the_cpu(
        monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(option_groups, "why_no_gpu", lambda busy: "there is none")
    assert option_groups.chosen_device(device_options(use_gpu="wait")) == "cpu"
    assert "WARNING" in (found := capfd.readouterr().err) and "--use-gpu=wait, but there is none" in found


@pytest.mark.parametrize("wish, free_at, device, waits", [
    ("wait", 3, "cuda", [5, 5, 5]), ("wait", 0, "cuda", []), ("yes", 1, "cuda", [20]), ("yes", 2, None, [20]),
    ("optional", 1, "cpu", []),
])
def test_a_gpu_that_others_hold(wish: str, free_at: int, device: str | None, waits: list[int],
                                monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    slept: list[int] = []

    def why(busy: list) -> str | None:
        if len(slept) == free_at:
            return None
        busy.append(DeviceError("it is busy"))
        return "it is busy"

    monkeypatch.setattr(option_groups, "why_no_gpu", why)
    monkeypatch.setattr(option_groups.time, "sleep", slept.append)
    if device is None:
        with pytest.raises(DeviceError, match="A GPU was asked for, but it is busy"):
            option_groups.chosen_device(device_options(use_gpu=wish))
    else:
        assert option_groups.chosen_device(device_options(use_gpu=wish)) == device
    assert slept == waits
    assert (f"Waited {sum(waits)} seconds before creating CUDA context" in capfd.readouterr().err) == bool(waits)


def test_tensor_cores_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from nnet3py.ops.cuda import cublas

    monkeypatch.setattr(option_groups, "why_no_gpu", lambda busy: None)
    monkeypatch.setattr(cublas, "_settings", {"tf32": False})
    for wanted in (False, True):
        assert option_groups.chosen_device(device_options(use_gpu="yes", cuda_use_tensor_cores=wanted)) == "cuda"
        assert cublas.tf32_is_allowed() is wanted


@pytest.mark.parametrize("visible, seen", [(None, True), ("0", True), ("1,0", True), ("", False), ("-1", False)])
def test_cuda_visible_devices(visible: str | None, seen: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(option_groups, "_GPU_FILES", (str(tmp_path / "nvidia0"),))
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert option_groups.has_gpu_files() == seen


# -- nnet3py <name> --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only ``nnet3-copy``, and that one from this file."""
    command = make(lambda args, options: print("copied", *args))
    for module in ("process.group", "main"):
        monkeypatch.setattr(f"nnet3py.cli.{module}.load", lambda name: {"nnet3-copy": command}[name])


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        nnet3py_main(list(words))
    return caught.value.code or 0   # type: ignore[return-value]


@pytest.mark.parametrize("name", ["copy", "nnet3-copy"])
def test_group_runs_a_command(name: str, small_registry: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(name, "--scale=2", "a", "b") == 0
    captured = capsys.readouterr()
    assert captured.out == "copied a b\n" and captured.err == "nnet3-copy --scale=2 a b \n"


def test_group_passes_exit_statuses_on(small_registry: None) -> None:
    assert call("copy", "a") == 1
    assert call("copy", "--nothing=1", "a", "b") == 255
    assert call("copy", "--help") == 0


@pytest.mark.parametrize("words", [["a", "b"], ["--nothing=1", "a", "b"]])
def test_a_person_is_not_told_kaldis_last_word(words: list[str], monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    command = make(fail(UsageError("no")))
    for module in ("process.group", "main"):
        monkeypatch.setattr(f"nnet3py.cli.{module}.load", lambda name: command)
    assert command.execute(words) == 255
    kaldis = capsys.readouterr().err
    assert kaldis.endswith("kaldi::KaldiFatalError\n")
    assert call("copy", *words) == 255
    persons = capsys.readouterr().err
    assert persons == kaldis.removesuffix("kaldi::KaldiFatalError\n")
    monkeypatch.setattr("sys.argv", ["/some/where/nnet3py-copy", *words])
    with pytest.raises(SystemExit) as caught:
        run_person_name()
    assert caught.value.code == 255 and capsys.readouterr().err == persons


def test_python_runs_the_package(tmp_path: Path) -> None:
    import subprocess
    import sys

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "nnet3py", *words], capture_output=True, text=True, timeout=60,
                              cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})

    assert run("--help").stdout.startswith("Usage: nnet3py ")
    done = run("info", "missing.raw")
    assert done.returncode == 255 and "ERROR (nnet3-info[5.5]:" in done.stderr
    assert "KaldiFatalError" not in done.stderr


def test_help_is_in_groups_and_no_line_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = CliRunner().invoke(nnet3py, ["--help"]).stdout
    assert [line[:-1] for line in text.splitlines() if re.fullmatch(r"\S.*:", line) and line != "Options:"] \
        == list(registry.GROUPS)
    joined = " ".join(text.split())
    assert all(registry.COMMANDS[name].help in joined for name in registry.PERSON_NAMES.values())


def test_group_help_lists_every_command_and_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3py.cli.process.group.load", fail(AssertionError("help must not import commands")))
    result = CliRunner().invoke(nnet3py, ["--help"])
    assert result.exit_code == 0
    for name in registry.PERSON_NAMES:
        assert f"\n  {name} " in result.output


def test_completion_imports_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3py.cli.process.group.load", fail(AssertionError("completion must not import commands")))
    items = nnet3py.shell_complete(click.Context(nnet3py), "co")
    assert {"copy", "compute", "copy-feats"} <= {item.value for item in items}
    assert all(item.value.startswith("co") and item.help for item in items)


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("trian") == 1
    assert "There is no command 'trian' (did you mean 'train'?)" in capsys.readouterr().err


def test_person_names(small_registry: None, monkeypatch: pytest.MonkeyPatch,
                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["/some/where/nnet3py-copy", "a", "b"])
    with pytest.raises(SystemExit) as caught:
        run_person_name()
    assert caught.value.code == 0 and capsys.readouterr().out == "copied a b\n"


def test_version_names_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    out = capsys.readouterr().out
    for word in ("nnet3py ", "Python ", "numba ", "numpy ", "machine code: ", "kernels: ", "BLAS: ", "threads: ",
                 "device: "):
        assert word in out


def test_bin_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("bin-path") == 0
    folder = capsys.readouterr().out.strip()
    assert folder.endswith(("/bin", "/launchers"))
