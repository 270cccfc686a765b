"""benchmarks/export.py, in a short form: all runtimes compute the same, and the table says which are faster."""
from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

import export  # noqa: E402

CONFIG = """input-node name=input dim=4
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=6
component-node name=a component=a input=Append(Offset(input, -1), input)
component name=b type=BatchNormComponent dim=6
component-node name=b component=b input=a
output-node name=output input=b
"""
EXACT = 1e-4                  # of the largest value: other orders of float32 sums


def test_all_runtimes_compute_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.config").write_text(CONFIG)
    monkeypatch.setattr(export, "NETS", tmp_path)
    try:
        done = CliRunner().invoke(export.main, ["--frames=40", "--runs=1", "--threads=1"], catch_exceptions=False)
    finally:
        export.engine_threads.set_num_threads(None)
    tables = re.split(r"^small, .*\n", done.output, flags=re.MULTILINE)[1:]
    assert len(tables) == 2
    for table in tables:
        rows = re.findall(r"^  (.+?) +\d+\.\d ms +(\S+)$", table, re.MULTILINE)
        assert [name for name, _ in rows] == ["nnet3py, one chunk", "nnet3py, chunks of 150", "onnxruntime",
                                              "torch"]
        assert all(float(difference) <= EXACT for _, difference in rows)
        assert table.splitlines()[-1].startswith("  faster than nnet3py, one chunk: ")


def test_who_is_faster() -> None:
    assert export.faster_than_ours({"nnet3py, one chunk": 3.0, "nnet3py, chunks of 150": 1.0, "torch": 4.0,
                                    "onnxruntime": 2.0}) == "  faster than nnet3py, one chunk: onnxruntime (1.5 times)"
