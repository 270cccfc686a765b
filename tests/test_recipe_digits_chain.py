"""egs/digits/run_chain.sh: its stages from the tree to the decoded words, on some of the data, and how it fails."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from driver_chain_cases import NUM_PDFS, write_tree_dir
from paths import ROOT
from scripts import run

import nnet3py

DIGITS = ROOT / "egs" / "digits"
MOST_ERRORS = 5.0         # per cent of words; the recipe's own result is below 1, whatever the seed


def run_chain(*words: object, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    return run(DIGITS / "run_chain.sh", *words, timeout=timeout)


def test_the_network_is_made_for_the_tree(tmp_path: Path) -> None:
    tree = write_tree_dir(tmp_path / "chain_tree")
    (tree / "num_jobs").write_text("1\n")
    done = run_chain("--stage", 1, "--dir", tmp_path, "--decode", "false")
    assert done.returncode == 1 and f"{NUM_PDFS} pdfs" in done.stdout         # it stops for want of alignments
    assert "training failed (its logs:" in done.stderr and "ERROR (train-chain" in done.stderr
    network = nnet3py.read_nnet(str(tmp_path / "chain" / "configs" / "ref.raw"))
    assert network.output_dim("output") == network.output_dim("output-xent") == NUM_PDFS


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    for words, message in ((("--sage", 1), "unknown option --sage"), (("--decode", "maybe"), "not 'maybe'"),
                           (("--variant", "tri"), "--variant is plain, biphone or e2e, not 'tri'"),
                           (("--data", tmp_path), "feats.ark"), (("--stage", 1), "chain_tree/tree"),
                           (("--stage", 2), "configs/final.config")):
        failed = run_chain(*words, "--dir", tmp_path / "exp")
        assert failed.returncode == 1 and message in failed.stderr, words


@pytest.mark.slow
def test_the_whole_recipe(tmp_path: Path) -> None:
    pytest.importorskip("kaldifst", reason="words are decoded with the extra 'decode'")
    done = run_chain("--dir", tmp_path / "exp", timeout=1800.0)
    assert done.returncode == 0, done.stderr[-2000:]
    found = re.search(r"%WER ([\d.]+) \[", done.stdout)
    assert found and float(found[1]) < MOST_ERRORS
