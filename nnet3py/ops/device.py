"""The GPU that this process uses, if there is one. The only module that imports ``numba.cuda``."""
from __future__ import annotations

import logging
import os
import sys
import threading
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nnet3py.errors import DeviceError

_ADVICE = "use device='cpu', or install NVIDIA's driver and the CUDA toolkit; `numba -s` shows what numba finds"


def toolkit_folders() -> list[Path]:
    """Return the existing folders of CUDA toolkits: ``CUDA_HOME``, ``/usr/local/cuda``, and those of wheels."""
    named = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    wheels = [Path(entry) / "nvidia" / "cuda_nvcc" for entry in sys.path]
    return [folder for folder in (*named, Path("/usr/local/cuda"), *wheels) if folder.is_dir()]


def _show_compiler_to_numba() -> None:
    """Tell numba where its compiler NVVM is if it is in a wheel: numba searches only toolkits."""
    folder = next((folder for folder in toolkit_folders() if (folder / "nvvm").is_dir()), None)
    if folder is None or folder.name != "cuda_nvcc" or is_simulated():
        return
    os.environ.setdefault("CUDA_HOME", str(folder))
    try:
        from numba.cuda.cuda_paths import get_cuda_paths
    except ImportError:
        return                  # the package numba-cuda knows the wheels
    paths, library = get_cuda_paths(), next(folder.glob("nvvm/*/*nvvm*.[sd][ol]*"), None)
    if paths["nvvm"].info is None and library is not None:      # in wheels its name lacks the version
        paths["nvvm"] = paths["nvvm"]._replace(info=str(library))


# Settings of numba, unless the user has set them: it warns at each launch of few blocks, and small matrices have only
# few; and after every ten arrays that are no longer used it waits for the GPU, to free them.
_NUMBA_SETTINGS = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": ("CUDA_LOW_OCCUPANCY_WARNINGS", 0),
                   "NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT": ("CUDA_DEALLOCS_COUNT", 1000)}


def _set_up_numba() -> None:
    from numba.core import config

    for variable, (name, value) in _NUMBA_SETTINGS.items():
        setattr(config, name, int(os.environ.setdefault(variable, str(value))))     # it may read the variables again


def _restore_row_stack() -> None:
    """Define ``numpy.row_stack``, missing from numpy 2.5 on, which numba-cuda up to 0.30 needs for its first kernel."""
    import numpy as np

    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined]


def cuda() -> Any:
    """Return the module ``numba.cuda``. Raises DeviceError: the module cannot be imported."""
    logging.getLogger("numba.cuda.cudadrv.driver").setLevel(logging.WARNING)   # it logs each call of the driver
    _set_up_numba()
    _show_compiler_to_numba()
    try:
        from numba import cuda as module
    except ImportError as error:
        raise DeviceError(f"numba's CUDA target cannot be imported: {error}", _ADVICE) from error
    if not is_simulated():
        _restore_row_stack()
    else:
        sys.setswitchinterval(1e-6)      # the simulator waits for its threads in busy loops
    return module


def libdevice() -> Any:
    """Return the module ``numba.cuda.libdevice``: mathematical functions for kernels. The simulator has none."""
    cuda()
    from numba.cuda import libdevice as module
    return module


@cache
def compiler() -> str:
    """Return the end of a folder's name with the version of numba-cuda; empty if that package is not installed."""
    try:
        return f"-numba-cuda-{version('numba-cuda')}"
    except PackageNotFoundError:
        return ""


def driver_library() -> Any:
    """Return the NVIDIA driver that numba uses as a ctypes library. Raises OSError or AttributeError without one."""
    import ctypes

    module = cuda()
    loaded = getattr(module.cudadrv.driver.driver, "lib", None)
    if isinstance(loaded, ctypes.CDLL):
        return ctypes.CDLL(loaded._name)         # an object of its own, since numba declares its functions otherwise
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


