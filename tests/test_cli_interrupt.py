"""Ctrl-C at any moment of a command, from its first: nothing is said that a user cannot understand."""
from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from process_faults import environment

ROUNDS = 12
STATUSES = (0, 130, -signal.SIGINT)
BEFORE_THE_FIRST_LINE = 'Traceback (most recent call last):\n  File "<string>", line 0, in <module>\nKeyboardInterrupt'


def is_pythons_own(err: str) -> bool:
    """Whether the interpreter ended while it set itself up (paths, .pth files), before the launcher's first line.

    What it does before the first line of a program it numbers 0. Or whether the signal came in the callback by which it
    gives back the lock of an import: there it is lost, whoever imports.
    """
    return err.startswith(("Fatal Python error: init_", BEFORE_THE_FIRST_LINE)) or (
        "Exception ignored in: <function _get_module_lock" in err)


@pytest.mark.parametrize("ignored", [False, True])
def test_from_its_first_moment(tmp_path: Path, ignored: bool) -> None:
    """Also while Python starts and modules are imported; a shell has those in the background ignore it."""
    words = ["nnet3-compute", "missing.raw", "ark:missing", "ark:out"]
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL

    def run(seconds: float) -> tuple[int, str, float]:
        begun = time.monotonic()
        process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment(),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, handler))
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        return process.wait(60), process.communicate()[1], time.monotonic() - begun

    _, _, seconds = run(60)
    for number in range(ROUNDS):
        status, err, _ = run(seconds * (number + 0.5) / ROUNDS)
        while is_pythons_own(err):              # a few milliseconds, a moment later is another
            seconds *= 1.01
            status, err, _ = run(seconds * (number + 0.5) / ROUNDS)
        assert "Traceback" not in err and "Exception ignored" not in err, err
        assert status == 255 or (status in STATUSES and not ignored)
