"""Groups of options that commands of all kinds share: device, compiler, optimizer; with Kaldi's names and prefixes.

``[BINARY, *OPTIM, *DEVICE]`` in a command's ``options`` takes them; ``with_default`` changes one default where a
command differs from the rest. Groups of commands of one kind are beside what reads them: ``SIMPLE`` and ``IVEC`` in
``nnet/utterances.py``, ``TRAINER``, ``PROB`` and ``CHAIN`` in ``training/train_setup.py``, those of examples in
``egs/options.py``.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnet3py.cli.process.options import Option, declared, normalize, option
from nnet3py.compiler.optimize_options import CompilerOptions, OptimizeOptions
from nnet3py.option_fields import settings_of

Group = tuple[Option, ...]

# For commands that are called only by people, not by scripts that read logs.
QUIET = option("print-args", bool, False, "Repeat the command line on standard error")

BINARY = option("binary", bool, True, "Write output in binary mode")


def with_default(group: Sequence[Option], name: str, default: Any) -> Group:
    """Copy a group with another default for one of its options."""
    if normalize(name) not in [option_.name for option_ in group]:
        raise ValueError(f"no option {name} in this group")
    return tuple(option_.but(default=default) if option_.name == normalize(name) else option_ for option_ in group)


def without(group: Sequence[Option], *names: str) -> Group:
    """Copy a group without some of its options."""
    return tuple(option_ for option_ in group if option_.name not in names)


def unprefixed(group: Sequence[Option]) -> Group:
    """Copy a group with options named without their prefix, as some programs have them."""
    return tuple(option_.but(option_.name.rpartition(".")[2]) for option_ in group)


OPTIM: Group = tuple(
    option_.but(idle=lambda level, options: "" if level < 2 else "nothing is compressed, and derivatives are exact")
    if option_.name == "optimization.memory-compression-level" else option_
    for option_ in declared(settings_of(OptimizeOptions(), "optimization.")))

_COMPILER: Group = declared(settings_of(CompilerOptions, "compiler."))
COMPILER: Group = tuple(each for each in _COMPILER if each.name != "compiler.cache-dir")

COMPUTE: Group = (
    option("computation.debug", bool, False, "Log every command that is run, with norms of what it changes"),
)

NUM_THREADS = option("num-threads", int, 0,
                     "Threads of the compiled code and of BLAS (0: $NNET3PY_NUM_THREADS, or the cores this process may "
                     "use)")

# What a command that computes takes besides Kaldi's own options.
DEVICE: Group = (
    option("use-gpu", str, "optional", "yes|no|optional|wait: use a GPU; without one yes fails, wait warns",
           choices=("yes", "no", "optional", "wait")),
    option("device", str, "", "cpu or cuda; wins over --use-gpu", choices=("", "cpu", "cuda")),
    option("cuda-use-tensor-cores", bool, False, "Let products on a GPU round their factors to TF32, for its tensor "
           "cores; true also with NNET3PY_TF32=1"),
    NUM_THREADS,
    *(each for each in _COMPILER if each.name == "compiler.cache-dir"),
)
