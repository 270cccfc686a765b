"""Commands in copies of a process: what interrupts one while it is made is neither lost nor shown as a fault."""
from __future__ import annotations

import subprocess
import sys

import pytest

from nnet3py import system

pytestmark = pytest.mark.skipif(not system.CAN_FORK, reason="processes with libraries are not copied on this system")

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
