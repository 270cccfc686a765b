"""docs/python.md: every block runs, from top to bottom, and prints what stands there."""
from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from paths import ROOT

from nnet3py import log
from nnet3py.components import registry

PAGE = ROOT / "docs" / "python.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXTRAS = {"nnet3py.sklearn": "sklearn", "nnet3py.torch_data": "torch"}     # what a block needs


def missing(text: str) -> bool:
    for name, package in EXTRAS.items():
        if name in text:
            try:
                __import__(package)
            except ImportError:
                return True
    return False


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registered", {})
    names: dict = {"__name__": "page"}
    printed, num_run = "", 0
    try:
        for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if kind == "text":
                assert text == printed or printed is None
            elif missing(text):
                printed = None      # type: ignore[assignment]
            else:
                assert kind == "python"
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(text, str(PAGE), "exec"), names)
                printed, num_run = output.getvalue(), num_run + 1
    finally:
        log.show_log(None)
    assert num_run >= 10


def test_the_contents_name_every_section() -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = [re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-")
                for line in re.findall(r"^## (.*)$", text, re.MULTILINE)]
    assert re.findall(r"\]\(#([\w-]+)\)", text.split("\n## ")[0]) == sections
