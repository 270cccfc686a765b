"""numba's target for kernels, beside numba's own, which stays as it is: its code needs nothing of numba's."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from llvmlite import binding
from numba import njit as numbas
from numba import types
from paths import ROOT

from nnet3py.engine import compiling, kernel_files
from nnet3py.engine.inline import inline
from nnet3py.engine.processor import possible_kinds, processor

MATRIX = types.Array(types.float32, 2, "C")


@inline
def _row(matrix, i):
    return matrix[i]


@inline
def _larger(a, b):
    return max(a, b)


def _add_rows(matrix, floor):
    total = np.float32(0.0)
    for i in range(matrix.shape[0]):
        row = _row(matrix, i)
        for j in range(row.shape[0]):
            total += _larger(row[j], floor)
    return total


def test_functions_call_inlined_ones_and_return_views() -> None:
    code = compiling.make(_add_rows, (MATRIX, types.float32))
    function = kernel_files.function_of(code, "_add_rows")
    assert function(np.arange(6, dtype=np.float32).reshape(2, 3), 2.0) == 2 + 2 + 2 + 3 + 4 + 5


def test_an_object_file_has_one_function_and_nothing_of_numbas() -> None:
    code = compiling.make(_add_rows, (MATRIX, types.float32))
    names = set(re.findall(rb"[\w.$]*(?:NRT|numba)\w*", code.content))
    assert all(name.startswith((b"_ZN", b".const", b"nnet3py.entry", b"cpython")) or b"Env" in name for name in names)
    assert code.needs == ("nnet3py_array",)
    assert not re.search(rb"NRT_|PyObject_GetAttr|_larger\x00", code.content)


def test_what_allocates_is_refused() -> None:
    def allocates(count):
        return np.zeros(count)[0]

    with pytest.raises(ValueError, match="cannot be kept on disk: it calls NRT_"):
        compiling.make(allocates, (types.intp,))


def test_numbas_own_target_stays_as_it_was() -> None:
    """What users compile is made for this machine's processor, and is loaded by numba, before and after."""
    counts = numbas(lambda values: values.sum() + len([1, 2]))
    assert counts(np.ones(3)) == 5
    compiling.make(_add_rows, (MATRIX, types.float32))
    again = numbas(lambda values: np.sort(values)[0])
    assert again(np.array([3.0, 1.0])) == 1.0
    assert numbas(lambda values: counts(values) + 1)(np.ones(3)) == 6
    if "NUMBA_CPU_NAME" not in os.environ:
        target: Any = again.targetctx.codegen()
        assert target.magic_tuple()[1] == binding.get_host_cpu_name()


@pytest.mark.parametrize("kind", possible_kinds()[1:2])
def test_numba_may_have_been_used_before(kind: str) -> None:
    """A lesser kind than this machine's is chosen for kernels alone."""
    program = ("import numba, numpy; f = numba.njit(lambda x: x + 1); f(1)\n"
               "from nnet3py.engine import numba_target, processor\n"
               "print(numba_target.context().codegen()._tm_features, processor.processor().target, f(2.5))")
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "NNET3PY_CPU": kind}, cwd=ROOT,
                          capture_output=True, text=True, timeout=120)
    assert done.stdout.split()[-2:] == [processor_of(kind), "3.5"], done.stderr


def processor_of(kind: str) -> str:
    from nnet3py.engine.processor import least_of

    return least_of(kind, processor().triple).target


def test_constants_of_processors_end_in_code() -> None:
    """Code for the processor that was chosen: a fused product where it has one."""
    def scaled(x, y, z):
        for i in range(x.shape[0]):
            z[i] = x[i] * y[i] + z[i]

    vector = types.Array(types.float32, 1, "C")
    dispatcher = compiling._compiled(scaled, (vector,) * 3, {"contract"})
    dispatcher.library.object_file(compiling._python_entry(dispatcher, "scaled", ["x", "y", "z"]))
    text = dispatcher.library.get_asm_str()
    wanted = {"x86-64-v4": "zmm", "x86-64-v3": "ymm", "x86-64-v2": "xmm"}.get(processor().target, "")
    assert wanted in text and ("vfmadd" in text) == (processor().target in ("x86-64-v4", "x86-64-v3"))
