"""nnet3py resident: commands are run by copies of one process, as if each had been started by itself."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import DATA, ROOT

from nnet3py import system
from nnet3py.cli.machine.installation import resident
from nnet3py.cli.process.options import program_apart
from nnet3py.cli.process.resident_server import read_when_loaded

pytestmark = pytest.mark.skipif(not (system.TELLS_OF_PROCESSES and system.CAN_FORK),
                                reason="nnet3py resident is for Linux")

MODEL = DATA / "cases" / "affine" / "nnet.raw"
PATIENCE = 60.0                # seconds; of a busy machine
SHOWN = "commands were run by copies of this process, "


def words_of(script: str, *options: str) -> list[str]:
    return [str(ROOT / "bin" / "nnet3py"), "resident", "--verbose=1", *options, "bash", "-c", script]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NNET3PY_RESIDENT"}
    return {**kept, "PATH": f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}", "NNET3PY_PYTHON": sys.executable,
            "MODEL": str(MODEL), **variables}


def run(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words_of(script), cwd=folder, env=environment(**variables), capture_output=True, text=True,
                          timeout=PATIENCE, stdin=subprocess.DEVNULL)


def test_the_same_as_without(tmp_path: Path) -> None:
    """Streams, folder, environment, umask, limits, pipes and statuses are the caller's."""
    script = """
nnet3-info $MODEL
mkdir sub; cd sub
umask 077
nnet3-copy --binary=false $MODEL - | tee piped.raw | nnet3-info -
nnet3-copy $MODEL copied.raw; stat -c %a copied.raw
nnet3-copy missing.raw x.raw 2> errors; echo status $?; tail -1 errors
nnet3-copy --nonsense 2>> errors; echo status $?
(ulimit -f 0; nnet3-copy $MODEL big.raw 2> full; echo status $?)
LC_ALL=C nnet3-info $MODEL | head -1
nnet3py version 2>&1 | head -0
exit 3"""
    plain = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True,
                           timeout=PATIENCE, stdin=subprocess.DEVNULL)
    first = {path.name: path.read_bytes() for path in (tmp_path / "sub").glob("*.raw")}
    subprocess.run(["rm", "-r", tmp_path / "sub"], check=True)
    done = run(tmp_path, script)
    assert done.returncode == plain.returncode == 3
    assert done.stdout == plain.stdout and "600\n" in done.stdout and "status 255" in done.stdout
    assert {path.name: path.read_bytes() for path in (tmp_path / "sub").glob("*.raw")} == first
    assert f"{SHOWN}0 by their own" in done.stderr


def test_callers_who_differ_run_by_themselves(tmp_path: Path) -> None:
    done = run(tmp_path, "NUMBA_DISABLE_JIT=1 nnet3-info $MODEL > 1; nnet3-info $MODEL > 2; "
                         "nnet3-info $MODEL > 3 <&-; cmp 1 2 && cmp 1 3")
    assert done.returncode == 0, done.stderr
    assert f"1 {SHOWN}1 by their own" in done.stderr      # a closed stream cannot be handed on
    assert read_when_loaded({b"NUMBA_CPU": b"1", b"NNET3PY_NUM_THREADS": b"2", b"OTHER": b""}) == {b"NUMBA_CPU": b"1"}


def test_limits_and_ignored_signals_of_the_caller(tmp_path: Path) -> None:
    """What a command starts by a pipe has inherited them from the copy that runs it."""
    done = run(tmp_path, """
(ulimit -S -n 77; nnet3-info 'ulimit -S -n; cat $MODEL |' 2> /dev/null) > wrong
(ulimit -S -n 77; umask 027; trap "" HUP
 nice -n 3 nnet3-info '(ulimit -S -n; umask; nice; sh -c "kill -HUP \\$\\$; echo alive") > shown; cat $MODEL |' > right)
cat shown""")
    assert done.stdout.split() == ["77", "0027", "3", "alive"], done.stderr
    assert "num-parameters" in (tmp_path / "right").read_text()
    assert done.stderr.count("ERROR") == 0 and f"2 {SHOWN}0 by" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_ends_with_its_caller(number: signal.Signals, tmp_path: Path) -> None:
    """The caller, that is the launcher's process, is sent a signal: what it ended with is what a shell is told."""
    done = run(tmp_path, f"""
nnet3-copy 'echo $PPID > command; cat wait |' x.raw & caller=$!
mkfifo wait
until [ -s command ]; do sleep 0.02; done
[ $(cat command) != $caller ] || echo not resident
kill -{number.value} $caller
wait $caller; echo status $?
for i in $(seq 100); do kill -0 $(cat command) 2> /dev/null || break; sleep 0.05; done
kill -0 $(cat command) 2> /dev/null && echo alive
: > wait & sleep 0.1; kill %2 2> /dev/null; exit 0""")
    assert done.stdout.splitlines() == [f"status {128 + number}"], done.stdout + done.stderr


def test_the_socket_is_private_and_goes_with_the_command(tmp_path: Path) -> None:
    done = run(tmp_path, "echo $NNET3PY_RESIDENT; stat -c %a $(dirname $NNET3PY_RESIDENT)")
    socket_path, mode = done.stdout.splitlines()
    assert mode == "700" and not os.path.exists(os.path.dirname(socket_path))
    late = subprocess.run([ROOT / "bin" / "nnet3-info", MODEL], env=environment(NNET3PY_RESIDENT=socket_path),
                          capture_output=True, text=True, timeout=PATIENCE)
    assert late.returncode == 0 and "num-parameters" in late.stdout     # the launcher goes on without


def test_no_such_program_and_signals(tmp_path: Path) -> None:
    done = subprocess.run([ROOT / "bin" / "nnet3py", "resident", "no-such-program", "--help"], env=environment(),
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 255 and "there is no program 'no-such-program'" in done.stderr
    process = subprocess.Popen(words_of("trap 'echo ended; exit 5' TERM; echo ready; while :; do sleep 0.05; done"),
                               env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE)[0] == "ended\n" and process.returncode == 5


def test_elsewhere_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(system, "TELLS_OF_PROCESSES", False)
    assert resident.execute(["true"]) == 255
    assert "nnet3py resident needs Linux" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "expected"), [
    (["a", "--config=b"], ["--", "a", "--config=b"]),
    (["--verbose=1", "a", "--help"], ["--verbose=1", "--", "a", "--help"]),
    (["--", "a"], ["--", "a"]), (["--help"], ["--help", "--"]), ([], ["--"])])
def test_options_of_the_program_are_its_own(words: list[str], expected: list[str]) -> None:
    assert program_apart(words) == expected
