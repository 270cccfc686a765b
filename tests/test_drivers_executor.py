"""Jobs of the drivers: logs, failures, slots, shared cores, ends."""
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnet3py.drivers.executor import Job, JobsFailed, describe_status, launcher_folder, log_footer, log_header
from nnet3py.drivers.executors import CommandExecutor, LocalExecutor, make_executor, parse_command
from nnet3py.engine import threads as threads_module
from nnet3py.errors import Nnet3Error, UsageError

PATIENCE = 20.0        # seconds: a busy machine is not a failure
SOON = 5.0             # seconds in which something long must have ended early

DATE = r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \S+ \d{4}"


def read(path: Path) -> str:
    return path.read_text()


def own_lines(path: Path) -> list[str]:
    return [line for line in read(path).splitlines() if not line.startswith("#")]


def wait_for(condition, seconds: float = PATIENCE):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"nothing happened in {seconds} seconds")


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    if Path("/proc").is_dir():
        try:
            return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False
    return True


# -- logs ------------------------------------------------------------------------------------------------------------


def test_log_begins_and_ends_as_kaldis(tmp_path):
    log = tmp_path / "new" / "train.0.1.log"
    with make_executor() as executor:
        executor.run([Job("echo to stdout\necho to stderr >&2", log)])
    expected = (rf"# Running on \S+\n# Started at {DATE}\n# echo to stdout\n# echo to stderr >&2\n"
                r"to stdout\nto stderr\n"
                rf"# Accounting: time=(\d+) threads=\d+\n# Ended \(code 0\) at {DATE}, elapsed time \1 seconds\n")
    assert re.fullmatch(expected, read(log))


def test_header_and_footer():
    assert log_header("a b").splitlines()[2] == "# a b"
    assert log_footer(-9, 1.6, 4).startswith("# Accounting: time=2 threads=4\n# Ended (code 0; signal 9) at ")
    assert "(code 3)" in log_footer(3, 0.1, 1)


@pytest.mark.parametrize("status, text", [(1, "exit status 1"), (-9, "killed by SIGKILL"), (143, "killed by SIGTERM"),
                                          (127, "exit status 127"), (255, "exit status 255")])
def test_describe_status(status, text):
    assert describe_status(status) == text


