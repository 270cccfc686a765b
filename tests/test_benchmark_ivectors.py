"""benchmarks/ivectors.py from end to end, on few frames."""
from __future__ import annotations

import re
import subprocess
import sys

import pytest
from paths import ROOT

COMMANDS = ("gmm-global-init-from-feats", "gmm-gselect", "gmm-global-acc-stats", "gmm-global-est", "gmm-global-to-fgmm",
            "ivector-extractor-init", "gmm-global-get-post", "ivector-extractor-acc-stats", "ivector-extractor-est",
            "ivector-extract", "ivector-extract-online2", "all")


@pytest.mark.slow
def test_every_stage_is_measured() -> None:
    done = subprocess.run([sys.executable, "benchmarks/ivectors.py", "--frames=900", "--gaussians=4", "--dim=3",
                           "--ivector-dim=2", "--runs=1"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("900 frames in utterances of 300, 4 Gaussians of dimension 3")
    rows = [re.fullmatch(r"(\S+) +(\d+\.\d\d) .* +(\d+\.\d\d) +(\d+\.\d\d)", line) for line in lines[3:15]]
    assert tuple(row[1] for row in rows if row) == COMMANDS
    assert all(float(row[2]) > 0 for row in rows if row)