def is_simulated() -> bool:
    """Return whether ``NUMBA_ENABLE_CUDASIM=1`` makes numba run CUDA kernels as Python."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def unavailable_reason() -> str | None:
    """Return why no GPU can be used, in a few words; None if one can."""
    try:
        module = cuda()
        if module.is_available():
            return None
        cause = getattr(module, "cuda_error", lambda: None)()
    except DeviceError as error:
        return error.message
    return "no usable CUDA device" + (f": {' '.join(str(cause).split('.')[0].split())}" if cause else "")


def is_available() -> bool:
    """Return whether ``device="cuda"`` can be used here."""
    return unavailable_reason() is None


class DeviceBusy(DeviceError):
    """Failure to get a GPU: other processes use all of them exclusively, or their memory is full."""


_selected: int | None = None
_selecting = threading.Lock()


def _forget_lock() -> None:
    """Make a new lock in a forked child: a thread that the child does not have may hold the old one."""
    global _selecting
    _selecting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)


def require_cuda() -> None:
    """Select a GPU for this thread: of those in ``CUDA_VISIBLE_DEVICES`` the one with the most free memory.

    All threads of the process use the same GPU. Raises DeviceError: there is no usable GPU; the message says why and
    what to try; DeviceBusy: there are GPUs, but on none can this process make a context now.
    """
    global _selected
    reason = unavailable_reason()
    if reason is not None:
        raise DeviceError(f"device 'cuda' cannot be used: {reason}", _ADVICE)
    if is_simulated():
        return
    with _selecting:
        module = cuda()
        if _selected is None:
            _selected = _roomiest(module)
        try:
            module.select_device(_selected)
            module.current_context()
        except Exception as error:      # the driver's errors are of several classes
            number, _selected = _selected, None
            raise _busy([f"GPU {number}: {error}"]) from error


def _roomiest(module: Any) -> int:
    """Return the number of the GPU with the most free memory, the first of equal ones. Kaldi: SelectGpuIdAuto."""
    count, causes, by_memory = len(module.gpus), [], []
    if count == 1:
        return 0
    for number in range(count):
        try:
            by_memory.append((-_free_memory_of(number), number))
        except OSError as error:
            causes.append(f"GPU {number}: {error}")
    if not by_memory:
        raise _busy(causes)
    return min(by_memory)[1]


def _free_memory_of(number: int) -> int:
    """Return the free bytes of a GPU's memory. Raises OSError if this process cannot make a context on it.

    The driver is called directly: numba would keep the contexts of all GPUs, which take memory, or destroy those that
    other libraries in this process have made.
    """
    import ctypes

    driver, ordinal, context = driver_library(), ctypes.c_int(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()

    def call(name: str, *args: Any) -> None:
        status = getattr(driver, name)(*args)
        if status != 0:
            raise OSError(f"{name} returns {status}")

    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(ordinal), number)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
    try:
        call("cuCtxPushCurrent_v2", context)
        try:
            call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        finally:
            call("cuCtxPopCurrent_v2", ctypes.byref(context))
    finally:
        call("cuDevicePrimaryCtxRelease_v2", ordinal)
    return free.value


def _busy(causes: list[str]) -> DeviceBusy:
    return DeviceBusy(f"no GPU can be used now: {'; '.join(causes)}", "nvidia-smi shows who uses them")


def describe(device: str) -> str:
    """Return a line about a device for logs: its name, and its threads or its compute capability.

    Raises DeviceError: the device is unknown or cannot be used.
    """
    if device == "cpu":
        from nnet3py.engine.processor import processor
        from nnet3py.engine.threads import num_threads

        made_for = processor()
        return f"cpu ({made_for.model}, {made_for.kind}, {num_threads()} threads)"
    if device != "cuda":
        raise DeviceError(f"unknown device {device!r}, expected 'cpu' or 'cuda'")
    require_cuda()
    if is_simulated():
        return "cuda (numba's simulator)"
    current = cuda().get_current_device()
    name = current.name.decode() if isinstance(current.name, bytes) else current.name
    free, total = cuda().current_context().get_memory_info()
    return (f"cuda ({name}, compute capability {'.'.join(str(part) for part in current.compute_capability)}, "
            f"{free / 2**20:.0f} of {total / 2**20:.0f} MB free)")
