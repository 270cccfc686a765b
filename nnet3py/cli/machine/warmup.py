"""nnet3py warmup: compiles all kernels and keeps them on disk, so that no later command compiles one."""
from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options, option
from nnet3py.engine import interface
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.engine.kernel_code import Code, Key


@kaldi_command("warmup", group="Start here",
               help="Compile all kernels for this machine once, so that no command has to.", launcher=False, usage="""
Compile all kernels for this machine once, so that no command has to.

Compiled kernels are kept in a folder where all commands look for them. This is needed again after an update of
nnet3py, numba, numpy or Python, or on another processor; otherwise commands compile what they need as they go.
Where nnet3py was installed from a wheel that brings kernels for this processor, those are found, and nothing is
compiled for the CPU.

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
    """Compile, and print a line for each family of kernels."""
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



# functions of the engine: files, and names of functions in them
ENGINE = {"engine": (*interface.FUNCTIONS.values(), ("team_code", "serve"))}
# families of compiled loops outside ops/, and the modules that have them
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


# families whose kernels take longest: what is begun first does not end last
_LONGEST = ("engine", "lattices", "decoding", "products", "recurrent", "numerators", "elementwise")
_KERNELS_A_TASK = 4
SECONDS_A_KERNEL = 0.2       # of a processor's time, on average


class Warmed(NamedTuple):
    """What was done for some kernels of a family."""

    device: str
    family: str
    num_compiled: int
    num_found: int       # on disk already
    seconds: float
    num_left: int = 0    # of this family
    num_all_left: int = 0


class EngineFunction(NamedTuple):
    """A function that kernels call, in a file of ``engine/``."""

    file: str
    name: str

    @property
    def key(self) -> Key:
        """What its code is kept by."""
        from nnet3py.engine import kernel_files

        return kernel_files.key_of(self.source, self.name)

    @property
    def source(self) -> Path:
        """The file that has it."""
        import nnet3py.engine

        return Path(nnet3py.engine.__file__).resolve().with_name(f"{self.file}.py")

    def make_code(self) -> Code:
        """Compile it."""
        from nnet3py.engine import kernel_files

        return kernel_files.maker_of(self.source, self.name)()


def families(device: str) -> list[str]:
    """The names of the families of kernels of a device, "cpu" or "cuda"."""
    from nnet3py.ops.table import FAMILIES

    return sorted({*FAMILIES, *LOOPS, *ENGINE} if device == "cpu" else FAMILIES)


def kernels_of(device: str, family: str) -> list[Any]:
    """The kernels of a family. For the CPU each has a ``key``, by which its code is kept, and ``make_code``."""
    from importlib import import_module
    from importlib.util import find_spec

    from nnet3py.engine.loop import Loop

    if family in ENGINE:
        return [EngineFunction(*names) for names in ENGINE[family]]
    if family in LOOPS:
        return [value for name in LOOPS[family] for value in vars(import_module(name)).values()
                if isinstance(value, Loop)]
    name = f"nnet3py.ops.{device}.{family}"
    if find_spec(name) is None:          # a device need not have all of them
        return []
    # those that operations call are in the same module
    return [value for value in vars(import_module(name)).values()
            if getattr(value, "function", None) is not None and hasattr(value, "compile")
            and value.function.__module__ == name]


def num_to_compile(devices: list[str]) -> int:
    """How many of the CPU's kernels are not on disk, if that is one of the devices."""
    from nnet3py.engine import code_files

    return sum(code_files.find(kernel.key) is None for family in families("cpu") for kernel in kernels_of("cpu", family)
               ) if "cpu" in devices else 0


def warm_up(devices: list[str], only: list[str], num_processes: int) -> Iterator[Warmed]:
    """Compile the kernels of some devices and families (empty: of all), or find them on disk; results as they come.

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
    """Which of ``count`` kernels are compiled by one task of a process: first to end - 1."""
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
    """Compile the kernels ``first`` to ``end`` - 1 (None: all) of one family, or find them on disk.

    In random order: processes that are started together then mostly work on different kernels.
    """
    start, num_compiled = time.perf_counter(), 0
    kernels = kernels_of(device, family)[first:end]
    random.Random(os.getpid()).shuffle(kernels)
    for kernel in kernels:
        num_compiled += _compile(kernel) if device == "cpu" else _compile_for_gpu(kernel)
    return Warmed(device, family, num_compiled, len(kernels) - num_compiled, time.perf_counter() - start)


def _compile(kernel: Any) -> bool:
    """Compile a kernel and keep it, unless it is there; whether it was compiled."""
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
    """Write a line for each family as it is ready, and one in the end; a terminal has a bar meanwhile."""
    from nnet3py.engine.cache_folder import cache_folder

    start, num_compiled, num_found = time.perf_counter(), 0, 0
    so_far: dict[tuple[str, str], list[float]] = {}
    for part in warmed:
        tally = so_far.setdefault((part.device, part.family), [0, 0, 0.0])
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
    """The devices for ``--device``: "" means the CPU, and the GPU if this machine has one that can be used.

    Raises DeviceError if a GPU is asked for and cannot be used.
    """
    from nnet3py.cli.process.compute_setup import why_no_gpu
    from nnet3py.ops.device import require_cuda

    if device == "cuda":
        require_cuda()
    if device:
        return [device]
    return ["cpu"] if why_no_gpu() else ["cpu", "cuda"]


def default_processes() -> int:
    """As many as there are threads for computing; one if their number cannot be told."""
    from nnet3py.engine.threads import num_threads

    return max(1, min(num_threads(), os.cpu_count() or 1))
