"""Where the tests find their material, and the package's source code."""
from __future__ import annotations

import ast
import gc
import os
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
DATA = TESTS / "data"
ROOT = TESTS.parent


@cache
def sources() -> list[Path]:
    """The modules of the package."""
    return sorted((ROOT / "nnet3py").rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """A file's syntax tree, which is nobody's to change."""
    return trees()[path] if path in sources() else ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def trees() -> dict[Path, ast.Module]:
    """Of all modules of the package. A million nodes, at which the collector of garbage would look again and again.

    Without it parsing takes a second in place of four, and the process ends five seconds earlier.
    """
    gc.disable()
    try:
        return {path: ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in sources()}
    finally:
        gc.freeze()
        gc.enable()


def is_command(function: ast.FunctionDef) -> bool:
    """Whether a function is decorated as a command, by ``kaldi_command`` or by a function that calls it."""
    return any(isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.endswith("command")
               for call in function.decorator_list)


def shared_folder(name: str) -> Path:
    """A folder of the reference material (``golden``, ``data``, ``bench``, ``check``); skips the test if absent."""
    base = Path(os.environ.get("NNET3PY_SHARED", ROOT.parent / "shared"))
    folder = base / name
    if not folder.is_dir():
        pytest.skip(f"the reference material {name}/ is not beside this checkout (set NNET3PY_SHARED)")
    return folder


def shared_golden() -> Path:
    """The folder of Kaldi's own results; skips the test if it is not there."""
    return shared_folder("golden")
