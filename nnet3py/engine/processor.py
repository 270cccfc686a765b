"""The processor for which machine code is compiled: one of a few kinds. Light: no numba.

Kinds differ in their registers, and so in how products are computed (``engine/tiles.py``). Code is compiled for the
baseline of a kind (its least processor, such as x86-64-v3), not for this machine's model: all machines of a kind
compute the same numbers, and wheels can contain code. The environment variable ``NNET3PY_CPU`` selects another kind
that this machine can run: to test the code of other machines, or because it is faster here.
"""
from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from nnet3py.errors import UsageError

VARIABLE = "NNET3PY_CPU"
# a processor of a kind of x86-64 can run the code of the kinds after it; aarch64 always has NEON, and can run GENERIC
AVX512, AVX2, SSE4, NEON, GENERIC = KINDS = ("avx512", "avx2", "sse4", "neon", "generic")
_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_NEEDED: dict[str, tuple[str, ...]] = {AVX512: _V4, AVX2: _V3, SSE4: _V2, GENERIC: ()}
_ARM = ("aarch64", "arm64")                                        # beginnings of LLVM's triples
# LLVM's names for the least processor of each kind of x86-64, which are those of its psABI's levels
_LEVELS = {AVX512: "x86-64-v4", AVX2: "x86-64-v3", SSE4: "x86-64-v2", GENERIC: "x86-64"}
# LLVM takes the least processor of this kind for one that is slowed down by vectors of 512 bits
_TUNING = {AVX512: "-prefer-256-bit"}
ALL_ARM = "generic"                                                # LLVM's name for the least processor of aarch64
LINUX = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}    # machines: LLVM's triples
# folders of kernels in wheels, by machine and kind
SETS = {"x86_64": {AVX512: "x86-64-v4", AVX2: "x86-64-v3", SSE4: "x86-64-v2"}, "aarch64": {NEON: "aarch64"}}


class Processor(NamedTuple):
    """A processor for which machine code is compiled.

    ``kind`` is one of KINDS. ``triple`` (machine, system and ABI), ``target`` (the baseline processor of the kind) and
    ``features`` (added, or with a minus removed, features) are LLVM's names. ``model`` is the name of this machine's
    processor, or ``target`` if another kind than the machine's best was chosen.
    """

    kind: str
    triple: str
    target: str
    features: str
    model: str


_other: list[Processor] = []       # processor chosen by :func:`make_code_for`, if any


@cache
def possible_kinds() -> tuple[str, ...]:
    """Return the kinds whose code this machine can run, the best first."""
    from llvmlite import binding

    if _triple().startswith(_ARM):
        return NEON, GENERIC
    features = binding.get_host_cpu_features()
    return tuple(kind for kind, needed in _NEEDED.items() if all(features.get(name) for name in needed))


def _triple() -> str:
    from llvmlite import binding

    triple: str = binding.get_process_triple()
    machine, *rest = triple.split("-")
    # distributions put their own names between machine and system
    return LINUX[machine] if machine in LINUX and "linux" in rest and rest[-1] == "gnu" else triple


@cache
def processor() -> Processor:
    """Return the processor for which this process compiles machine code.

    Raises UsageError: ``NNET3PY_CPU`` does not name a kind, or names one that this machine cannot run.
    """
    from llvmlite import binding

    if _other:
        return _other[0]
    possible = possible_kinds()
    wanted = os.environ.get(VARIABLE, "").strip() or possible[0]
    if wanted not in KINDS:
        raise UsageError(f"{VARIABLE}={wanted}: expected one of {', '.join(KINDS)}")
    if wanted not in possible:
        raise UsageError(f"{VARIABLE}={wanted}: this processor, {binding.get_host_cpu_name()}, cannot run such code",
                         f"it can do {' and '.join(possible)}")
    least = least_of(wanted, _triple())
    return least._replace(model=binding.get_host_cpu_name()) if wanted == possible[0] else least


def least_of(kind: str, triple: str) -> Processor:
    """Return the baseline processor of a kind (a level of x86-64), for an LLVM target triple."""
    target = ALL_ARM if triple.startswith(_ARM) else _LEVELS.get(kind, "")
    return Processor(kind, triple, target, _TUNING.get(kind, ""), target)


def set_name(made_for: Processor) -> str | None:
    """Return the name of the wheel's folder of kernels for a processor; None if wheels contain none for it."""
    for machine, sets in SETS.items():
        if made_for.triple == LINUX[machine]:
            return sets.get(made_for.kind)
    return None


def make_code_for(machine: str, kind: str) -> None:
    """Compile machine code from now on for a kind of processor of a Linux machine: "x86_64" or "aarch64".

    It is called before any code is compiled, in a process that only compiles: the code may not run on this machine.
    """
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    _other[:] = [least_of(kind, LINUX[machine])]
    processor.cache_clear()
