"""Compiles the kernels that wheels carry: ``python -m nnet3py.cli.machine.kernel_sets x86_64 build/kernels/x86_64``.

For each kind of processor of a machine a folder of object files (``engine/shipped.py`` reads them), which need not be
made on such a machine. Files that are there already, and are made from the same sources, are left alone.
"""
from __future__ import annotations

import sys
import time
from pathlib import Path

from nnet3py import log
from nnet3py.cli.machine.warmup import default_processes, families, kernels_of, ranges
from nnet3py.engine.processor import SETS


def compile_sets(machine: str, folder: Path, num_processes: int) -> None:
    """Compile all kernels for each kind of processor of a machine, "x86_64" or "aarch64", below a folder."""
    for kind, name in SETS[machine].items():
        start = time.perf_counter()
        num_compiled = _compile_set(machine, kind, folder / name, num_processes)
        size = sum(path.stat().st_size for path in (folder / name).iterdir())
        print(f"{name}: {num_compiled} kernels compiled in {time.perf_counter() - start:.0f} s, {size / 1e6:.1f} MB",
              flush=True)


def _compile_set(machine: str, kind: str, folder: Path, num_processes: int) -> int:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    folder.mkdir(parents=True, exist_ok=True)
    tasks = [(family, *part) for family in families("cpu") for part in ranges(len(kernels_of("cpu", family)))]
    names: set[str] = set()
    start, num_compiled, done = time.perf_counter(), 0, 0
    # each process makes code for one kind only: shapes of tiles are constants of a module
    with ProcessPoolExecutor(num_processes, get_context("spawn"), _begin, (machine, kind)) as pool:
        for future in as_completed([pool.submit(_compile_some, *task, str(folder)) for task in tasks]):
            compiled, written = future.result()
            num_compiled, names, done = num_compiled + compiled, names | set(written), done + 1
            log.show_status(log.bar(done, len(tasks), f"{{}} parts of {folder.name}", time.perf_counter() - start))
    log.show_status("")
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()               # of an earlier version
    return num_compiled


def _begin(machine: str, kind: str) -> None:
    from nnet3py.engine.processor import make_code_for

    log.leave_status_to_others()
    make_code_for(machine, kind)


def _compile_some(family: str, first: int, end: int, folder: str) -> tuple[int, list[str]]:
    """Compile some kernels of a family; how many, and the names of the files of all of them."""
    from nnet3py.engine import kernel_code, shipped
    from nnet3py.engine.processor import processor

    num_compiled, names = 0, []
    for kernel in kernels_of("cpu", family)[first:end]:
        key = kernel.key
        path, belongs = Path(folder) / shipped.file_name(key), shipped.belonging(key, processor())
        names.append(path.name)
        if not path.exists() or kernel_code.from_bytes(path.read_bytes(), belongs) is None:
            path.write_bytes(kernel_code.to_bytes(kernel.make_code(), belongs))
            num_compiled += 1
    return num_compiled, names


if __name__ == "__main__":
    compile_sets(sys.argv[1], Path(sys.argv[2]), default_processes())
