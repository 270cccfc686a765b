"""benchmarks/products.py in its short form: a line for each shape, with four rates of ours beside numpy's."""
from __future__ import annotations

import re
import subprocess
import sys

from paths import ROOT


def test_the_short_form() -> None:
    words = [sys.executable, "benchmarks/products.py", "--quick", "--rounds=1", "--runs=1", "--threads=1"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if " x " in line and "=" in line]
    assert [line[:22].strip() for line in lines] == ["64 x 32 x 48", "100 x 40 x 40"]
    for line in lines:
        cells = [tuple(map(float, cell)) for cell in re.findall(r"([\d.]+) / +([\d.]+) = +([\d.]+)", line)]
        assert len(cells) == 4 and all(ratio > 0 for *_, ratio in cells)
    assert re.search(r"ratios: least [\d.]+, geometric mean [\d.]+, \d of 8 below 0.9", done.stdout)
