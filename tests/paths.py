"""Where the tests find their material."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
DATA = TESTS / "data"
ROOT = TESTS.parent


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
