"""docs/rnnlm.md: every block runs, in a folder with a small model, and prints what stands there."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from io_samples import read_table
from lattice_cases import LATTICE_DATA, check_same_words
from pages import blocks, run_blocks, shell
from paths import ROOT
from rnnlm_cases import RNNLM_DATA, rnnlm_folder, scores

from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import COMPACT_LATTICES

PAGE = (ROOT / "docs" / "rnnlm.md").read_text(encoding="utf-8")
WITHIN = 2.0           # of the best path: what is near the beam may be in one and not in the other
DIFFERENCE = 1.0       # the old model's costs are taken off exactly, or by its cheapest paths


@pytest.fixture
def work(here: Path) -> Path:
    rnnlm_folder(here / "rnnlm")
    (here / "lang").mkdir()
    shutil.copy(LATTICE_DATA / "graph-grammar" / "G.fst", here / "lang")
    shutil.copy(RNNLM_DATA / "decoded.ark", here / "lat.ark")
    shutil.copy(RNNLM_DATA / "text.int", here)
    shutil.copy(RNNLM_DATA / "words.txt", here / "lang")
    counting = "oh one two three four five six seven eight nine".split()
    for name, count in (("train.txt", 300), ("dev.txt", 40)):
        lines = [" ".join(counting[i % 10:][:1 + i % 4]) for i in range(count)]
        (here / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return here


def lattices(name: str) -> dict[str, CompactLattice]:
    return read_table(f"ark:{name}", COMPACT_LATTICES)


def test_commands(work: Path) -> None:
    printed = shell("set -uo pipefail\n" + "".join(text for _, text in blocks(PAGE, "sh")), timeout=240)
    scored, perplexity = printed.splitlines()[:-1], re.fullmatch(
        r"trained: perplexity ([\d.]+) on \d+ held-out words \(epoch 2 of 2\)", printed.splitlines()[-1])
    assert [line.split()[0] for line in scored] == list(scores("normalized-lstm.txt"))
    assert perplexity and float(perplexity[1]) < 12.0           # of eleven words in the text, and seven others
    whole = lattices("rescored-whole.ark")
    for key, lattice in lattices("rescored.ark").items():
        check_same_words(lattice, whole[key], DIFFERENCE, WITHIN)


def test_python(work: Path) -> None:
    names: dict = {"__name__": "page"}
    printed = run_blocks(blocks(PAGE, "python", "text"), names)
    assert len(names["history"].epochs) == 2 and names["history"].best.perplexity < 12.0
    assert names["trained"].log_probs("one two three").sum() > names["trained"].log_probs("two one three").sum()
    assert len(printed) == 3 and len(printed[-1].splitlines()) == 3 and "'" in printed[-1]
