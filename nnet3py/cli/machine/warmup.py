"""nnet3py warmup: compile all kernels and store them on disk, so that no later command has to compile them.

``python -m nnet3py.cli.machine.warmup x86_64 build/kernels/x86_64`` compiles the kernels that wheels contain: for each
kind of processor of an architecture a folder of object files, which ``engine/shipped.py`` reads. The architecture need
not be that of this machine. Files that were made from the same sources are left alone.
"""
from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import QUIET, Options, option
from nnet3py.engine import interface
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.engine.kernel_code import Code, Key


@kaldi_command("warmup", "Start here",
               "Compile all kernels for this machine, so that later commands start at once.", launcher=False, usage="""
Compile all kernels for this machine, and keep them in a folder for all later commands. Without warmup, each command
compiles the kernels that it needs and does not find.

Run warmup again after an update of nnet3py, numba, numpy or Python, or on another processor. If nnet3py was installed
from a wheel with kernels for this processor, none are compiled for the CPU.

Usage:  nnet3py warmup [options]

e.g.:
 nnet3py warmup
 nnet3py warmup --device=cpu --only=rows --only=products
""", arguments=(0, 0), detached_values=True, options=[
    QUIET,
    option("device", str, "", "Compile for this device only (empty: for the CPU, and for the GPU if there is one)",
           choices=("", "cpu", "cuda")),
    option("only", "strings", (), "Compile this family of kernels only, such as rows; may be given more than once"),
    option("list", bool, False, "Print the names of the families, and compile nothing"),
    option("num-processes", "uint", 0, "Processes that compile side by side (0: one for each core)"),
])
def warmup(args: list[str], options: Options) -> None:
    if options.list:
        print("\n".join(families(options.device or "cpu")))
        return
    devices, num_processes = chosen_devices(options.device), options.num_processes or default_processes()
    num_missing = 0 if options.only else num_to_compile(devices)
    if num_missing:
        seconds, processes = SECONDS_A_KERNEL * num_missing / num_processes, "es" if num_processes > 1 else ""
        print(f"Compiling {num_missing} kernels, once: about {seconds:.0f} s with {num_processes} process{processes}",
              flush=True)
    show(warm_up(devices, list(options.only), num_processes), lambda line: print(line, flush=True))


# Family -> (file, function) of the functions of engine/ that are compiled.
ENGINE = {"engine": (*interface.FUNCTIONS.values(), ("team_code", "serve"))}
# Family of compiled loops outside ops/ -> modules that contain them.
LOOPS: dict[str, tuple[str, ...]] = {
    "decoding": ("nnet3py.decoding.composed_graphs", "nnet3py.decoding.decoding_graph",
                 "nnet3py.decoding.lattice_decoder", "nnet3py.decoding.lookahead"),
    "files": ("nnet3py.formats.compressed_code",),
    "features": ("nnet3py.feat.cmvn", "nnet3py.feat.pitch", "nnet3py.feat.spectra", "nnet3py.feat.speech"),
    "ivectors": ("nnet3py.ivectors.online", "nnet3py.gaussians.mixtures"),
    "scoring": ("nnet3py.decoding.word_errors",),
    "fst": ("nnet3py.fst.const_arpa", "nnet3py.fst.operations", "nnet3py.graphs.context"),
    "lattices": ("nnet3py.transducers.compact_lattice", "nnet3py.transducers.fst", "nnet3py.transducers.lattice",
                 "nnet3py.transducers.state_graphs", "nnet3py.lattices.best_path", "nnet3py.lattices.composition",
                 "nnet3py.lattices.determinize", "nnet3py.lattices.forward_backward",
                 "nnet3py.lattices.pruned_composition", "nnet3py.lattices.pruning", "nnet3py.lattices.states",
                 "nnet3py.lattices.word_errors"),
}


# Families whose kernels take longest to compile come first, so that none of them is the last to end.
_LONGEST = ("engine", "lattices", "decoding", "products", "recurrent", "numerators", "elementwise")
_KERNELS_A_TASK = 4
SECONDS_A_KERNEL = 0.2       # of a processor's time, on average


class Warmed(NamedTuple):
    """Numbers of kernels of a family that were compiled or already on disk, and the time taken."""

    device: str          # "cpu" or "cuda"
    family: str
    num_compiled: int
    num_found: int       # kernels that were on disk already
    seconds: float
    num_left: int = 0    # kernels of this family that are still to be compiled
    num_all_left: int = 0        # the same, of all families


