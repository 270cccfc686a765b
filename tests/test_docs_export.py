"""docs/export.md: every block runs, from top to bottom, and prints what stands there."""
from __future__ import annotations

from pathlib import Path

import pytest
from pages import blocks, run_blocks
from paths import ROOT


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")        # of torch's exporter
def test_the_page_runs(here: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    page, names = blocks(ROOT / "docs" / "export.md"), {}
    first = next(number for number, (_, text) in enumerate(page) if "torch" in text)
    run_blocks(page[:first], names)
    pytest.importorskip("torch")
    run_blocks(page[first:], names)
