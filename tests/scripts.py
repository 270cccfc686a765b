"""Programs of this checkout that are no part of the package: recipes' scripts, makers of pages, benchmarks."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from paths import ROOT


def load(path: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> ModuleType:
    """A program as a module; with ``monkeypatch`` it may import its siblings until the test's end."""
    name = f"{path.parent.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    if monkeypatch:
        monkeypatch.setattr(sys, "path", [*sys.path, str(path.parent)])
        monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def run(*words: object, cwd: Path = ROOT, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run a program with this Python and this package; its status is the caller's to look at."""
    return subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "NNET3PY_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)})