class EngineFunction(NamedTuple):
    """Compiled function in a file of ``engine/`` that kernels call."""

    file: str
    name: str

    @property
    def key(self) -> Key:
        """Key of the function's compiled code on disk."""
        from nnet3py.engine import kernel_files

        return kernel_files.key_of(self.source, self.name)

    @property
    def source(self) -> Path:
        """Path of the source file."""
        import nnet3py.engine

        return Path(nnet3py.engine.__file__).resolve().with_name(f"{self.file}.py")

    def make_code(self) -> Code:
        """Compile the function."""
        from nnet3py.engine import kernel_files

        return kernel_files.maker_of(self.source, self.name)()


def families(device: str) -> list[str]:
    """Return the names of the families of kernels for a device, "cpu" or "cuda"."""
    from nnet3py.ops.table import FAMILIES

    return sorted({*FAMILIES, *LOOPS, *ENGINE} if device == "cpu" else FAMILIES)


def kernels_of(device: str, family: str) -> list[Any]:
    """Return the kernels of a family; a CPU kernel has a ``key`` of its code on disk, and ``make_code()``."""
    from importlib import import_module
    from importlib.util import find_spec

    from nnet3py.engine.loop import Loop

    if family in ENGINE:
        return [EngineFunction(*names) for names in ENGINE[family]]
    if family in LOOPS:
        return [value for name in LOOPS[family] for value in vars(import_module(name)).values()
                if isinstance(value, Loop)]
    name = f"nnet3py.ops.{device}.{family}"
    if find_spec(name) is None:          # a device need not have all families
        return []
    # A module contains the kernels of its operations, and imports others.
    return [value for value in vars(import_module(name)).values()
            if getattr(value, "function", None) is not None and hasattr(value, "compile")
            and value.function.__module__ == name]


def num_to_compile(devices: list[str]) -> int:
    """Return the number of the CPU's kernels that are not on disk; 0 if the CPU is not one of the devices."""
    from nnet3py.engine import code_files

    return sum(code_files.find(kernel.key) is None for family in families("cpu") for kernel in kernels_of("cpu", family)
               ) if "cpu" in devices else 0


def warm_up(devices: list[str], only: list[str], num_processes: int) -> Iterator[Warmed]:
    """Compile the kernels that are not on disk, in several processes; yield the result of each part of a family.

    Parameters
    ----------
    devices : "cpu", "cuda" or both
    only : names of families; empty: all
    num_processes : number of processes

    Raises
    ------
    UsageError : there is no such family
    """
    for family in only:
        if not any(family in families(device) for device in devices):
            raise UsageError(f"there is no family of kernels called '{family}'",
                             "expected some of " + ", ".join(sorted({name for d in devices for name in families(d)})))
    parts = [(device, family) for device in devices for family in sorted(families(device), key=_order)
             if not only or family in only]
    sizes = {part: len(kernels_of(*part)) for part in parts}
    tasks = [(*part, first, end) for part, size in sizes.items() for first, end in ranges(size)]
    done = _in_processes(tasks, num_processes) if num_processes > 1 and len(tasks) > 1 else (
        warm_family(*task) for task in tasks)
    for warmed in done:
        sizes[warmed.device, warmed.family] -= warmed.num_compiled + warmed.num_found
        yield warmed._replace(num_left=sizes[warmed.device, warmed.family], num_all_left=sum(sizes.values()))


def ranges(count: int) -> list[tuple[int, int]]:
    """Split ``count`` kernels into ranges (first, end), one for each task of a process."""
    return [(first, min(first + _KERNELS_A_TASK, count)) for first in range(0, count, _KERNELS_A_TASK)]


def _order(family: str) -> tuple[int, str]:
    return _LONGEST.index(family) if family in _LONGEST else len(_LONGEST), family


def _in_processes(tasks: list[tuple[str, str, int, int]], num_processes: int) -> Iterator[Warmed]:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    with ProcessPoolExecutor(min(num_processes, len(tasks)), get_context("spawn"), log.leave_status_to_others) as pool:
        for future in as_completed([pool.submit(warm_family, *task) for task in tasks]):
            yield future.result()


def warm_family(device: str, family: str, first: int = 0, end: int | None = None) -> Warmed:
    """Compile the kernels ``first`` to ``end`` - 1 (None: to the last) of one family that are not on disk.

    The order is random, so that processes that are started together mostly work on different kernels.
    """
    start, num_compiled = time.perf_counter(), 0
    kernels = kernels_of(device, family)[first:end]
    random.Random(os.getpid()).shuffle(kernels)
    for kernel in kernels:
        num_compiled += _compile(kernel) if device == "cpu" else _compile_for_gpu(kernel)
    return Warmed(device, family, num_compiled, len(kernels) - num_compiled, time.perf_counter() - start)


