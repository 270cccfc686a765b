"""Where the package is used: worker processes of every kind, a running event loop, a notebook's kernel."""
from __future__ import annotations

import asyncio
import io
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from paths import TESTS
from process_faults import environment
from runtime_cases import TDNN
from worker_cases import compute_one, feats_of

from nnet3py.cli.main import load
from nnet3py.formats.holders import FLOAT_MATRIX, read_matrices
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet

LONGEST_S = 120.0

POOL = """
import sys
from multiprocessing import get_context
sys.path.insert(0, sys.argv[2])
import numpy as np
from worker_cases import compute_one

if __name__ == "__main__":
    before = [compute_one(number).tobytes() for number in range(4)]      # so that a forked child inherits much
    with get_context(sys.argv[1]).Pool(2) as pool:
        found = [one.tobytes() for one in pool.map(compute_one, range(4), chunksize=1)]
    assert found == before == [compute_one(number).tobytes() for number in range(4)]
    print("the same")
"""


@pytest.fixture
def folder(here: Path) -> Path:
    """The current folder, with a network and features."""
    Nnet.from_config(TDNN).write("nnet.raw")
    write_table("ark:feats.ark", FLOAT_MATRIX, {"u": feats_of(0)})
    return here


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_worker_processes(tmp_path: Path, method: str) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    done = subprocess.run([sys.executable, str(script), method, str(TESTS)], capture_output=True, text=True,
                          timeout=LONGEST_S, env=environment())
    assert done.stdout == "the same\n", done.stderr


def test_a_running_event_loop() -> None:
    """In it, and in threads that it waits for."""
    async def body() -> list[np.ndarray]:
        loop = asyncio.get_running_loop()
        others = [loop.run_in_executor(None, compute_one, number) for number in (1, 2)]
        return [compute_one(0), *await asyncio.gather(*others)]

    for number, found in enumerate(asyncio.run(body())):
        np.testing.assert_array_equal(found, compute_one(number))


class OutStream(io.TextIOBase):
    """As a notebook's standard output and error are: text only, and no file."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


def execute(monkeypatch: pytest.MonkeyPatch, name: str, *words: str) -> tuple[int, str, str]:
    """Run a command where the standard streams are not files; its status, and what it wrote."""
    out, err = OutStream(), OutStream()
    with monkeypatch.context() as patch:
        for stream, replacement in (("stdout", out), ("stderr", err), ("stdin", io.StringIO())):
            patch.setattr(sys, stream, replacement)
        status = load(name).execute(list(words))
    return status, out.text, err.text


def test_commands_write_to_streams_that_are_no_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = execute(monkeypatch, "nnet3-compute", "nnet.raw", "ark:feats.ark", "ark:out.ark")
    assert status == 0 and [key for key, _ in read_matrices("ark:out.ark")] == ["u"]
    assert "Done 1 utterances" in err and err.startswith("nnet3-compute nnet.raw")
    status, out, _ = execute(monkeypatch, "nnet3-info", "nnet.raw")
    assert status == 0 and "component-node" in out
    status, _, err = execute(monkeypatch, "nnet3-compute", "nnet.raw", "ark:missing", "ark:out.ark")
    assert status == 255 and "ERROR (nnet3-compute" in err and "missing" in err


@pytest.mark.parametrize(("words", "message"), [
    (["ark:feats.ark", "ark:-"], "standard output cannot take bytes"),
    (["ark:-", "ark:out.ark"], "standard input is closed")])
def test_bytes_for_such_a_stream_are_a_clear_error(folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str],
                                                   message: str) -> None:
    status, _, err = execute(monkeypatch, "nnet3-compute", "nnet.raw", *words)
    assert status == 255 and message in err and "internal error" not in err and not Path("out.ark").exists()


def test_pipes_work_with_such_streams(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = execute(monkeypatch, "nnet3-compute", "nnet.raw", "ark:cat feats.ark |", "ark:| cat > out.ark")
    assert status == 0 and len(list(read_matrices("ark:out.ark"))) == 1, err


# what a notebook does: compute, train, run commands, start processes; %r are the folder of tests and the current one
CELLS = [
    "import sys, os; sys.path.insert(0, %r); os.chdir(%r)\n"
    "from worker_cases import compute_one\nprint(compute_one(0).shape)",
    "from nnet3py.cli.main import load\n"
    "print(load('nnet3-compute').execute(['nnet.raw', 'ark:feats.ark', 'ark:out.ark']))",
    "from multiprocessing import get_context\n"
    "with get_context('fork').Pool(2) as pool: print(len(pool.map(compute_one, range(4))))",
    "import asyncio; found = await asyncio.get_running_loop().run_in_executor(None, compute_one, 1)\n"
    "print(found.shape)",
]
EXPECTED = ["(30, 4)", "0", "4", "(31, 4)"]


def test_a_notebooks_kernel(folder: Path) -> None:
    """Which goes on after it was interrupted while it computed."""
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client.manager")
    kernel, client = manager.start_new_kernel(kernel_name="python3", env=environment(), startup_timeout=LONGEST_S)
    try:
        first, *others = CELLS
        for cell, expected in zip([first % (str(TESTS), str(folder)), *others], EXPECTED, strict=True):
            assert run_cell(client, cell).strip().splitlines()[-1:] == [expected]
        message = client.execute("print('begins')\nwhile True: compute_one(0)")
        assert read_until(client, message, "begins")
        kernel.interrupt_kernel()
        assert client.get_shell_msg(timeout=LONGEST_S)["content"]["ename"] == "KeyboardInterrupt"
        assert run_cell(client, "print(compute_one(0).shape)").strip() == "(30, 4)"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def run_cell(client, code: str) -> str:
    """What a cell prints to standard output."""
    found: list[str] = []

    def keep(message: dict) -> None:
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            found.append(content["text"])

    reply = client.execute_interactive(code, timeout=LONGEST_S, output_hook=keep)
    assert reply["content"]["status"] == "ok", reply["content"].get("traceback")
    return "".join(found)


def read_until(client, message: str, text: str) -> bool:
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        said = client.get_iopub_msg(timeout=LONGEST_S)
        if said["parent_header"].get("msg_id") == message and text in said["content"].get("text", ""):
            return True
    return False
