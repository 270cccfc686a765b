"""Lets the tests of the CPU's operations run on CUDA: a pytest plugin that changes ``get_ops``.

``NUMBA_ENABLE_CUDASIM=1 pytest -p simulated_ops tests/test_ops_rows.py`` runs them in numba's simulator, with grids and
blocks that no size is a multiple of; without the variable they run on a GPU, with the grids that are used there.
Arguments are host arrays, as the tests have them; each call copies them to the device and back, strides included.
"""
from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import numpy as np

import nnet3py.ops
from nnet3py.ops import device
from nnet3py.ops.resources import Random

LAUNCHES = [((1, 1), (1, 1)), ((2, 1), (3, 2)), ((1, 2), (2, 5)), ((2, 2), (4, 1))]      # grid and block
MOST_ELEMENTS = 100      # of a matrix in the simulator
TOO_LARGE = {"test_long_sums_stay_accurate", "test_distributions",
             "test_where_rotations_vanish", "test_the_same_matrix_gives_the_same_bits",
             "test_exponential_is_accurate_over_its_whole_range",
             "test_an_affine_map_in_one_piece_has_the_bits_of_its_parts"}
OTHER_WORK_SPACE = {"test_denominator"}      # gpu_runs.py and test_cuda_chain.py have the GPU's


def storage(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory that ``array`` is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class SimulatedOps:
    """The operations of the device under test, for arguments on the host."""

    device = "cuda"

    def __init__(self, get_ops: Any) -> None:
        self._ops, self._cuda = get_ops("cuda"), device.cuda()
        self._launches = itertools.cycle(LAUNCHES)
        self._launch = LAUNCHES[0]
        self.random = Random(self)
        self.called: set[str] = set()

    def change_launch(self) -> None:
        """Use the next grid and block from now on."""
        self._launch = next(self._launches)

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._ops, name)
        self.called.add(name)
        if getattr(operation, "function", operation).__module__.startswith("nnet3py.ops.cpu"):
            return operation        # it is computed on the host
        return lambda *args, **named: self._call(operation, args, named)

    def _call(self, operation: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        from nnet3py.ops.cuda import launch

        copies: dict[int, tuple[np.ndarray, Any]] = {}
        ready = [self._on_device(arg, copies) for arg in args]
        with launch.forced_launch(*self._launch) if device.is_simulated() else nullcontext():
            result = operation(*ready, **named)
        for original, copy in copies.values():
            original[...] = copy.copy_to_host()
        return result

    def _on_device(self, arg: Any, copies: dict[int, tuple[np.ndarray, Any]]) -> Any:
        """A view of the copy of the array's storage; numbers become Python's."""
        if not isinstance(arg, np.ndarray):
            return arg.item() if isinstance(arg, np.generic) else arg
        whole = storage(arg)
        if id(whole) not in copies:
            copies[id(whole)] = whole, self._cuda.to_device(np.ascontiguousarray(whole).reshape(whole.shape))
        return view_like(self._cuda, copies[id(whole)][1], whole, arg)


def view_like(cuda: Any, copy: Any, whole: np.ndarray, view: np.ndarray) -> Any:
    """The part of ``copy``, a device array like ``whole``, that ``view`` is of ``whole``."""
    offset = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0] if view.size else 0
    if device.is_simulated():
        flat = copy.copy_to_host() if not copy.size else copy._ary
        return type(copy)(np.ndarray(view.shape, view.dtype, flat, offset, view.strides) if view.size
                          else np.empty(view.shape, view.dtype))
    if not view.size:
        return cuda.device_array(view.shape, view.dtype)
    interface = copy.__cuda_array_interface__ | {
        "shape": view.shape, "strides": view.strides, "typestr": view.dtype.str,
        "data": (copy.__cuda_array_interface__["data"][0] + offset, False)}
    made = cuda.as_cuda_array(type("Part", (), {"__cuda_array_interface__": interface})())
    made.owner = copy
    return made


def pytest_configure(config: Any) -> None:
    """Give the tests that ask for the CPU's operations those of the device instead."""
    get_ops = nnet3py.ops.get_ops
    config.simulated_ops = SimulatedOps(get_ops)
    nnet3py.ops.get_ops = lambda name="cpu": config.simulated_ops      # type: ignore[assignment]
    if device.is_simulated():
        import simulator_turns
        simulator_turns.install()
    config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")   # numpy's scalars warn of NaN and overflow


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave out what asks for the CPU's work space, and of the simulator what has too many elements for it."""
    items[:] = [item for item in items if getattr(item, "originalname", item.name) not in OTHER_WORK_SPACE]
    if device.is_simulated():
        items[:] = [item for item in items if item.name not in TOO_LARGE and not is_too_large(item)]


def is_too_large(item: Any) -> bool:
    """Whether a test is for matrices of a size, (rows, cols) or rows alone, that the simulator takes long for."""
    size = item.callspec.params.get("size") if hasattr(item, "callspec") else None
    return (isinstance(size, tuple) and size[0] * size[1] > MOST_ELEMENTS
            or isinstance(size, int) and size ** 2 > MOST_ELEMENTS)


def pytest_runtest_setup(item: Any) -> None:
    """Each test has another launch, but only one, since the order of a sum depends on it."""
    item.config.simulated_ops.change_launch()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which operations were called, so that a test can see that they were asked."""
    terminalreporter.write_line("operations called: " + " ".join(sorted(terminalreporter.config.simulated_ops.called)))
