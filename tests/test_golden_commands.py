"""Kaldi's recorded commands, run with this checkout's launchers and compared by the reference material's checker."""
from __future__ import annotations

import os
import subprocess
import sys

import pytest
from paths import ROOT, shared_folder

TIMEOUT = 300     # seconds; it takes about ten per group

TOOLS = ["acc-lda-stats", "ali-to-pdf", "average", "compute-apply-exp", "compute-chunk-7", "compute-chunk-20",
         "compute-chunk-50", "compute-from-egs", "compute-priors", "compute-prob", "compute-subsampled",
         "copy-egs-shift", "copy-text", "get-egs", "get-egs-uncompressed", "get-egs-variable", "info", "merge-egs",
         "merge-egs-rules", "show-progress"]
TRAIN = ["plain", "plain-momentum", "plain-max-change", "plain-l2", "plain-backstitch", "quadratic", "fast",
         "fast-max-change", "tdnn", "lstm", "lstm-deriv-times"]
CHAIN = ["plain", "xent"]


@pytest.mark.parametrize(("group", "names"), [("tools", TOOLS), ("train", TRAIN), ("chain", CHAIN)],
                         ids=["tools", "train", "chain"])
def test_recorded_commands_hold(group, names):
    checker = shared_folder("check") / "commands.py"
    words = [sys.executable, str(checker), str(shared_folder("golden")), "--bin", str(ROOT / "bin"), "--group", group,
             "--only", ",".join(names)]
    result = subprocess.run(words, cwd=ROOT, env={**os.environ, "NNET3PY_PYTHON": sys.executable},
                            capture_output=True, text=True, timeout=TIMEOUT)
    lines = result.stdout.splitlines()
    assert lines[-1:] == [f"{len(names)} of {len(names)} commands hold"], result.stdout + result.stderr[-2000:]
    assert result.returncode == 0
