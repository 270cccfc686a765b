"""The number of threads, and that only one BLAS uses them."""
from __future__ import annotations

import os

import numba
import numpy as np
import pytest
import threadpoolctl

from nnet3py.errors import UsageError
from nnet3py.ops import get_ops, threads
from nnet3py.ops.cpu import blas, products


@pytest.fixture(autouse=True)
def restore():
    yield
    threads.set_num_threads(None)


def blas_threads() -> dict[str, int]:
    return {library["filepath"]: library["num_threads"] for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"}


def test_default_is_what_this_process_may_use():
    get_ops("cpu")
    threads.set_num_threads(None)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads.num_threads() == threads.available_cores() == cores


@pytest.mark.parametrize("count", [1, 2])
def test_libraries_obey(count):
    threads.set_num_threads(count)
    assert threads.num_threads() == count
    assert numba.get_num_threads() == min(count, numba.config.NUMBA_NUM_THREADS)
    counts = blas_threads()
    assert max(counts.values()) == count
    if len(counts) > 1:      # numpy's and scipy's wheels each bring one
        assert sorted(counts.values()) == [1] * (len(counts) - 1) + [count]
        assert not blas.is_numpys_own(max(counts, key=counts.__getitem__)) or count == 1


def test_whose_library_it_is():
    assert blas.is_numpys_own("/lib/site-packages/numpy.libs/libopenblas.so")
    assert blas.is_numpys_own("/lib/site-packages/numpy/.dylibs/libopenblas.dylib")
    assert not blas.is_numpys_own("/home/me/numpy/lib/site-packages/scipy.libs/libopenblas.so")
    assert not blas.is_numpys_own("/opt/conda/lib/libopenblas.so")


def test_negative_count():
    with pytest.raises(UsageError, match="--num-threads=-1"):
        threads.set_num_threads(-1)


def test_only_large_products_use_several_threads():
    threads.set_num_threads(2)
    used = {}
    for size in (16, 500):    # 8e3 and 2.5e8 operations
        a = np.ones((size, size), dtype=np.float32)
        get_ops().add_mat_mat(np.empty_like(a), a, a, 1.0, 0.0)
        used[2 * size ** 3 >= products.LEAST_WORK_FOR_THREADS] = max(blas_threads().values())
    openblas = any(library.internal_api == "openblas" for library in blas.blas_libraries())
    assert used == ({False: 1, True: 2} if openblas else {False: 2, True: 2})
