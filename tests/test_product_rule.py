"""engine/product_rule.py: which products BLAS computes, and what is kept of that."""
from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT

from nnet3py.engine import product_rule
from nnet3py.engine.processor import GENERIC, processor
from nnet3py.engine.product_rule import ALL_BLAS, LARGE, NO_BLAS, class_of
from nnet3py.ops import get_ops

ROUNDING = 1e-5       # float32 sums of 200 products, relative to the largest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which a rule can be kept; the process's own holds again afterwards."""
    before = product_rule.rule()
    monkeypatch.setattr(product_rule, "cache_folder", lambda: tmp_path)
    tmp_path.chmod(0o700)
    yield tmp_path
    product_rule.set_rule(before)


def test_classes_are_told_by_form_and_size() -> None:
    forms = [(a, b) for a in (False, True) for b in (False, True)]
    numbers = [class_of(*shape, *form) for form in forms for shape in ((LARGE - 1, 500, 500), (LARGE, LARGE, LARGE))]
    assert numbers == list(range(product_rule.NUM_CLASSES))


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("m", [70, 200])
def test_kernels_obey_the_rule(trans_a: bool, trans_b: bool, m: int) -> None:
    """What they take for BLAS counts its calls."""
    ops, rng, calls = get_ops("cpu"), np.random.default_rng(0), []
    a = rng.standard_normal((150, m) if trans_a else (m, 150)).astype(np.float32)
    b = rng.standard_normal((130, 150) if trans_b else (150, 130)).astype(np.float32)
    wanted = (a.T if trans_a else a).astype(np.float64) @ (b.T if trans_b else b)
    counter = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(lambda *_: calls.append(1))
    own = 1 << class_of(m, 130, 150, trans_a, trans_b)
    dst = np.zeros((m, 130), np.float32)
    for rule in (NO_BLAS, own, ALL_BLAS & ~own):
        product_rule.set_rule(rule)
        ops.add_mat_mat(dst, a, b, 1.0, 0.0, trans_a, trans_b)
        assert np.abs(dst - wanted).max() <= ROUNDING * np.abs(wanted).max()
        product_rule.words[product_rule.SGEMM] = ctypes.cast(counter, ctypes.c_void_p).value
        calls.clear()
        ops.add_mat_mat(dst, a, b, 1.0, 0.0, trans_a, trans_b)
        assert bool(calls) == (rule == own)
        product_rule.load_blas()


def test_a_rule_is_kept_for_this_processor(folder: Path) -> None:
    assert product_rule.measured() is None
    (folder / product_rule.FILE).write_text(json.dumps({"another processor": {"rule": 3}}))
    (folder / product_rule.FILE).chmod(0o600)
    assert product_rule.measured() is None
    assert product_rule.keep(5) == folder / product_rule.FILE and product_rule.measured() == 5
    assert json.loads((folder / product_rule.FILE).read_text())["another processor"] == {"rule": 3}
    assert product_rule.drop() and not product_rule.drop() and product_rule.measured() is None


@pytest.mark.parametrize("content", ["", "[", "[1]", "3", '{"KEY": 3}', '{"KEY": {"rule": "x"}}',
                                     '{"KEY": {"rule": -1}}', '{"KEY": {"rule": 256}}', '{"KEY": null}'])
def test_a_damaged_file_is_not_used(folder: Path, caplog: pytest.LogCaptureFixture, content: str) -> None:
    (folder / product_rule.FILE).write_text(content.replace("KEY", product_rule._key()))
    (folder / product_rule.FILE).chmod(0o600)
    assert product_rule.measured() is None
    assert product_rule.FILE in caplog.text
    assert product_rule.keep(1).name == product_rule.FILE and product_rule.measured() == 1


@pytest.mark.parametrize("rule", [NO_BLAS, ALL_BLAS])
def test_a_process_begins_with_the_rule(tmp_path: Path, rule: int) -> None:
    """And loads BLAS if it needs it only."""
    program = ("import sys; from nnet3py.engine import product_rule\n"
               "print(product_rule.rule(), product_rule.words[product_rule.SGEMM] != 0, 'numba' in sys.modules)")
    environment = {**os.environ, "NNET3PY_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    product_rule.keep(rule)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(rule), str(rule != NO_BLAS), "False"]


def test_what_is_built_in_goes_by_the_kind() -> None:
    assert product_rule.built_in() == (ALL_BLAS if processor().kind == GENERIC else NO_BLAS)
