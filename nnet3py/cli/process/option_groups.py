"""Groups of options that commands of all kinds share, and the objects that are made from their values.

The groups: device, compiler and optimizer, with Kaldi's names and prefixes. A command takes groups by
``options=[BINARY, *OPTIM, *DEVICE]``; ``with_default`` changes a default for one command. :func:`set_up` applies
``DEVICE``, :func:`optimize_options` and :func:`compiler_options` read the others. Groups for one kind of command stand
elsewhere: ``SIMPLE`` and ``IVEC`` in ``nnet/utterances.py``, ``TRAINER``, ``PROB`` and ``CHAIN`` in
``training/train_setup.py``, options of training examples in ``egs/options.py``.
"""
from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from nnet3py import log
from nnet3py.cli.process.options import (
    BINARY as BINARY,
)
from nnet3py.cli.process.options import (
    QUIET as QUIET,
)
from nnet3py.cli.process.options import (
    Option,
    Options,
    declared,
    fields_from,
    normalize,
    option,
)
from nnet3py.compiler.optimize_options import CompilerOptions, OptimizeOptions
from nnet3py.errors import DeviceError, within
from nnet3py.option_fields import GPU_CHOICES, settings_of

Group = tuple[Option, ...]

def with_default(group: Sequence[Option], name: str, default: Any) -> Group:
    """Copy a group with another default for one of its options."""
    if normalize(name) not in [option_.name for option_ in group]:
        raise ValueError(f"no option {name} in this group")
    return tuple(option_.but(default=default) if option_.name == normalize(name) else option_ for option_ in group)


def without(group: Sequence[Option], *names: str) -> Group:
    """Copy a group without some of its options."""
    return tuple(option_ for option_ in group if option_.name not in names)


def unprefixed(group: Sequence[Option]) -> Group:
    """Copy a group with the prefix removed from the options' names, as some programs have them."""
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
                     "use)", least=0)

# Options of every command that computes with a network.
DEVICE: Group = (
    option("use-gpu", str, "optional", "yes|no|optional|wait: use a GPU; without one yes fails, wait warns",
           choices=GPU_CHOICES),
    option("device", str, "", "cpu or cuda; wins over --use-gpu", choices=("", "cpu", "cuda")),
    option("cuda-use-tensor-cores", bool, False, "Let products on a GPU round their factors to TF32, for its tensor "
           "cores; true also with NNET3PY_TF32=1"),
    NUM_THREADS,
    *(each for each in _COMPILER if each.name == "compiler.cache-dir"),
)


RETRY_ONCE_AFTER, RETRY_EVERY = 20, 5      # seconds, as Kaldi's
_GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")   # /dev/dxg: WSL


def set_up(options: Options) -> str:
    """Set the number of threads, and return the device, "cpu" or "cuda", by the options of the group ``DEVICE``.

    Raises DeviceError if a GPU was asked for and cannot be used.
    """
    if "num-threads" in options and options.num_threads != 0:
        from nnet3py.engine.threads import set_num_threads

        set_num_threads(options.num_threads)
    return chosen_device(options)


def optimize_options(options: Options, prefixed: bool = True) -> OptimizeOptions:
    """Return the optimizer's options, from the group ``OPTIM``; ``prefixed``: whether they have the group's prefix."""
    return fields_from(options, OptimizeOptions(), "optimization." if prefixed else "")


def compiler_options(options: Options, prefixed: bool = True) -> CompilerOptions:
    """Return the compiler's options, from the groups ``DEVICE`` and ``COMPILER``.

    ``prefixed``: whether the options of ``COMPILER`` have the group's prefix.
    """
    with_prefix = fields_from(options, CompilerOptions(), "compiler.")
    return with_prefix if prefixed else fields_from(options, with_prefix)


