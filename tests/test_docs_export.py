"""docs/export.md: every block runs, from top to bottom, and prints what stands there."""
from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
from pathlib import Path

import pytest
from paths import ROOT

PAGE = ROOT / "docs" / "export.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")        # of torch's exporter
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    printed = ""
    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if "torch" in text:
            pytest.importorskip("torch")
        if kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, str(PAGE), "exec"), names)
            printed = output.getvalue()
        elif kind == "sh":
            for line in text.splitlines():
                subprocess.run(line, shell=True, check=True, env=environment, capture_output=True)
        elif kind == "text":
            assert text == printed
