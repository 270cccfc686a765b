"""A process may fork whatever its threads are doing: the child computes as if it had been started afresh."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

PATIENCE_S = 20            # far more than a child needs that does not hang
NUM_FORKS = 12

# `ended(child)` is its exit status; a child that hangs is ended by its alarm
COMMON = f"""
import os, signal, sys, threading, time
def forked(body):
    child = os.fork()
    if child == 0:
        signal.alarm({PATIENCE_S})
        try:
            body()
            os._exit(0)
        except BaseException as error:
            print("child:", repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return child
def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

WHILE_COMPUTING = COMMON + """
import numpy as np
import nnet3py
from nnet3py.engine.threads import set_num_threads
sys.path.insert(0, sys.argv[1])
from runtime_cases import TDNN
set_num_threads(2)
nnet = nnet3py.Nnet.from_config(TDNN)
feats = np.random.default_rng(0).standard_normal((50, 3), dtype=np.float32)
expected, stop = nnet3py.compute(nnet, feats), threading.Event()

def compute():
    assert np.array_equal(nnet3py.compute(nnet, feats), expected)

def compute_on():
    while not stop.is_set():
        other = nnet3py.Nnet.from_config(TDNN)          # compiled anew each time, too
        nnet3py.compute(other, feats)

threads = [threading.Thread(target=compute_on) for _ in range(2)]
for thread in threads:
    thread.start()
statuses = []
for number in range(int(sys.argv[2])):
    time.sleep(0.003 * number)
    statuses.append(ended(forked(compute)))
stop.set()
for thread in threads:
    thread.join()
print(set(statuses))
"""

# a thread makes a kernel that takes long, holding what all need who make or load one
WHILE_COMPILING = COMMON + """
from pathlib import Path
import numpy as np
from nnet3py.engine import code_files
from nnet3py.engine.kernel_code import Code
from nnet3py.engine.kernel_code import Key
from nnet3py.ops import get_ops
began = threading.Event()
code_files.keep = lambda path, code: None         # else the next run would find it

def compile_slowly():
    began.set()
    time.sleep(0.5)
    return Code("symbol", (), (), (), b"")

def make():
    with code_files.lock:
        code_files.find_or_make(Key(Path(sys.argv[1]) / "slow.py", "slow", frozenset()), compile_slowly)

def use_another():
    matrix = np.zeros((1, 3), np.float32)
    get_ops("cpu").set_const(matrix, 2.0)
    assert matrix.sum() == 6.0
    from nnet3py.formats.compressed_code import LOOPS
    LOOPS[0].prepare()

thread = threading.Thread(target=make)
thread.start()
began.wait()
print({ended(forked(use_another))})
thread.join()
use_another()
"""

# a thread is starting the team's workers
WHILE_THREADS_START = COMMON + """
from nnet3py.engine import team
from nnet3py.engine.threads import set_num_threads
with team._lock:
    print({ended(forked(lambda: set_num_threads(2)))})
set_num_threads(2)
"""

# a thread is choosing a GPU
WHILE_A_GPU_IS_CHOSEN = COMMON + """
from nnet3py.ops import device
with device._selecting:
    print({ended(forked(lambda: device._selecting.acquire()))})
"""

WHILE_WRITING = COMMON + """
from nnet3py.io.streams import open_output
with open_output(sys.argv[1]) as stream:
    stream.write(b"first ")
    stream.flush()
    child = os.fork()
    if child == 0:
        sys.exit(3)                # leaves the block, too
    assert ended(child) == 3
    stream.write(b"second")
print({0})
"""


def run(program: str, *words: object) -> str:
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, words)], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.PIPE, start_new_session=True,
                               env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        out, err = process.communicate(timeout=5 * PATIENCE_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, err
    return out.strip()


def test_while_others_compute() -> None:
    assert run(WHILE_COMPUTING, Path(__file__).parent, NUM_FORKS) == "{0}"


@pytest.mark.slow
def test_while_others_compute_often() -> None:
    start = time.monotonic()
    while time.monotonic() - start < 60.0:
        assert run(WHILE_COMPUTING, Path(__file__).parent, 10 * NUM_FORKS) == "{0}"


def test_while_a_kernel_is_made(tmp_path: Path) -> None:
    assert run(WHILE_COMPILING, tmp_path) == "{0}"


def test_while_threads_start() -> None:
    assert run(WHILE_THREADS_START) == "{0}"


def test_while_a_gpu_is_chosen() -> None:
    assert run(WHILE_A_GPU_IS_CHOSEN) == "{0}"


def test_while_a_file_is_written(tmp_path: Path) -> None:
    """The child neither finishes nor removes what its parent writes."""
    path = tmp_path / "out"
    assert run(WHILE_WRITING, path) == "{0}"
    assert path.read_bytes() == b"first second" and os.listdir(tmp_path) == ["out"]
