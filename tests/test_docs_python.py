"""docs/python.md: every block runs, from top to bottom, and prints what stands there."""
from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from pages import blocks, run_blocks
from paths import ROOT

from nnet3py import log
from nnet3py.components import registry

EXTRAS = {"nnet3py.sklearn": "sklearn", "nnet3py.torch_data": "torch"}     # what a block needs


def can_run(text: str) -> bool:
    return all(find_spec(package) for name, package in EXTRAS.items() if name in text)


def test_the_page_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    page = [block for before, block in pairwise([("", ""), *blocks(ROOT / "docs" / "python.md")])
            if can_run(block[1]) and (block[0] != "text" or can_run(before[1]))]
    try:
        assert len(run_blocks(page, {"__name__": "page"})) >= 10
    finally:
        log.show_log(None)
