"""Server of ``nnet3py resident``: a process that has imported all modules, and forks itself for each command called.

A launcher that finds ``NNET3PY_RESIDENT`` in its environment connects to this process (``resident_client.py``). The
fork takes over the caller's standard streams, folder, environment, arguments, limits and ignored signals, as the system
reports them, and the server tells the caller how the command ended. The socket lies in a folder that only its user can
enter. Signals sent to the caller are passed on to the command; when the caller dies, the command is ended.

Libraries read some environment variables only when they are loaded. A caller with other values of these variables is
sent away, and starts a process of its own. Linux only.
"""
from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import resource
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nnet3py.cli.process import resident_client
from nnet3py.cli.process.forked import FORK_VARIABLE, fork
from nnet3py.cli.process.resident_client import APART, EXITED, JOINED, KILLED, VARIABLE
from nnet3py.cli.registry import COMMANDS
from nnet3py.engine.threads import environment_of_threads
from nnet3py.errors import Nnet3Error
from nnet3py.io.streams import PIPES_VARIABLE
from nnet3py.system import PATIENCE

_LOADED = ("cli", "network", "components", "compiler", "runtime", "egs", "formats", "io", "training", "hmm",
           "transducers", "chain")                   # packages whose modules are all imported
_LOADED_MODULES = ("numpy", "threadpoolctl", "llvmlite.binding", "nnet3py.engine.team")
# Prefixes of environment variables that libraries read only when loaded, and the exceptions, which are read each time.
_READ_WHEN_LOADED = ("NNET3PY_", "NUMBA_", "OPENBLAS_", "MKL_", "PYTHON", "LD_", "MALLOC_", "XDG_", "HOME", "TMPDIR")
_ASKED_EACH_TIME = (*environment_of_threads(1), "NNET3PY_PROGRESS", PIPES_VARIABLE, FORK_VARIABLE, "NNET3PY_PYTHON",
                    VARIABLE)
_PEER = struct.Struct("iII")                         # SO_PEERCRED: process, user, group
_PR_SET_PDEATHSIG = 1
_IGNORABLE = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
_SECONDS_TO_SEND = 1.0                               # limit for a caller between connecting and sending


def load_everything() -> None:
    """Import most modules that commands need, and load compiled kernels, but neither numba nor optional packages."""
    for name in _LOADED_MODULES:
        with suppress(ImportError):
            importlib.import_module(name)
    for package_name in _LOADED:
        package = importlib.import_module(f"nnet3py.{package_name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    from nnet3py.ops.cpu import load_compiled

    load_compiled()
    gc.collect()
    gc.freeze()                          # memory that garbage collection never visits stays shared with the forks


@dataclass(frozen=True)
class Caller:
    """Process that asks for a command to be run, as Linux describes it in /proc."""

    process: int
    python: str
    client: str                          # path of the resident_client.py that it runs
    words: Sequence[str]                 # the command's name and its arguments
    environment: Mapping[bytes, bytes]
    umask: int
    ignored: int                         # bit n - 1: signal n
    priority: int
    cores: frozenset[int]
    limits: Mapping[int, tuple[int, int]]

    @classmethod
    def of_process(cls, process: int) -> Caller:
        """Read the description of a process; OSError if it has ended, ValueError if an entry is missing."""
        status = dict(line.split(":", 1) for line in _contents(process, "status").decode().splitlines())
        variables = (entry.partition(b"=") for entry in _contents(process, "environ").split(b"\0") if b"=" in entry)
        # python, its options, the client, the launcher, then name and arguments of the command
        line = [os.fsdecode(word) for word in _contents(process, "cmdline").split(b"\0")[:-1]]
        client = next(number for number, word in enumerate(line) if word.endswith("resident_client.py"))
        return cls(
            process, line[0], line[client], line[client + 2:], {name: value for name, _, value in variables},
            int(status["Umask"], 8), int(status["SigIgn"], 16), os.getpriority(os.PRIO_PROCESS, process),
            frozenset(os.sched_getaffinity(process)),
            {number: resource.prlimit(process, number) for name, number in vars(resource).items()
             if name.startswith("RLIMIT_")})

    def is_like_us(self, environment: Mapping[bytes, bytes]) -> bool:
        """Return whether the caller uses this package, this Python, and the same variables that libraries read.

        ``environment``: such variables of this process (see :func:`read_when_loaded`).
        """
        return (os.path.samefile(self.client, resident_client.__file__)
                and os.path.samefile(os.path.dirname(self.python), os.path.dirname(sys.executable))
                and read_when_loaded(self.environment) == environment)

    def take_over(self) -> None:
        """Set this process's folder, environment, limits and so on to the caller's; OSError if the caller has ended."""
        os.chdir(f"/proc/{self.process}/cwd")
        os.environ.clear()
        os.environb.update(self.environment)
        os.umask(self.umask)
        for number in _IGNORABLE:
            ignored = self.ignored >> (number - 1) & 1
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, self.priority)
            os.sched_setaffinity(0, self.cores)
        for limit, values in self.limits.items():
            with suppress(OSError, ValueError):
                resource.setrlimit(limit, values)
        is_plain = self._locale() in (b"", b"C", b"POSIX")
        for stream in (sys.stdin, sys.stdout):
            stream.reconfigure(errors="surrogateescape" if is_plain else "strict")       # type: ignore[union-attr]

    def _locale(self) -> bytes:
        values = (self.environment.get(name) for name in (b"LC_ALL", b"LC_CTYPE", b"LANG"))
        return next(filter(None, values), b"")


