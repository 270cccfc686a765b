"""Where the tests find their material, and the package's source code."""
from __future__ import annotations

import ast
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
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


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
