"""nnet3py warmup: compiles all kernels and keeps them on disk, so that no later command compiles one."""
from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.option_groups import QUIET
from nnet3py.cli.options import Options, option
from nnet3py.errors import UsageError


@kaldi_command("warmup", usage="""
Compile all kernels for this machine once, so that no command has to.

Compiled kernels are kept in a folder where all commands look for them. This is needed again after an update of
nnet3py, numba, numpy or Python, or on another processor; otherwise commands compile what they need as they go.

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
    warmed = warm_up(chosen_devices(options.device), list(options.only), options.num_processes or default_processes())
    show(warmed, lambda line: print(line, flush=True))



# families of compiled loops outside ops/, and the modules that have them
LOOPS: dict[str, tuple[str, ...]] = {
    "decoding": ("nnet3py.decoding.decoder", "nnet3py.decoding.decoding_graph", "nnet3py.decoding.lattice_decoder",
                 "nnet3py.decoding.lookahead", "nnet3py.decoding.lookahead_graph", "nnet3py.decoding.lookahead_grammar",
                 "nnet3py.decoding.growing_graph", "nnet3py.decoding.grammar_graph"),
    "files": ("nnet3py.formats.compressed_code",),
    "features": ("nnet3py.feat.cmvn", "nnet3py.feat.mel_banks", "nnet3py.feat.pitch",
                 "nnet3py.feat.plp", "nnet3py.feat.speech", "nnet3py.feat.split_radix"),
    "ivectors": ("nnet3py.ivectors.online", "nnet3py.gaussians.posteriors"),
    "scoring": ("nnet3py.decoding.edit_distance",),
    "fst": ("nnet3py.fst.const_arpa", "nnet3py.fst.local_epsilons", "nnet3py.graphs.context"),
    "lattices": (
        "nnet3py.transducers.compact_lattice",
        "nnet3py.transducers.lattice_conversion",
        "nnet3py.transducers.state_graphs",
        "nnet3py.transducers.symbol_bytes",
        "nnet3py.lattices.best_path",
        "nnet3py.lattices.composition",
        "nnet3py.lattices.determinize",
        "nnet3py.lattices.forward_backward",
        "nnet3py.lattices.lm_rescoring",
        "nnet3py.lattices.minimize",
        "nnet3py.lattices.mbr",
        "nnet3py.lattices.oracle",
        "nnet3py.lattices.pruned_composition",
        "nnet3py.lattices.pruning",
        "nnet3py.lattices.states",
    ),
}


class Warmed(NamedTuple):
    """What was done for a family of kernels."""

    device: str
    family: str
    num_compiled: int
    num_found: int       # on disk already
    seconds: float


def families(device: str) -> list[str]:
    """The names of the families of kernels of a device, "cpu" or "cuda"."""
    from nnet3py.ops.table import FAMILIES

    return sorted({*FAMILIES, *LOOPS} if device == "cpu" else FAMILIES)


def warm_up(devices: list[str], only: list[str], num_processes: int) -> Iterator[Warmed]:
    """Compile the kernels of some devices and families (empty: of all), or find them on disk; a result per family.

    Raises
    ------
    UsageError : there is no such family
    """
    for family in only:
        if not any(family in families(device) for device in devices):
            raise UsageError(f"there is no family of kernels called '{family}'",
                             "expected some of " + ", ".join(sorted({name for d in devices for name in families(d)})))
    work = [(device, family) for device in devices for family in families(device) if not only or family in only]
    if num_processes <= 1 or len(work) == 1:
        for device, family in work:
            yield warm_family(device, family)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    with ProcessPoolExecutor(min(num_processes, len(work)), get_context("spawn"), log.leave_status_to_others) as pool:
        for future in as_completed([pool.submit(warm_family, device, family) for device, family in work]):
            yield future.result()


def warm_family(device: str, family: str) -> Warmed:
    """Compile the kernels of one family, or find them on disk.

    In random order: processes that are started together then mostly work on different kernels.
    """
    start, num_compiled = time.perf_counter(), 0
    kernels = _loops(family) if family in LOOPS else _kernels(device, family)
    random.Random(os.getpid()).shuffle(kernels)
    for compile_kernel in kernels:
        with _count_compiled() as compiled:
            compile_kernel()
        num_compiled += bool(compiled)
    return Warmed(device, family, num_compiled, len(kernels) - num_compiled, time.perf_counter() - start)


def _kernels(device: str, family: str) -> list[Callable[[], Any]]:
    """What compiles each kernel of a family: those of the table, and those that they call."""
    from importlib import import_module
    from importlib.util import find_spec

    from nnet3py.ops import get_ops

    get_ops(device)
    name = f"nnet3py.ops.{device}.{family}"
    if find_spec(name) is None:          # a device need not have all of them
        return []
    module = import_module(name)
    return [value.compile for value in vars(module).values()
            if getattr(value, "function", None) is not None and hasattr(value, "compile")
            and value.function.__module__ == name]


def _loops(family: str) -> list[Callable[[], Any]]:
    """What compiles each loop of a family."""
    from importlib import import_module

    from nnet3py.engine.loop import Loop

    return [value.prepare for name in LOOPS[family] for value in vars(import_module(name)).values()
            if isinstance(value, Loop)]


@contextmanager
def _count_compiled() -> Iterator[list[Any]]:
    """A list that gets an entry for everything that numba compiles inside."""
    from numba.core import event

    with event.install_recorder("numba:compile") as recorder:
        yield recorder.buffer


def show(warmed: Iterator[Warmed], write: Callable[[str], None]) -> None:
    """Write a line for each family as it is ready, and one in the end."""
    from nnet3py.engine.cache_folder import cache_folder

    start, num_compiled, num_found = time.perf_counter(), 0, 0
    for tally in warmed:
        write(f"{tally.device:4} {tally.family:20} {tally.num_compiled:3} compiled, {tally.num_found:3} found, "
              f"{tally.seconds:6.1f} s")
        num_compiled, num_found = num_compiled + tally.num_compiled, num_found + tally.num_found
    write(f"{num_compiled} kernels compiled and {num_found} found in {time.perf_counter() - start:.1f} s; "
          f"they are kept in {cache_folder()}")


def chosen_devices(device: str) -> list[str]:
    """The devices for ``--device``: "" means the CPU, and the GPU if this machine has one that can be used.

    Raises DeviceError if a GPU is asked for and cannot be used.
    """
    from nnet3py.cli.compute_setup import why_no_gpu
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
