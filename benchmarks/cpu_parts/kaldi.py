"""A Kaldi to compare with: its programs, if they are on PATH; else figures that were measured elsewhere, and say so."""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# Figures of a Kaldi that is not there stand under this name; WHERE says what they are.
ELSEWHERE = "Kaldi elsewhere"
WHERE = ("Kaldi elsewhere: master of July 2025 on two cores of an AMD EPYC with AVX2, whose sgemm did 182 GFLOP/s with "
         "two threads; it is not on PATH here, so its figures were not measured beside ours")
_BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_HEAD = 4096           # bytes of a launcher of ours, which names what it starts


def program(name: str) -> Path | None:
    """Kaldi's program of a name: the first on PATH that is no launcher of ours."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(folder or ".") / name
        if path.is_file() and os.access(path, os.X_OK):
            with open(path, "rb") as file:
                if b"nnet3py" not in file.read(_HEAD):
                    return path
    return None


def same_command(command: Sequence[str | Path], threads: int) -> list[str | Path] | None:
    """A command line of ours with Kaldi's program, for ``threads`` threads of BLAS; None without such a program."""
    theirs = program(Path(command[0]).name)
    if theirs is None:
        return None
    words = [word for word in command[1:] if not str(word).startswith("--num-threads=")]
    return ["env", *(f"{name}={threads}" for name in _BLAS_VARIABLES), theirs, *words]
