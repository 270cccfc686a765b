"""The number of threads, and that no BLAS has any of its own while ours compute, and its own again after that."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import nnet3py
from nnet3py.engine import product_rule, team, threads
from nnet3py.errors import UsageError
from nnet3py.ops import get_ops
from nnet3py.recognition.stream_decoder import StreamDecoder
from nnet3py.runtime.binding import Stage
from nnet3py.runtime.blas_threads import BlasAlone

DEMO = Path(nnet3py.__file__).parent / "recognition" / "demo_model"
USERS = 2         # threads that a user lets BLAS have

pytestmark = pytest.mark.usefixtures("threads_as_before")


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
def test_the_team_has_the_threads_and_in_a_command_every_blas_one(monkeypatch, count):
    monkeypatch.setattr(threads, "_process_is_ours", True)
    with threadpoolctl.threadpool_limits(USERS, "blas"):
        threads.set_num_threads(count)
        assert threads.num_threads() == team.size() == count
        assert set(blas_threads().values()) == {1}


@pytest.fixture
def with_blas(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products go to BLAS, which a user lets have threads."""
    monkeypatch.setattr(threads, "_process_is_ours", False)         # tests of commands say that it is
    before = product_rule.rule()
    product_rule.set_rule(product_rule.ALL_BLAS)
    with threadpoolctl.threadpool_limits(USERS, "blas"):
        yield
    product_rule.set_rule(before)


def seen_by_a_stage() -> set[int]:
    seen: set[int] = set()
    Stage({}, [(lambda: seen.update(blas_threads().values()), ())], []).run()
    return seen


def test_blas_has_one_thread_while_a_stage_runs_and_then_as_many_as_before(with_blas):
    assert seen_by_a_stage() == {1}
    assert set(blas_threads().values()) == {USERS}


def test_stages_in_other_threads_and_within_each_other(with_blas):
    with ThreadPoolExecutor(1) as pool, BlasAlone():
        assert pool.submit(seen_by_a_stage).result() == {1}
        assert seen_by_a_stage() == {1}
        assert set(blas_threads().values()) == {1}          # somebody is still inside
    assert set(blas_threads().values()) == {USERS}


def test_a_number_that_a_user_chooses_meanwhile_stays(with_blas):
    with BlasAlone():
        threadpoolctl.threadpool_limits(USERS + 1, "blas")
    assert set(blas_threads().values()) == {USERS + 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_child_that_was_forked_meanwhile_has_its_threads_back(with_blas):
    with BlasAlone():
        child = os.fork()
        if not child:
            os._exit(0 if set(blas_threads().values()) == {USERS} else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert set(blas_threads().values()) == {1}


def test_where_no_product_goes_to_blas_it_is_left_alone(with_blas):
    product_rule.set_rule(product_rule.NO_BLAS)
    assert seen_by_a_stage() == {USERS}


def test_a_stream_takes_one_thread_of_numpys_blas(with_blas, monkeypatch):
    product_rule.set_rule(product_rule.NO_BLAS)
    seen: set[int] = set()
    accept = StreamDecoder.accept_waveform

    def watched(*args: Any) -> None:
        seen.update(blas_threads().values())
        accept(*args)

    monkeypatch.setattr(StreamDecoder, "accept_waveform", watched)
    stream = nnet3py.Recognizer(DEMO).stream(16000)
    stream.accept_waveform(np.zeros(16000, dtype=np.int16))
    assert seen == {1}
    assert set(blas_threads().values()) == {USERS}


@pytest.mark.parametrize("rule", [product_rule.NO_BLAS, product_rule.ALL_BLAS])
def test_numpy_has_its_threads_after_the_first_compute_and_train(rule):
    program = """
import sys
import numpy as np
import threadpoolctl
import nnet3py
from nnet3py.engine import product_rule

product_rule.set_rule(int(sys.argv[1]))
nnet = nnet3py.Nnet.from_config('''
input-node name=input dim=3
component name=affine type=NaturalGradientAffineComponent input-dim=3 output-dim=2
component-node name=affine component=affine input=input
output-node name=output input=affine objective=quadratic''')

def numbers():
    return {each["filepath"]: each["num_threads"] for each in threadpoolctl.threadpool_info()
            if each["user_api"] == "blas"}

threadpoolctl.threadpool_limits(2, "blas")
before = numbers()
feats = np.ones((20, 3), np.float32)
nnet3py.compute(nnet, feats)
nnet3py.train(nnet, feats, np.ones((20, 2), np.float32))
after = numbers()
print({after[path] for path in before} == {2} or (before, after))
"""
    printed = subprocess.run([sys.executable, "-c", program, str(rule)], text=True, capture_output=True, check=True)
    assert printed.stdout == "True\n"


def test_negative_count():
    with pytest.raises(UsageError, match="--num-threads=-1"):
        threads.set_num_threads(-1)
