"""The number of threads, and that no BLAS has any of its own."""
from __future__ import annotations

import os

import pytest
import threadpoolctl

from nnet3py.engine import team, threads
from nnet3py.errors import UsageError
from nnet3py.ops import get_ops


@pytest.fixture(autouse=True)
def restore():
    yield
    threads.set_num_threads(None)


def blas_threads() -> dict[str, int]:
    return {library["filepath"]: library["num_threads"] for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"}


def test_default_is_what_this_process_may_use(monkeypatch):
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    get_ops("cpu")
    threads.set_num_threads(None)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads.num_threads() == threads.available_cores() == cores


@pytest.mark.parametrize("count", [1, 2])
def test_the_team_has_the_threads_and_every_blas_one(count):
    threads.set_num_threads(count)
    assert threads.num_threads() == team.size() == count
    assert set(blas_threads().values()) == {1}


def test_negative_count():
    with pytest.raises(UsageError, match="--num-threads=-1"):
        threads.set_num_threads(-1)
