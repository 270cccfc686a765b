"""nnet3py warmup: what it compiles is all there is, is found the second time, and is chosen by options."""
from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from nnet3py.cli.machine.warmup import ENGINE, LOOPS, Warmed, families, show, warm_family, warm_up
from nnet3py.cli.main import main
from nnet3py.engine import code_files
from nnet3py.engine.jit import Kernel
from nnet3py.errors import UsageError
from nnet3py.ops.cpu import plain
from nnet3py.ops.table import FAMILIES

ROOT = Path(__file__).resolve().parent.parent


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    return caught.value.code or 0   # type: ignore[return-value]


def test_every_operation_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is left to be compiled after all families were warmed up."""
    seen = []
    monkeypatch.setattr(code_files, "find_or_make", lambda key, make: seen.append(key))
    for family in FAMILIES:
        warm_family("cpu", family)
    for family, operations in FAMILIES.items():
        module = import_module(f"nnet3py.ops.cpu.{family}")
        for operation in operations:
            assert hasattr(plain, operation.name) or getattr(module, operation.name).key in seen
    modules = [import_module(f"nnet3py.ops.cpu.{path.stem}") for path in (ROOT / "nnet3py/ops/cpu").glob("[a-z]*.py")]
    kernels = {value.key for module in modules for value in vars(module).values() if isinstance(value, Kernel)}
    assert kernels == set(seen) and len(kernels) > 100
    seen.clear()
    warm_family("cpu", "engine")
    made = {node.name.removeprefix("make_") for path in (ROOT / "nnet3py/engine").glob("*.py")
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("make_") and not node.args.args}
    assert {key.name for key in seen} == made and "serve" in made


def test_the_second_time_all_is_found(tmp_path: Path) -> None:
    environment = {**os.environ, "NNET3PY_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", "from nnet3py.cli.main import main; main()", "warmup", "--device=cpu",
               "--only=convolution", "--only=small_matrices", "--num-processes=2"]
    outputs = [subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True).stdout
               for _ in range(2)]
    found = [re.search(r"(\d+) kernels compiled and (\d+) found in .* s; they are kept in", text) for text in outputs]
    first, second = ([int(word) for word in match.groups()] for match in found if match)
    assert first[0] >= 3 and first[1] == 0 and second == [0, first[0]]
    assert all(re.search(rf"^cpu +{family} ", outputs[0], re.MULTILINE) for family in ("convolution", "small_matrices"))


def test_two_at_once_share_the_work(tmp_path: Path) -> None:
    environment = {**os.environ, "NNET3PY_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", "from nnet3py.cli.main import main; main()", "warmup", "--device=cpu",
               "--only=scoring", "--only=files", "--num-processes=1"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    found = [re.search(r"(\d+) kernels compiled and (\d+) found in", process.communicate(timeout=120)[0])
             for process in started]
    counts = [[int(word) for word in match.groups()] for match in found if match]
    assert len(counts) == 2 and sum(counts[0]) == sum(counts[1]) == len(list(tmp_path.rglob("*.kernel")))
    assert counts[0][0] + counts[1][0] == sum(counts[0]), "each kernel was compiled once"


def test_families(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("warmup", "--list") == 0
    assert capsys.readouterr().out.split() == families("cpu") == sorted({*FAMILIES, *LOOPS, *ENGINE})
    assert call("warmup", "--device=cpu", "--only=rowss") == 255
    assert "there is no family of kernels called 'rowss' (expected some of " in capsys.readouterr().err
    with pytest.raises(UsageError):
        next(warm_up(["cuda"], ["files"], 1))


def test_what_is_printed() -> None:
    lines: list[str] = []
    show(iter([Warmed("cpu", "rows", 3, 7, 1.25), Warmed("cpu", "chain", 0, 2, 0.1)]), lines.append)
    assert lines[0] == "cpu  rows                   3 compiled,   7 found,    1.2 s"
    assert lines[-1].startswith("3 kernels compiled and 9 found in ")


def test_every_module_with_loops_is_compiled() -> None:
    with_loops = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "nnet3py").rglob("*.py")
                  if re.search(r"^\w+ = \w*Loop\(", path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert with_loops == {name for names in LOOPS.values() for name in names}
