"""benchmarks/discriminative.py from end to end, on a small lattice."""
from __future__ import annotations

from pathlib import Path

import discriminative
import pytest


def test_everything_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(discriminative, "NUM_PDFS", 7)
    report = tmp_path / "report"
    assert discriminative.main(["--runs=1", "--sequences=2", "--frames=5", "--arcs=900", f"--to={report}"]) == 0
    lines = report.read_text().splitlines()
    assert lines[0].startswith("2 sequences of 5 frames, ")
    assert [line.split("  ")[0] for line in lines[2:]] == ["tables", "mmi: sums", "mmi: whole", "smbr: sums",
                                                           "smbr: whole"]
    assert all(float(line.split()[-1]) > 0 for line in lines[2:])
