"""Run a command of the package as on a system that lacks what only POSIX has: ``python without_posix.py COMMAND ...``.

Modules and attributes that Windows' Python does not have are taken away before the package is imported. The standard
library's own modules are imported first, for here they are POSIX's, and stay so.
"""
from __future__ import annotations

import ctypes  # noqa: F401 - imported before names are taken away, as those below
import importlib.abc
import logging.handlers  # noqa: F401
import multiprocessing.util  # noqa: F401
import os
import pathlib
import platform  # noqa: F401
import random  # noqa: F401
import shutil  # noqa: F401
import signal
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import threading  # noqa: F401

MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty")
OS_NAMES = ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "chown", "fchmod", "fork", "forkpty", "getegid", "geteuid",
            "getgid", "getloadavg", "getpgid", "getpgrp", "getuid", "killpg", "mkfifo", "nice", "pread", "pwrite",
            "register_at_fork", "sched_getaffinity", "sendfile", "setpgid", "setsid", "sysconf", "uname")
SIGNALS = ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2", "SIGCHLD")


class _Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def take_away() -> None:
    """Take POSIX's own things away from this process."""
    import numba  # noqa: F401 - with what it imports of the standard library
    import scipy.linalg  # noqa: F401

    sys.meta_path.insert(0, _Without())
    for name in MODULES:
        sys.modules.pop(name, None)
    for name in OS_NAMES:
        if hasattr(os, name):
            delattr(os, name)
    for name in SIGNALS:
        if hasattr(signal, name):
            delattr(signal, name)


if __name__ == "__main__":
    take_away()
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from nnet3py.cli.main import run

    run(sys.argv[1], sys.argv[2:])
