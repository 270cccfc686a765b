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
from nnet3py.engine.processor import (
    AVX2,
    AVX512,
    GENERIC,
    KINDS,
    LINUX,
    NEON,
    SETS,
    SSE4,
    VARIABLE,
    least_of,
    possible_kinds,
    processor,
    set_name,
)
from nnet3py.errors import UsageError
from nnet3py.ops import device

# What computes in ways that depend on the processor. Compiling takes most of the time, so of derivatives only what is
# made of products, sums of columns and sums of rows is run again.
KERNEL_TESTS = ["ops_products", "tiles", "ops_reductions", "ops_natural_gradient", "ops_nonlinear",
                "ops_statistics_pooling", "components_nonlinear", "derivatives"]
SELECTED = "(not test_derivatives or Affine or Tdnn or BatchNorm or Softmax)"
FEW = "test_products or test_values or test_lstm"      # products by tiles, elementwise ones, a recurrence
OTHERS = [kind for kind in possible_kinds() if kind != processor().kind]
BLAS = {AVX2: "Haswell", SSE4: "Nehalem", GENERIC: "Nehalem"}      # OpenBLAS's names for processors of these kinds


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
    assert processor().kind == possible_kinds()[0] and processor().model == binding.get_host_cpu_name()
    assert possible_kinds()[-1] == GENERIC
    best = processor()
    choose(possible_kinds()[0])
    assert processor() == best
    for kind in possible_kinds()[1:]:
        choose(kind)
        assert processor().kind == kind and processor().model == processor().target
        assert device.describe("cpu").startswith(f"cpu ({processor().model}, {kind}, ")


def test_code_is_for_a_level_and_not_for_a_model(choose) -> None:
    """Two machines of a kind have the same code, and so the same numbers."""
    targets = {AVX512: "x86-64-v4", AVX2: "x86-64-v3", SSE4: "x86-64-v2", GENERIC: "x86-64", NEON: "generic"}
    for kind in possible_kinds():
        choose(kind)
        assert processor().target == (targets[kind] if processor().triple.startswith("x86") else "generic")


def test_sets_of_kernels() -> None:
    names = {(machine, kind): set_name(least_of(kind, LINUX[machine])) for machine in SETS for kind in KINDS}
    assert {key: name for key, name in names.items() if name} == {
        ("x86_64", AVX512): "x86-64-v4", ("x86_64", AVX2): "x86-64-v3", ("x86_64", SSE4): "x86-64-v2",
        ("aarch64", NEON): "aarch64"}
    assert set_name(least_of(NEON, "arm64-apple-darwin22")) is None


@pytest.mark.parametrize("triple, expected", [
    ("x86_64-conda-linux-gnu", LINUX["x86_64"]), ("aarch64-redhat-linux-gnu", LINUX["aarch64"]),
    ("x86_64-alpine-linux-musl", "x86_64-alpine-linux-musl"), ("arm64-apple-darwin22", "arm64-apple-darwin22")])
def test_names_of_distributions(choose, monkeypatch: pytest.MonkeyPatch, triple: str, expected: str) -> None:
    monkeypatch.setattr(binding, "get_process_triple", lambda: triple)
    monkeypatch.setattr(module, "possible_kinds", lambda: (GENERIC,))
    choose("")
    assert processor().triple == expected


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
    assert possible_kinds() == (NEON, GENERIC) and processor().kind == NEON
    choose(GENERIC)
    assert (processor().kind, processor().target) == (GENERIC, "generic")
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


def test_functions_are_compiled_for_our_target() -> None:
    """Whoever decorates functions by numba's own means has them compiled for another processor."""
    pattern = re.compile(r"^(import numba$|from numba import .*njit)", re.MULTILINE)
    direct = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "nnet3py").rglob("*.py"))
              if pattern.search(path.read_text(encoding="utf-8"))]
    assert direct == ["nnet3py/engine/numba_target.py"]


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
