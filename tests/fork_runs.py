"""Commands run as their launchers run them, each in a process of its own that is forked: a tenth of starting it anew.

:class:`ForkRuns` starts this file as a program, which reads tasks and writes results, a line of JSON each. It loads the
modules that are its arguments, and nnet3py.cli.main, and forks for every task.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Result(NamedTuple):
    """What a run of a command left: exit status, standard output and standard error, the modules it had loaded."""

    status: int
    output: str
    messages: str
    modules: frozenset[str] = frozenset()


class ForkRuns:
    """A process that runs commands in children of its own; a context manager."""

    def __init__(self, *preloaded: str) -> None:
        self._process = subprocess.Popen([sys.executable, __file__, *preloaded], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def run(self, name: str, *words: str) -> Result:
        """Run a command in the current folder."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([name, words, os.getcwd()]), file=self._process.stdin, flush=True)
        *result, modules = json.loads(self._process.stdout.readline())
        return Result(*result, frozenset(modules))

    def __enter__(self) -> ForkRuns:
        return self

    def __exit__(self, *error: object) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def answer(name: str, words: list[str], folder: str) -> tuple[int, str, str, list[str]]:
    """Run one command in a new process."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as modules:
        child = os.fork()
        if not child:
            os.chdir(folder)
            for number, source in enumerate((os.open(os.devnull, os.O_RDONLY), output.fileno(), errors.fileno())):
                os.dup2(source, number)
            try:
                import_module("nnet3py.cli.main").run(name, words)
            except SystemExit as leaving:
                modules.write(" ".join(sys.modules).encode())
                for stream in (modules, sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(int(leaving.code or 0))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for stream in (output, errors, modules):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
        return status, texts[0], texts[1], texts[2].split()


if __name__ == "__main__":
    for module in ("nnet3py.cli.main", *sys.argv[1:]):
        import_module(module)
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)