def log_diagnostics(diagnostics: Any, examples: Iterable[tuple[str, Any]]) -> int:
    """Add examples, pairs (key, example), to diagnostics and log the totals; return the exit status.

    The status is 1 if no output had any weight.
    """
    for key, eg in examples:
        with within(f"example {key}"):
            diagnostics.compute(eg)
    has_weight = diagnostics.log_totals()
    diagnostics.compiler.log_time()
    return 0 if has_weight else 1


def chosen_device(options: Options) -> str:
    """Return the device that ``--device``, else ``--use-gpu``, asks for: "cpu" or "cuda".

    Only ``--use-gpu=yes`` and ``--device=cuda`` fail without a GPU. ``--use-gpu=wait``, the default of Kaldi's recipes,
    waits for a GPU that others use; without any GPU the CPU computes, as with a Kaldi that was built without CUDA.
    """
    wish = options.use_gpu
    if options.device:
        wish = "yes" if options.device == "cuda" else "no"
    return device_for(wish, options.cuda_use_tensor_cores)


def device_for(wish: str, use_tensor_cores: bool = False) -> str:
    """Return the device, "cpu" or "cuda", for a value of ``--use-gpu``.

    Parameters
    ----------
    wish : "yes", "no", "optional" or "wait"
    use_tensor_cores : whether products on the GPU may be computed with TF32

    Raises
    ------
    DeviceError : "yes", but no GPU can be used
    """
    if wish == "no":
        return "cpu"
    reason = _wait_for_gpu(wish)
    if reason is None:
        if use_tensor_cores:
            from nnet3py.ops.cuda.cublas import allow_tf32

            allow_tf32(True)
        if log.verbose() >= 1:
            log.vlog(1, f"Computing on {_describe_gpu()}")
        return "cuda"
    if wish == "optional":
        log.vlog(1, f"Computing on the CPU: {reason}")
        return "cpu"
    if wish == "wait":
        log.warning(f"--use-gpu=wait, but {reason}: computing on the CPU")
        return "cpu"
    raise DeviceError(f"A GPU was asked for, but {reason}",
                      "--use-gpu=optional takes one if there is one, --use-gpu=no computes on the CPU")


def _wait_for_gpu(wish: str) -> str | None:
    """Return None once a GPU can be used, or the reason why none can.

    If other processes use all GPUs, "yes" tries once more, "wait" until one is free.
    """
    seconds, waited = {"yes": RETRY_ONCE_AFTER, "wait": RETRY_EVERY}.get(wish, 0), 0
    while True:
        busy: list[DeviceError] = []
        reason = why_no_gpu(busy)
        if not busy or not seconds or (wish == "yes" and waited):
            break
        if not waited:
            again = "indefinitely every" if wish == "wait" else "to get a GPU after"
            log.log(f"Will try again {again} {seconds} seconds: {reason}")
        time.sleep(seconds)
        waited += seconds
    if waited:
        log.warning(f"Waited {waited} seconds before creating CUDA context")
    return reason


def _describe_gpu() -> str:
    from nnet3py.ops.device import describe

    return describe("cuda")


def has_gpu_files() -> bool:
    """Return whether a GPU's driver is loaded (or numba simulates a GPU) and visible to the process.

    No module is imported for this.
    """
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "1":
        return True
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return any(os.path.exists(path) for path in _GPU_FILES) and (visible is None or visible.strip() not in ("", "-1"))


def why_no_gpu(busy: list[DeviceError] | None = None) -> str | None:
    """Return the reason why no GPU can be used, or None if a GPU can be used.

    Without a driver, numba.cuda is not imported. If other processes use all GPUs, the error is appended to ``busy``.
    """
    if not has_gpu_files():
        return "this machine has no NVIDIA GPU that the process can see"
    try:
        from nnet3py.ops import get_ops
        from nnet3py.ops.device import DeviceBusy

        get_ops("cuda")
        return None
    except (DeviceError, ImportError) as error:
        if busy is not None and isinstance(error, DeviceBusy):
            busy.append(error)
        return str(error)
