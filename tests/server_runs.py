"""nnet3py serve in a process of its own, for tests."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from paths import ROOT
from recognition_cases import CHUNK, PACKAGE


@contextmanager
def running(*options: str, model: str = str(PACKAGE)) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command in a process of its own, and its port."""
    process = subprocess.Popen([sys.executable, "-m", "nnet3py", "serve", "--port=0", *options,
                                f"--model-option=chunk-length={CHUNK}", model],
                               stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "Listening on http://127.0.0.1:" in line:
                break
            assert "ERROR" not in line, line
        yield process, int(line.split("http://127.0.0.1:")[1].split("/")[0])
    finally:
        process.kill()
        process.communicate()


def log_until(process: subprocess.Popen[str], what: str) -> str:
    """What the server logs up to a line with these words."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if what in line:
            return "".join(lines)
    raise AssertionError(f"the server ended: {lines}")