def test_log_of_an_earlier_run_is_replaced(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("old\n")
    with make_executor() as executor:
        executor.run([Job("true", log)])
    assert "old" not in read(log)


# -- what a job sees -------------------------------------------------------------------------------------------------


def test_job_runs_in_our_folder_with_our_launchers(here):
    with make_executor() as executor:
        executor.run([Job("pwd; command -v nnet3-info; echo $NNET3PY_PYTHON; cat; echo $BASH_VERSION", Path("a.log"))])
    folder, program, python, bash = own_lines(here / "a.log")
    assert folder == str(here.resolve())
    assert program == str(launcher_folder() / "nnet3-info")
    assert python == os.environ.get("NNET3PY_PYTHON", sys.executable)
    assert bash


def test_odd_characters_in_a_command(tmp_path):
    command = """printf '%s\\n' "it's" 'a"b' '$HOME' "`echo x`" \\\\ 'ü'"""
    with make_executor() as executor:
        executor.run([Job(command, tmp_path / "odd name.log")])
    assert own_lines(tmp_path / "odd name.log") == ["it's", 'a"b', "$HOME", "x", "\\", "ü"]


# -- failures --------------------------------------------------------------------------------------------------------


def test_failure_shows_the_end_of_the_first_log(tmp_path):
    jobs = [Job("true", tmp_path / "1.log"),
            Job("for n in $(seq 30); do echo line $n; done; false | cat", tmp_path / "2.log"),
            Job("exit 3", tmp_path / "3.log"), Job("echo done", tmp_path / "4.log")]
    with make_executor() as executor, pytest.raises(JobsFailed) as failed:
        executor.run(jobs)
    assert str(failed.value).startswith(f"2 of 4 jobs failed (exit status 1); the log {tmp_path}/2.log ends with:\n")
    assert failed.value.tail == [f"line {n}" for n in range(21, 31)]
    assert [one.job for one in failed.value.failures] == jobs[1:3]
    assert [one.reason for one in failed.value.failures] == ["exit status 1", "exit status 3"]
    assert own_lines(jobs[3].log) == ["done"], "the others are run all the same"


def test_failures_of_other_kinds(tmp_path):
    (tmp_path / "file").write_text("")
    with make_executor() as executor:
        with pytest.raises(JobsFailed, match=r"A job failed \(killed by SIGKILL\).* holds nothing else"):
            executor.run([Job("kill -9 $$", tmp_path / "1.log")])
        with pytest.raises(JobsFailed, match="NotADirectoryError|FileExistsError"):
            executor.run([Job("true", tmp_path / "file" / "1.log")])
        with pytest.raises(JobsFailed, match="(?s)exit status 127.*no-such-program"):
            executor.run([Job("no-such-program", tmp_path / "2.log")])


def test_nothing_to_do():
    with make_executor() as executor:
        executor.run([])
        executor.start([]).wait()


def test_background_jobs(tmp_path):
    with make_executor() as executor:
        started = executor.start([Job(f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 1", tmp_path / "1.log")])
        executor.run([Job(f"touch {tmp_path}/go", tmp_path / "2.log")])
        with pytest.raises(JobsFailed, match="1.log"):
            started.wait()
        assert started.finished


def test_closed_executor(tmp_path):
    executor = make_executor()
    executor.close()
    with pytest.raises(JobsFailed, match="closed"):
        executor.run([Job("true", tmp_path / "1.log")])


# -- slots and cores -------------------------------------------------------------------------------------------------


def most_at_once(executor, folder: Path, count: int, method: str) -> int:
    folder.mkdir()
    job = f"touch {folder}/$$; ls {folder} | wc -l; sleep 0.15; rm {folder}/$$"
    jobs = [Job(job, folder.parent / f"{folder.name}.{number}.log") for number in range(count)]
    if method == "run":
        executor.run(jobs)
    else:
        executor.start(jobs).wait()
    return max(int(own_lines(one.log)[0]) for one in jobs)


@pytest.mark.parametrize("method", ["run", "start"])
def test_no_more_jobs_than_slots(tmp_path, method):
    with make_executor(slots=2) as executor:
        assert most_at_once(executor, tmp_path / "a", 5, method) == 2
    with make_executor("run.pl --max-jobs-run 1") as executor:
        assert most_at_once(executor, tmp_path / "b", 3, method) == 1


def told_threads(executor, tmp_path, count: int) -> set[str]:
    jobs = [Job("echo $NNET3PY_NUM_THREADS $OPENBLAS_NUM_THREADS", tmp_path / f"t.{n}.log") for n in range(count)]
    executor.run(jobs)
    return {own_lines(one.log)[0] for one in jobs}


@pytest.mark.parametrize("count, threads", [(1, 8), (2, 4), (3, 2), (8, 1), (9, 1)])
def test_jobs_share_the_cores(tmp_path, count, threads):
    with LocalExecutor(cores=8) as executor:
        assert told_threads(executor, tmp_path, count) == {f"{threads} {threads}"}


def test_slots_leave_more_threads_to_each(tmp_path):
    with LocalExecutor(slots=2, cores=8) as executor:
        assert told_threads(executor, tmp_path, 5) == {"4 4"}


def test_threads_by_option(tmp_path):
    with make_executor("run.pl --num-threads 3 --mem 2G") as executor:
        assert told_threads(executor, tmp_path, 2) == {"3 3"}
    assert "threads=3" in read(tmp_path / "t.0.log")


def test_background_gets_what_is_left():
    executor = LocalExecutor(cores=8)
    assert executor.background_threads(2) == 1, "nothing ran yet: the next run may take all"
    assert executor.share_threads(3) == 2
    assert executor.background_threads(1) == 2
    assert executor.background_threads(2) == 1
    assert executor.share_threads(8) == 1
    assert executor.background_threads(2) == 1
    executor.close()


def test_threads_bind_a_command_and_its_pipes(tmp_path):
    program = ("import threadpoolctl, nnet3py.ops as o; o.get_ops('cpu'); from nnet3py.engine import team; "
               "print(team.size(), max(l['num_threads'] for l in threadpoolctl.threadpool_info()"
               " if l['user_api'] == 'blas'))")
    with LocalExecutor(cores=2) as executor:
        jobs = [Job(f'echo | {sys.executable} -c "{program}"; nnet3py --version | grep threads', tmp_path / f"{n}.log")
                for n in (1, 2)]
        executor.run(jobs)
    assert own_lines(jobs[0].log) == ["1 1", "threads: 1"]


def test_variable_is_weaker_than_the_option(monkeypatch):
    monkeypatch.setattr(threads_module, "_chosen", None)       # another test may have chosen
    monkeypatch.setenv("NNET3PY_NUM_THREADS", "3")
    assert threads_module.num_threads() == 3
    monkeypatch.setattr(threads_module, "_chosen", 1)
    assert threads_module.num_threads() == 1
    monkeypatch.setattr(threads_module, "_chosen", None)
    monkeypatch.setenv("NNET3PY_NUM_THREADS", "0")
    assert threads_module.num_threads() == threads_module.available_cores()
    monkeypatch.setenv("NNET3PY_NUM_THREADS", "two")
    with pytest.raises(UsageError, match="NNET3PY_NUM_THREADS=two"):
        threads_module.num_threads()


def test_variable_binds_commands_without_kernels():
    program = ("from nnet3py.cli.process.run import run_process; import os\n"
               "def body():\n    import threadpoolctl, numpy\n"
               "    print({l['num_threads'] for l in threadpoolctl.threadpool_info()})\n    return 0\n"
               "run_process(body)")
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", program], env={**clean, "NNET3PY_NUM_THREADS": "1"},
                          capture_output=True, text=True, check=True)
    assert done.stdout == "{1}\n"
    done = subprocess.run([str(launcher_folder() / "copy-feats"), "ark:/dev/null", "ark:/dev/null"],
                          env={**clean, "NNET3PY_NUM_THREADS": "many"}, capture_output=True, text=True)
    assert done.returncode == 255
    assert "NNET3PY_NUM_THREADS=many: expected a positive number" in done.stderr


# -- ends ------------------------------------------------------------------------------------------------------------

DRIVER = """
import sys
from pathlib import Path
from nnet3py.cli.process.run import run_process
from nnet3py.drivers.executors import make_executor
from nnet3py.drivers.executor import Job
folder = Path(sys.argv[1])
def body():
    with make_executor(**eval(sys.argv[2])) as executor:
        executor.start([Job(f"echo $$ > {folder}/new; mv {folder}/new {folder}/back; sleep 100 | cat",
                            folder / "1.log")])
        executor.run([Job(f"trap 'echo ended; exit' TERM; echo $$ > {folder}/new2; mv {folder}/new2 {folder}/fore; "
                          "sleep 100 & wait", folder / "2.log")])
if __name__ == "__main__":
    run_process(body)
"""


def start_driver(folder: Path, **options) -> tuple[subprocess.Popen, list[int]]:
    script = folder / "driver.py"
    script.write_text(DRIVER)
    driver = subprocess.Popen([sys.executable, str(script), str(folder), repr(options)], stderr=subprocess.DEVNULL,
                              start_new_session=True)
    return driver, [int(wait_for(lambda name=name: (folder / name).exists() and read(folder / name)))
                    for name in ("back", "fore")]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_jobs_end_with_the_driver(tmp_path, number):
    driver, jobs = start_driver(tmp_path)
    start = time.monotonic()
    os.killpg(driver.pid, number)          # as a terminal does
    driver.wait()
    wait_for(lambda: not any(map(is_alive, jobs)))
    assert time.monotonic() - start < SOON
    assert driver.returncode == (130 if number == signal.SIGINT else -number)
    wait_for(lambda: own_lines(tmp_path / "2.log") == ["ended"])


def test_jobs_that_do_not_want_to_end_are_killed(tmp_path):
    log, ready = tmp_path / "1.log", tmp_path / "ready"
    executor = make_executor()
    executor.start([Job(f"trap '' TERM; echo $$ > {ready}; while true; do sleep 0.1; done", log)])
    process = int(wait_for(lambda: ready.exists() and read(ready)))
    executor.close()
    wait_for(lambda: not is_alive(process))


def test_close_ends_what_runs(tmp_path):
    ready = tmp_path / "ready"
    with make_executor() as executor:
        started = executor.start([Job(f"echo $$ > {ready}; sleep 100", tmp_path / "1.log")])
        process = int(wait_for(lambda: ready.exists() and read(ready)))
    assert not is_alive(process)
    with pytest.raises(JobsFailed, match="SIGTERM"):
        started.wait()


# -- other commands --------------------------------------------------------------------------------------------------

QUEUE = """#!/usr/bin/env bash
# usage: queue.pl -l OPTS LOG COMMAND...; puts its arguments together as Kaldi's does
[ "$1" = -l ] || exit 9
shift 2
log=$1; shift
(echo "# by the queue"; cd /; env -u NNET3PY_PYTHON PATH=/usr/bin:/bin bash -c "$*"; echo "# status $?") > $log 2>&1
grep -q "# status 0" $log || { echo "queue.pl: job failed, log is in $log" >&2; exit 1; }
"""


@pytest.fixture
def queue(here, monkeypatch):
    program = here / "programs" / "queue.pl"
    program.parent.mkdir()
    program.write_text(QUEUE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return "queue.pl -l 'mem_free=4G,ram_free=4G'"


def test_queue_command(tmp_path, queue):
    with make_executor(queue) as executor:
        assert isinstance(executor, CommandExecutor)
        executor.run([Job("""pwd; command -v nnet3-info; echo "it's" '$x' $NNET3PY_NUM_THREADS""", Path("log/a.log")),
                      Job("echo b", Path("log/b.log"))])
    assert own_lines(tmp_path / "log" / "a.log") == [str(tmp_path), str(launcher_folder() / "nnet3-info"), "it's $x 1"]
    assert own_lines(tmp_path / "log" / "b.log") == ["b"]


def test_queue_command_that_fails(queue):
    with make_executor(queue) as executor, pytest.raises(JobsFailed) as failed:
        executor.run([Job("echo why; false | cat", Path("log/a.log"))])
    assert failed.value.tail == ["why"]
    assert failed.value.failures[0].reason == "queue.pl: exit status 1: queue.pl: job failed, log is in log/a.log"


def test_parse_command():
    assert parse_command("/kaldi/utils/run.pl --max-jobs-run 3").is_local
    parsed = parse_command('queue.pl -V -l "a=1 b=2" --num-threads 4')
    assert (parsed.words[3], parsed.threads, parsed.max_jobs, parsed.is_local) == ("a=1 b=2", 4, None, False)


@pytest.mark.parametrize("text, message", [
    ("", "empty"), ("run.pl x", "expected an option, found 'x'"), ("run.pl --mem", "--mem has no value"),
    ("run.pl --max-jobs-run 0", "not a positive number"), ("run.pl '", "No closing quotation"),
    ("no-such-queue.pl", "no program 'no-such-queue.pl'")])
def test_unusable_commands(text, message):
    with pytest.raises(UsageError, match=message):
        make_executor(text)


def test_unusable_slots():
    with pytest.raises(Nnet3Error, match="expected at least one"):
        make_executor(slots=-1)
