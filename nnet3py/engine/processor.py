"""For which processor machine code is made: this machine's, or a lesser one that is named. Light: no numba.

Processors are of several kinds, which differ in their registers and so in how products are computed
(``engine/tiles.py``). The environment's ``NNET3PY_CPU`` names a lesser kind than this machine's: to try what others
will run, or because it is faster here.
"""
from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from nnet3py.errors import UsageError

VARIABLE = "NNET3PY_CPU"
# of x86-64 each can do what those after it can; of aarch64, too, all of which have NEON
AVX512, AVX2, NEON, GENERIC = KINDS = ("avx512", "avx2", "neon", "generic")
_NEEDED = {AVX512: ("avx512f",), AVX2: ("avx2", "fma"), GENERIC: ()}
_ARM = ("aarch64", "arm64")                                        # how the names of its systems begin
_LEAST = {AVX2: "x86-64-v3", GENERIC: "x86-64"}                    # LLVM's names for the least of each kind


class Processor(NamedTuple):
    """What machine code is made for: one of KINDS; LLVM's name, and its features, for those that the name implies."""

    kind: str
    name: str
    features: str
    is_this: bool        # this machine's own, and not a lesser one


@cache
def possible_kinds() -> tuple[str, ...]:
    """The kinds whose code this machine can run, the best first."""
    from llvmlite import binding

    if _is_arm():
        return NEON, GENERIC
    features = binding.get_host_cpu_features()
    return tuple(kind for kind, needed in _NEEDED.items() if all(features.get(name) for name in needed))


def _is_arm() -> bool:
    from llvmlite import binding

    triple: str = binding.get_process_triple()
    return triple.startswith(_ARM)


@cache
def processor() -> Processor:
    """The processor that this process makes machine code for.

    Raises
    ------
    UsageError
        ``NNET3PY_CPU`` does not name a kind, or names one that this machine cannot run.
    """
    from llvmlite import binding

    possible = possible_kinds()
    wanted = os.environ.get(VARIABLE, "").strip() or possible[0]
    if wanted not in KINDS:
        raise UsageError(f"{VARIABLE}={wanted}: expected one of {', '.join(KINDS)}")
    if wanted not in possible:
        raise UsageError(f"{VARIABLE}={wanted}: this processor, {binding.get_host_cpu_name()}, cannot run such code",
                         f"it can do {' and '.join(possible)}")
    if wanted == possible[0]:
        return Processor(wanted, binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), True)
    return Processor(wanted, "generic" if _is_arm() else _LEAST[wanted], "", False)