def _contents(process: int, name: str) -> bytes:
    with open(f"/proc/{process}/{name}", "rb") as stream:
        return stream.read()


def read_when_loaded(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables of an environment that libraries read only when they are loaded."""
    names, left_out = tuple(map(str.encode, _READ_WHEN_LOADED)), tuple(map(str.encode, _ASKED_EACH_TIME))
    return {name: value for name, value in environment.items() if name.startswith(names) and name not in left_out}


@dataclass
class _Running:
    """Command that a fork runs for a caller."""

    process: int
    connection: socket.socket            # to the caller
    deadline: float | None = field(default=None)     # time.monotonic() at which the process is killed; None: never


class ResidentServer:
    """Server whose forks run the programs of this package that a command line starts; see :meth:`run`."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="nnet3py-resident-")         # its mode keeps others out
        self.path = os.path.join(self._folder, "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(128)
        self._selector = selectors.DefaultSelector()
        self._running: list[_Running] = []
        self.num_served = self.num_sent_away = 0

    def run(self, words: Sequence[str]) -> int:
        """Run a command line, wait for it and all forks; return its exit status, as a shell does (128 + signal)."""
        woken, wakes = os.pipe()
        for end in (woken, wakes):
            os.set_blocking(end, False)
        self._environment = read_when_loaded(os.environb)
        before = {number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM,
                                                                   signal.SIGHUP)}
        signal.set_wakeup_fd(wakes)
        try:
            signal.signal(signal.SIGCHLD, lambda *_: None)
            command = subprocess.Popen(words, env=os.environ | {VARIABLE: self.path})
            signal.signal(signal.SIGINT, signal.SIG_IGN)         # a terminal sends the signal to the command, too
            for number in (signal.SIGTERM, signal.SIGHUP):
                if before[number] is not signal.SIG_IGN:
                    signal.signal(number, lambda number, _: command.send_signal(number))
            self._selector.register(woken, selectors.EVENT_READ)
            self._selector.register(self._listener, selectors.EVENT_READ)
            while command.poll() is None or self._running:
                self._wait()
            return 128 - command.returncode if command.returncode < 0 else command.returncode
        except FileNotFoundError:
            raise Nnet3Error(f"there is no program '{words[0]}'",
                             "give a command line as you would to a shell") from None
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            self.close()

    def close(self) -> None:
        """Stop listening, and remove the socket."""
        self._listener.close()
        self._selector.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        """Wait for a new caller, a message of a caller, the end of a fork, or a deadline, and handle it."""
        deadlines = [running.deadline for running in self._running if running.deadline is not None]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        for key, _ in self._selector.select(timeout):
            if key.fileobj is self._listener:
                self._accept()
            elif key.data is None:
                with suppress(BlockingIOError):
                    os.read(key.fd, 1 << 12)
            else:
                self._receive(key.data)
        for running in list(self._running):
            if running.deadline is not None and running.deadline <= time.monotonic():
                _signal(running.process, signal.SIGKILL)
            process, status = os.waitpid(running.process, os.WNOHANG)
            if process:
                self._finish(running, os.waitstatus_to_exitcode(status))

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        descriptors: list[int] = []
        try:
            connection.settimeout(_SECONDS_TO_SEND)
            _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
            connection.settimeout(None)
            process, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            caller = Caller.of_process(process)
            if user != os.getuid() or len(descriptors) != 3 or not caller.is_like_us(self._environment):
                raise ValueError
            self._start(caller, connection, descriptors)
        except (OSError, ValueError, KeyError, StopIteration, UnicodeDecodeError):
            self.num_sent_away += 1
            connection.close()                    # the caller then starts a process of its own
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, caller: Caller, connection: socket.socket, descriptors: Sequence[int]) -> None:
        def body() -> int:
            import ctypes

            from nnet3py.cli import main

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            caller.take_over()
            name, *words = caller.words
            if name in COMMANDS:
                main.run(name, words)
            main.main(words)

        process = fork(body, descriptors)
        answer = JOINED
        try:
            os.setpgid(process, os.getpgid(caller.process))
        except OSError:
            answer = APART
        running = _Running(process, connection)
        self._running.append(running)
        self._selector.register(connection, selectors.EVENT_READ, running)
        self.num_served += 1
        with suppress(OSError):
            connection.send(answer)

    def _receive(self, running: _Running) -> None:
        """Send the signals that the caller reports to its command; terminate the command if the caller has ended."""
        try:
            numbers = running.connection.recv(64)
        except OSError:
            numbers = b""
        if numbers:
            for number in numbers:
                _signal(running.process, number)
            return
        self._selector.unregister(running.connection)
        _signal(running.process, signal.SIGTERM)
        running.deadline = time.monotonic() + PATIENCE

    def _finish(self, running: _Running, status: int) -> None:
        self._running.remove(running)
        with suppress(KeyError, ValueError):
            self._selector.unregister(running.connection)
        with suppress(OSError):
            running.connection.send(bytes([KILLED, -status] if status < 0 else [EXITED, status]))
        running.connection.close()


def _signal(process: int, number: Any) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
