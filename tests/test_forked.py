"""Commands in copies of a process: pipes give what a shell's give, and signals while a copy is made are not lost."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from paths import DATA, ROOT

from nnet3py import system
from nnet3py.cli.process import forked
from nnet3py.cli.process.forked import stages, start_own_pipeline
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import SequentialReader, write_table

EGS = DATA / "egs" / "compressed.ark"

pytestmark = pytest.mark.skipif(not system.CAN_FORK, reason="a process that has loaded libraries cannot be copied here")


@pytest.mark.parametrize(("command", "expected"), [
    ("nnet3-copy --scale=0.5 1.raw - ", [["nnet3-copy", "--scale=0.5", "1.raw", "-"]]),
    (" a  b|c\td | e", [["a", "b"], ["c", "d"], ["e"]]),
    ("""a 'b c' "d | e"f ''""", [["a", "b c", "d | ef", ""]]),
    ("a 'ark:b c |' \"it's\" x", [["a", "ark:b c |", "it's", "x"]]),
    ("a | | b", None), ("| a", None), ("a |", None), ("", None), ("a $b", None), ("a `b`", None), ("a > b", None),
    ("a; b", None), ("a && b", None), ('a "$b"', None), ("a \\\n b", None), ("a *.ark", None), ("a ~/b", None),
    ("a 'b", None), ("a # b", None), ("a (b)", None), ("a {b,c}", None), ("a [b]", None), ("a !b", None),
    ("a b\tc'd'\"e\"", [["a", "b", "cde"]])])
def test_stages(command: str, expected: list[list[str]] | None) -> None:
    assert stages(command) == expected


@pytest.mark.parametrize("words", ["a 'b c' \"d | e\"f ''", "a 'ark:b c |' \"it's\" x",
                                   "a b\tc'd'\"e\"  --x=%@+:,./^-_"])
def test_words_are_those_of_a_shell(words: str) -> None:
    shown = subprocess.run(["sh", "-c", f"printf '%s\\n' {words}"], capture_output=True, text=True, check=True)
    assert stages(words) == [shown.stdout.split("\n")[:-1]]


def run(folder: Path, *words: str, fork: str = "yes", **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of ours, by its launcher."""
    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}", "NNET3PY_FORK": fork,
                   "NNET3PY_PYTHON": sys.executable, **variables}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


PIPE = (f"ark:nnet3-copy-egs --srand=2 ark:{EGS} ark:- | nnet3-shuffle-egs --srand=3 ark:- ark:- | "
        "nnet3-merge-egs --minibatch-size=2 ark:- ark:- |")


@pytest.fixture
def no_shell(tmp_path: Path) -> dict[str, str]:
    """Variables under which a shell that is asked for cannot be started unnoticed: our launchers say that they ran."""
    folder = tmp_path / "counted"
    folder.mkdir()
    for name in ("nnet3-copy-egs", "nnet3-shuffle-egs", "nnet3-merge-egs"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} >> "{tmp_path}/launched"\nexec "{ROOT}/bin/{name}" "$@"\n')
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def test_the_same_output_and_log(tmp_path: Path) -> None:
    results = {fork: run(tmp_path, "nnet3-copy-egs", PIPE, f"ark:{fork}.ark", fork=fork) for fork in ("yes", "no")}
    for done in results.values():
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "yes.ark").read_bytes() == (tmp_path / "no.ark").read_bytes() != b""
    lines = {fork: sorted(line.replace(f"ark:{fork}.ark", "") for line in done.stderr.splitlines())
             for fork, done in results.items()}
    assert lines["yes"] == lines["no"]
    assert any(line.startswith("LOG (nnet3-merge-egs[5.5]:") for line in lines["yes"])


def test_launchers_of_others_are_started(tmp_path: Path, no_shell: dict[str, str]) -> None:
    done = run(tmp_path, "nnet3-copy-egs", PIPE, "ark:out.ark", **no_shell)
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "launched").read_text().split()) == [
        "nnet3-copy-egs", "nnet3-copy-egs", "nnet3-merge-egs", "nnet3-shuffle-egs"]      # the first is this test's own


def test_no_launcher_is_started_for_our_own(tmp_path: Path) -> None:
    """Without a shell on PATH nothing but a copy can have run them."""
    program = ("import sys; sys.path.insert(0, sys.argv.pop(1)); import subprocess\n"
               "def refuse(*args, **options): raise AssertionError(args)\n"
               "subprocess.Popen = refuse\n"
               "from nnet3py.cli.main import run; run('nnet3-copy-egs')")
    done = run(tmp_path, sys.executable, "-c", program, str(ROOT), PIPE, "ark:out.ark")
    assert done.returncode == 0, done.stderr
    refused = run(tmp_path, sys.executable, "-c", program, str(ROOT), PIPE, "ark:out.ark", fork="no")
    assert refused.returncode == 255 and "AssertionError" in refused.stderr


