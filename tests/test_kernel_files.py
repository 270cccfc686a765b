"""nnet3py/engine/kernel_files.py and compiling.py: what compiled functions take, return and refuse."""
from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.core import types
from paths import ROOT

from nnet3py.engine import code_files, compiling, kernel_files
from nnet3py.engine.kinds import TYPES, kinds_of
from nnet3py.ops import get_ops


def compiled(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    return kernel_files.function_of(compiling.make(function, signature), function.__name__)


def _weighted(matrix, weight):
    total = 0.0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * (10 * i + j) * weight
    return total


def _first_two(vector):
    return int(vector[0]) + int(vector[1])


def _numbers(a, b, count, flag):
    return (a - b) * count if flag else -1.0


@pytest.fixture(scope="module")
def weighted() -> Callable[..., Any]:
    return compiled(_weighted, kinds_of("mat f64"))


@pytest.fixture(scope="module")
def numbers() -> Callable[..., Any]:
    return compiled(_numbers, kinds_of("f32 f64 int bool"))


def test_rows_of_any_distance(weighted: Callable[..., Any]) -> None:
    whole = np.arange(30, dtype=np.float32).reshape(5, 6)
    for matrix in (whole, whole[1:3, 2:5], whole[::2], whole[:0], whole[:, :0], whole.view(Other)):
        assert weighted(matrix, 2.0) == sum(value * (10 * i + j) * 2.0 for (i, j), value in np.ndenumerate(matrix))


class Other(np.ndarray):
    """A subclass of numpy's arrays."""


@pytest.mark.parametrize("order", ["=", "<" if sys.byteorder == "little" else ">"])
def test_byte_orders_of_this_machine(weighted: Callable[..., Any], order: str) -> None:
    assert weighted(np.array([[0, 1], [2, 3]], dtype=f"{order}f4"), 1) == 1 + 20 + 33


@pytest.mark.parametrize(("matrix", "expected"), [
    (None, "expected a float32 matrix"), ([[1.0]], "expected a float32 matrix"),
    (np.float32(1), "expected a float32 matrix"), (np.zeros(3, np.float32), "expected a float32 matrix"),
    (np.zeros((2, 2, 2), np.float32), "expected a float32 matrix"), (np.zeros((2, 2)), "expected a float32 matrix"),
    (np.zeros((2, 2), np.int32), "expected a float32 matrix"),
    (np.zeros((2, 2), ">f4" if sys.byteorder == "little" else "<f4"), "in the machine's byte order"),
    (np.broadcast_to(np.float32(1), (2, 2)), "that can be written"),
    (np.zeros(17, np.int8)[1:].view(np.float32).reshape(2, 2), "that can be written"),      # at an odd address
])
def test_other_arrays_are_refused(weighted: Callable[..., Any], matrix: Any, expected: str) -> None:
    with pytest.raises(TypeError, match=rf"_weighted\(\): matrix: .*{expected}"):
        weighted(matrix, 1.0)


def test_vectors_are_contiguous() -> None:
    for kind, dtype in (("vec", np.float32), ("dvec", np.float64), ("ivec", np.int32), ("lvec", np.int64)):
        first_two = compiled(_first_two, kinds_of(kind))
        vector = np.arange(5, 9).astype(dtype)
        assert first_two(vector) == 11
        with pytest.raises(TypeError, match="contiguous"):
            first_two(vector[::2])
    for same_size in (np.dtype("long"), np.dtype("longlong")):      # two of numpy's dtypes may be int64
        if same_size == np.dtype(np.int64):
            assert compiled(_first_two, kinds_of("lvec"))(np.array([1, 2], same_size)) == 3


def test_numbers_of_many_kinds(numbers: Callable[..., Any]) -> None:
    assert numbers(0.5, 0.25, 8, True) == 2.0
    assert numbers(np.float32(0.5), np.float64(0.25), np.int64(8), np.bool_(True)) == 2.0
    assert numbers(1, 0, 2**40, 1) == 2.0**40 and numbers(-1.0, -1, -1, []) == -1.0
    assert numbers(0.1, 0.0, 1, True) == float(np.float32(0.1))
    assert math.isnan(numbers(math.nan, 0.0, 1, True)) and numbers(math.inf, 0.0, 1, True) == math.inf


@pytest.mark.parametrize(("arguments", "error"), [
    (("1", 0.0, 1, True), TypeError), ((1.0, 0.0, 1.5, True), TypeError), ((1.0, 0.0, 2**70, True), OverflowError),
    ((1.0, 0.0, 1), TypeError), ((1.0, 0.0, 1, True, 1), TypeError), ((), TypeError),
    ((1.0, 0.0, 1, np.zeros(2)), ValueError)])
def test_other_numbers_are_refused(numbers: Callable[..., Any], arguments: tuple[Any, ...],
                                   error: type[Exception]) -> None:
    with pytest.raises(error):
        numbers(*arguments)
    assert numbers(1.0, 0.0, 1, True) == 1.0


def _scaled(vector, factor=2.0, backwards=False):
    for i in range(vector.shape[0]):
        vector[i] *= -factor if backwards else factor


def test_default_values_and_names() -> None:
    scaled, vector = compiled(_scaled, kinds_of("vec f32 bool")), np.ones(1, np.float32)
    assert scaled(vector) is None and vector[0] == 2.0
    scaled(vector, backwards=True)
    assert vector[0] == -4.0
    scaled(vector, 0.5)
    assert vector[0] == -2.0


def _sum_of(values, count):
    total = 0
    for i in range(count):
        total += values[i]
    return total


def test_addresses_and_bytes() -> None:
    sum_of = compiled(_sum_of, (types.CPointer(types.uint8), types.intp))
    values = (ctypes.c_uint8 * 3)(1, 2, 250)
    assert sum_of(ctypes.addressof(values), 3) == sum_of(bytes(values), 3) == 253
    for wrong in (0, None, "12", 1.5):
        with pytest.raises(TypeError, match="values: expected bytes or an address"):
            sum_of(wrong, 3)


def test_references_are_counted(weighted: Callable[..., Any]) -> None:
    matrix, weight = np.zeros((2, 2), np.float32), 2.0**70
    before = sys.getrefcount(matrix), sys.getrefcount(weight)
    for _ in range(1000):
        weighted(matrix, weight)
    assert (sys.getrefcount(matrix), sys.getrefcount(weight)) == before


def _allocating(vector):
    copied = vector.copy()
    for i in range(vector.shape[0]):
        vector[i] += copied[vector.shape[0] - 1 - i]


def test_what_needs_numba_at_run_time_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be kept on disk: it calls .*NRT_"):
        compiling.make(_allocating, (TYPES["vec"],))


def test_one_name_twice() -> None:
    """Functions of one name, as two tests may have, do not become one."""
    code = compiling.make(_first_two, kinds_of("ivec"))
    first, second = (kernel_files.function_of(code, "first_two") for _ in range(2))
    values = np.array([3, 4], np.int32)
    assert first(values) == second(values) == 7 and len(code_files._engines) >= 2


# Kernels from the disk, and a function that numba compiles, in the order given; each gets what it is to refuse.
REFUSALS = """
import sys
from nnet3py.ops import get_ops

def numba():
    import numba
    numba.njit(lambda values: len(values))([1, 2.0])        # its machine code finds out

steps = {"numba": numba, "set_const": lambda: get_ops("cpu").set_const(None, 2.0),
         "add_mat": lambda: get_ops("cpu").add_mat(None, None, 2.0)}
for place, name in enumerate(sys.argv[1:]):
    try:
        steps[name]()
    except TypeError as error:
        print(error)
    assert place or ("numba" in sys.modules) == (name == "numba")
"""


@pytest.mark.parametrize("steps", [("set_const", "numba", "add_mat", "set_const"), ("numba", "set_const", "numba")])
def test_numba_and_kernels_in_one_process(steps: tuple[str, ...]) -> None:
    """LLVM's symbols are the whole process's: none of ours may have a name to which numba gives another meaning."""
    ops, matrix = get_ops("cpu"), np.zeros((2, 2), np.float32)
    ops.set_const(matrix, 2.0)
    ops.add_mat(matrix, matrix, 2.0)          # so that they are on the disk
    done = subprocess.run([sys.executable, "-c", REFUSALS, *steps], cwd=ROOT, capture_output=True, text=True)
    expected = {"numba": "can't unbox heterogeneous list: int64 != float64",
                "set_const": "set_const(): dst: expected a float32 matrix",
                "add_mat": "add_mat(): dst: expected a float32 matrix"}
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [expected[step] for step in steps]
