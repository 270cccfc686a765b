"""For which processor code is made: what NNET3PY_CPU may be, and the kernels' tests for each kind that runs here."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from llvmlite import binding
from paths import ROOT

from nnet3py.engine import code_files
from nnet3py.engine import processor as module
from nnet3py.engine.processor import AVX2, AVX512, GENERIC, KINDS, NEON, VARIABLE, possible_kinds, processor
from nnet3py.errors import UsageError
from nnet3py.ops import device

# What computes in ways that depend on the processor. Compiling takes most of the time, so of derivatives only what is
# made of products, sums of columns and sums of rows is run again.
KERNEL_TESTS = ["ops_products", "epilogue", "tiles", "ops_reductions", "ops_natural_gradient", "ops_nonlinear",
                "ops_statistics_pooling", "components_nonlinear", "derivatives"]
SELECTED = "(not test_derivatives or Affine or Tdnn or BatchNorm or Softmax)"
FEW = "test_products or test_values or test_lstm"      # products by tiles, elementwise ones, a recurrence
OTHERS = [kind for kind in possible_kinds() if kind != processor().kind]
BLAS = {AVX2: "Haswell", GENERIC: "Nehalem"}      # OpenBLAS's names for processors of these kinds


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Sets the variable, and forgets what was found before."""
    def chosen(value: str) -> None:
        monkeypatch.setenv(VARIABLE, value)
        processor.cache_clear()
        code_files._facts.cache_clear()

    yield chosen
    monkeypatch.undo()
    possible_kinds.cache_clear()
    processor.cache_clear()
    code_files._facts.cache_clear()


def test_the_best_kind_is_the_default(choose) -> None:
    choose("")
    assert processor().kind == possible_kinds()[0] and processor().is_this
    assert possible_kinds()[-1] == GENERIC
    choose(possible_kinds()[0])
    assert processor().is_this
    for kind in possible_kinds()[1:]:
        choose(kind)
        assert (processor().kind, processor().is_this) == (kind, False)
        assert device.describe("cpu").startswith(f"cpu ({processor().name}, {kind}, ")


@pytest.mark.parametrize("value", ["avx3", "AVX2", "avx2,avx512"])
def test_an_unknown_kind_is_refused(choose, value: str) -> None:
    choose(value)
    with pytest.raises(UsageError, match=re.escape(f"{VARIABLE}={value}: expected one of {', '.join(KINDS)}")):
        processor()


def test_a_kind_that_this_machine_cannot_run_is_refused(choose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "possible_kinds", lambda: (AVX2, GENERIC))
    choose(AVX512)
    with pytest.raises(UsageError, match="NNET3PY_CPU=avx512: .* cannot run such code .it can do avx2 and generic"):
        processor()


def test_kinds_of_aarch64(choose, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every such processor has NEON; the least of them is not one of x86-64."""
    monkeypatch.setattr(binding, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    possible_kinds.cache_clear()
    choose("")
    assert possible_kinds() == (NEON, GENERIC) and processor().kind == NEON and processor().is_this
    choose(GENERIC)
    assert (processor().name, processor().is_this) == ("generic", False)
    choose(AVX2)
    with pytest.raises(UsageError, match="it can do neon and generic"):
        processor()


def test_code_is_kept_apart_by_kind(choose) -> None:
    names = []
    for kind in possible_kinds():
        choose(kind)
        names.append(code_files.folder_name([]))
    assert len(set(names)) == len(names)


def test_a_command_says_what_is_wrong(run_launcher) -> None:
    environment = {**os.environ, "NNET3PY_PYTHON": sys.executable, VARIABLE: "486"}
    done = run_launcher("nnet3py", "--version", env=environment)
    assert done.returncode != 0 and "NNET3PY_CPU=486: expected one of" in done.stderr
    assert "Traceback" not in done.stderr


def test_numba_is_imported_where_it_learns_its_processor() -> None:
    """Whoever decorates functions before, or without, has them compiled for another processor."""
    pattern = re.compile(r"^(import numba$|from numba import .*njit)", re.MULTILINE)
    direct = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "nnet3py").rglob("*.py"))
              if pattern.search(path.read_text(encoding="utf-8"))]
    assert direct == ["nnet3py/engine/numba_target.py"]


def test_numba_that_was_used_before_is_refused() -> None:
    if not OTHERS or KINDS.index(OTHERS[-1]) < KINDS.index(processor().kind):
        pytest.skip("there is no lesser kind than this machine's")
    program = "import numba; numba.njit(lambda x: x)(1); import nnet3py.engine.numba_target"
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, VARIABLE: OTHERS[-1]}, cwd=ROOT,
                          capture_output=True, text=True, timeout=120)
    assert "UsageError: NNET3PY_CPU=generic: numba was used before" in done.stderr


def run_kernel_tests(kind: str, names: list[str], selected: str) -> None:
    environment = {**os.environ, VARIABLE: kind, "OPENBLAS_CORETYPE": BLAS.get(kind, "")}
    environment = {name: value for name, value in environment.items() if value and not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "-m", "not slow",
               "-k", selected, *(f"tests/test_{name}.py" for name in names)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"^\d{2,} passed", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("kind", OTHERS[:1])
def test_a_few_kernels_of_another_kind(kind: str) -> None:
    run_kernel_tests(kind, ["tiles", "ops_nonlinear"], FEW)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_the_kernels_of_other_kinds(kind: str) -> None:
    run_kernel_tests(kind, KERNEL_TESTS, SELECTED)