def _compile(kernel: Any) -> bool:
    """Compile a kernel and keep its code, unless it is on disk; return whether it was compiled."""
    from nnet3py.engine import code_files

    is_compiled = False

    def make() -> Code:
        nonlocal is_compiled
        is_compiled = True
        code: Code = kernel.make_code()
        return code

    with code_files.lock:
        code_files.find_or_make(kernel.key, make)
    return is_compiled


def _compile_for_gpu(kernel: Any) -> bool:
    from numba.core import event

    from nnet3py.ops import get_ops

    get_ops("cuda")
    with event.install_recorder("numba:compile") as recorder:
        kernel.compile()
    return bool(recorder.buffer)


def show(warmed: Iterator[Warmed], write: Callable[[str], None]) -> None:
    """Write a line for each family when all of it is compiled, and a summary; show a progress bar on a terminal."""
    from nnet3py.engine.cache_folder import cache_folder

    start, num_compiled, num_found = time.perf_counter(), 0, 0
    tallies: dict[tuple[str, str], list[float]] = {}      # (device, family) -> compiled, found, seconds
    for part in warmed:
        tally = tallies.setdefault((part.device, part.family), [0, 0, 0.0])
        for i, number in enumerate((part.num_compiled, part.num_found, part.seconds)):
            tally[i] += number
        num_compiled, num_found = num_compiled + part.num_compiled, num_found + part.num_found
        if not part.num_left:
            log.show_status("")
            compiled, on_disk, seconds = tally
            write(f"{part.device:4} {part.family:20} {compiled:3.0f} compiled, {on_disk:3.0f} found, {seconds:6.1f} s")
        _show_bar(num_compiled, num_found, part.num_all_left, time.perf_counter() - start)
    log.show_status("")
    where = f"they are kept in {cache_folder()}" if num_compiled or not num_found else _where_found()
    write(f"{num_compiled} kernels compiled and {num_found} found in {time.perf_counter() - start:.1f} s; {where}")


def _show_bar(num_compiled: int, num_found: int, num_left: int, seconds: float) -> None:
    done = num_compiled + num_found
    left = f", {seconds / num_compiled * num_left:.0f} s more" if num_compiled and seconds > 1 else ""
    log.show_status(log.bar(done, done + num_left, "{} kernels", seconds) + left)


def _where_found() -> str:
    from nnet3py.engine.cache_folder import cache_folder
    from nnet3py.engine.shipped import usable_folder

    shipped = usable_folder()
    return f"they came with nnet3py, in {shipped}" if shipped else f"they are kept in {cache_folder()}"


def chosen_devices(device: str) -> list[str]:
    """Return the devices of ``--device``; "" stands for the CPU and, if this machine has a usable one, the GPU.

    Raises DeviceError for "cuda" without a usable GPU.
    """
    from nnet3py.cli.process.option_groups import why_no_gpu
    from nnet3py.ops.device import require_cuda

    if device == "cuda":
        require_cuda()
    if device:
        return [device]
    return ["cpu"] if why_no_gpu() else ["cpu", "cuda"]


def default_processes() -> int:
    """Return the number of processes for compiling: the number of threads, but at most that of cores."""
    from nnet3py.engine.threads import num_threads

    return max(1, min(num_threads(), os.cpu_count() or 1))


def compile_sets(machine: str, folder: Path, num_processes: int) -> None:
    """Compile all kernels for each kind of processor of an architecture, into subfolders of ``folder``.

    ``machine``: "x86_64" or "aarch64".
    """
    from nnet3py.engine.processor import SETS

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
    # A process compiles for one kind of processor only, since shapes of tiles are constants of a module.
    with ProcessPoolExecutor(num_processes, get_context("spawn"), _begin, (machine, kind)) as pool:
        for future in as_completed([pool.submit(_compile_some, *task, str(folder)) for task in tasks]):
            compiled, written = future.result()
            num_compiled, names, done = num_compiled + compiled, names | set(written), done + 1
            log.show_status(log.bar(done, len(tasks), f"{{}} parts of {folder.name}", time.perf_counter() - start))
    log.show_status("")
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()               # a kernel of an earlier version
    return num_compiled


def _begin(machine: str, kind: str) -> None:
    from nnet3py.engine.processor import make_code_for

    log.leave_status_to_others()
    make_code_for(machine, kind)


def _compile_some(family: str, first: int, end: int, folder: str) -> tuple[int, list[str]]:
    """Compile kernels ``first`` to ``end`` - 1 of a family whose files are missing or outdated.

    Returns the number of compiled kernels, and the file names of all kernels in the range.
    """
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