@pytest.mark.parametrize("fork", ["yes", "no"])
def test_failures(fork: str, tmp_path: Path) -> None:
    bad = run(tmp_path, "nnet3-copy-egs", "ark:nnet3-copy-egs ark:missing.ark ark:- |", "ark:out.ark", fork=fork)
    assert bad.returncode == 255
    assert "cannot open 'missing.ark' for reading" in bad.stderr and "had nonzero return status 255" in bad.stderr
    assert not (tmp_path / "out.ark").exists() and not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize("fork", ["yes", "no"])
def test_a_reader_that_has_enough_is_no_failure(fork: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    write_table(f"ark:{tmp_path / 'feats.ark'}", FLOAT_MATRIX,
                ((f"utt{number:02}", rng.normal(size=(200, 40)).astype(np.float32)) for number in range(60)))
    done = run(tmp_path, "feat-to-dim", "ark:copy-feats ark:feats.ark ark:- |", "-", fork=fork)
    assert (done.returncode, done.stdout.strip()) == (0, "40"), done.stderr
    assert "return status" not in done.stderr


@pytest.mark.parametrize("fork", ["yes", "no"])
def test_pipes_that_are_written_to(fork: str, tmp_path: Path) -> None:
    write_table(f"ark:{tmp_path / 'feats.ark'}", FLOAT_MATRIX, {"a": np.ones((3, 2), np.float32)})
    done = run(tmp_path, "copy-feats", "ark:feats.ark",
               "ark:| copy-feats ark:- ark:- | copy-feats --compress=false ark:- ark,t:twice.ark", fork=fork)
    assert done.returncode == 0, done.stderr
    with SequentialReader(f"ark,t:{tmp_path / 'twice.ark'}", FLOAT_MATRIX) as reader:
        assert [(key, matrix.tolist()) for key, matrix in reader] == [("a", [[1.0, 1.0]] * 3)]
    assert done.stderr.count("LOG (copy-feats[5.5]") == 3


def test_what_is_left_to_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert forked._is_ours("copy-feats") and not forked._is_ours("cat")
    assert start_own_pipeline("cat x", reads=True) is None
    monkeypatch.setattr(system, "CAN_FORK", False)
    assert start_own_pipeline("copy-feats ark:x ark:-", reads=True) is None


def test_without_memory_for_a_copy_a_shell_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only the second copy fails: the first one, whose reader is gone then, has ended."""
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(forked, "_may_fork", lambda: True)
    started: list[int] = []
    fork = forked.fork

    def fork_once(*args: object) -> int:
        if started:
            raise OSError(12, "Cannot allocate memory")
        started.append(fork(*args))        # type: ignore[arg-type]
        return started[0]

    monkeypatch.setattr(forked, "fork", fork_once)
    open_before = len(os.listdir("/dev/fd"))
    assert start_own_pipeline(f"nnet3-copy-egs ark:{EGS} ark:- | nnet3-copy-egs ark:- ark:-", reads=True) is None
    assert len(os.listdir("/dev/fd")) == open_before and len(started) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(started[0], 0)          # it was waited for
    assert start_own_pipeline("nnet3-copy-egs ark:x ark:-", reads=True) is None


def test_no_copy_is_made_while_another_thread_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNET3PY_FORK", "yes")
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])
    monkeypatch.delitem(sys.modules, "numba.cuda", raising=False)
    assert forked._may_fork()
    team = threading.Thread(name="nnet3py-0")
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), team])
    assert forked._may_fork()
    other = threading.Thread(name="nnet3py read-ahead")
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), team, other])
    assert not forked._may_fork()
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    assert not forked._may_fork()


# A signal arrives in the functions that Python calls around a fork: in the copy, or in the process that makes it.
PROGRAM = r"""
import os, signal, sys
from nnet3py.cli.process.forked import fork

signal.signal(signal.SIGINT, signal.default_int_handler)
where, number = sys.argv[1], getattr(signal, sys.argv[2])
os.register_at_fork(**{where: lambda: os.kill(os.getpid(), number)})
process = 0
try:
    process = fork(lambda: os.write(1, b"runs\n") and 3, (None, None, None))
    os.write(1, b"goes on\n")              # at once: both processes write
except KeyboardInterrupt:
    os.write(1, b"interrupted\n")
print(os.waitstatus_to_exitcode(os.wait()[1]), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


@pytest.mark.parametrize(("where", "number", "said"), [
    ("after_in_child", "SIGINT", "goes on\n130 set()\n"),
    ("after_in_child", "SIGTERM", "goes on\n-15 set()\n"),
    ("after_in_child", "SIGCONT", "goes on\nruns\n3 set()\n"),
    ("after_in_parent", "SIGINT", "interrupted\nruns\n3 set()\n"),
])
def test_what_ends_a_process_waits_until_it_is_copied(where: str, number: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, where, number], capture_output=True, text=True)
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == sorted(said.splitlines())


def test_a_copy_that_is_interrupted_says_so() -> None:
    program = PROGRAM.replace(r'os.write(1, b"runs\n") and 3', "os.kill(os.getpid(), signal.SIGINT) or 3")
    done = subprocess.run([sys.executable, "-c", program, "before", "SIGCONT"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("goes on\n130 set()\n", "")
