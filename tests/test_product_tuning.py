"""ops/product_tuning.py and nnet3py tune: the faster way is chosen, class by class, and kept."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from paths import ROOT

from nnet3py.engine import product_rule
from nnet3py.engine.product_rule import FORMS
from nnet3py.ops import product_tuning
from nnet3py.ops.product_tuning import Measured, measure, rule_of


@pytest.mark.parametrize("slower", [0, 1])
def test_the_faster_way_is_chosen(slower: int) -> None:
    """A clock that says which way is slower; the products are computed, but not measured."""
    before = product_rule.rule()
    seen: list[int] = []

    def clock(product: Callable[[], object]) -> float:
        seen.append(product_rule.rule())
        return 2.0 if bool(product_rule.rule()) == bool(slower) else 1.0

    results = list(measure(clock))
    assert [(result.form, result.is_large) for result in results] == [(form, size) for form in FORMS
                                                                      for size in (False, True)]
    assert {result.chosen for result in results} == {"tiles" if slower else "BLAS"}
    assert rule_of(results) == (product_rule.NO_BLAS if slower else product_rule.ALL_BLAS)
    assert len(seen) == 2 * len(FORMS) * len(product_tuning.SHAPES) and product_rule.rule() == before


def test_a_small_gain_does_not_count() -> None:
    rates = [1.0, product_tuning.MARGIN - 0.01, product_tuning.MARGIN + 0.01]
    assert rule_of([Measured("plain", False, 1.0, rate) for rate in rates]) == 0b100


def test_the_clock_repeats_short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_tuning, "_LEAST_SECONDS", 1e-4)
    calls: list[int] = []
    assert 0 < product_tuning._seconds(lambda: calls.append(1)) < 1e-4
    assert len(calls) > 50


def run(folder: Path, *words: str) -> tuple[str, str]:
    """The output and the log of the command."""
    environment = {**os.environ, "NNET3PY_CACHE": str(folder)}
    done = subprocess.run([sys.executable, "-m", "nnet3py", "tune", *words], cwd=ROOT, env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow
def test_the_command_measures_and_keeps(tmp_path: Path) -> None:
    """Slow: in a cache of its own kernels are compiled."""
    table, log = run(tmp_path, "--dry-run")
    lines = table.splitlines()[2:]
    assert len(lines) == product_rule.NUM_CLASSES and all(line.split()[-1] in ("tiles", "BLAS") for line in lines)
    assert "Kept" not in log and not (tmp_path / product_rule.FILE).exists()
    assert f"Kept in {tmp_path / product_rule.FILE}" in run(tmp_path)[1]
    assert "Removed the measured rule" in run(tmp_path, "--reset")[1] and not (tmp_path / product_rule.FILE).exists()


@pytest.mark.parametrize("rule", [0b00000001, 0b10000000])
def test_what_holds_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: int) -> None:
    assert run(tmp_path, "--show")[0].splitlines()[0] == "built in"
    monkeypatch.setattr(product_rule, "cache_folder", lambda: tmp_path)
    product_rule.keep(rule)
    first, *lines = run(tmp_path, "--show")[0].splitlines()
    assert first == f"measured: {tmp_path / product_rule.FILE}"
    assert [line.split()[-1] for line in lines] == ["BLAS" if rule >> number & 1 else "tiles" for number in range(8)]


def test_nothing_is_there_to_reset(tmp_path: Path) -> None:
    assert "There is no measured rule" in run(tmp_path, "--reset")[1]
