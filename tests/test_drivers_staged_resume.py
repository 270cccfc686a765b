"""A tree, an extractor and its i-vectors whose making is killed at any moment, and begun again, are the same."""
from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import process_faults
import pytest
from paths import ROOT
from preparation_cases import make_data
from process_faults import SIGNALS, check_nobody_is_left, kill, messages, unfinished

LONGEST = 600.0              # seconds of one work, however busy the machine is
KILLS = 10
SEED = 21
SMALL_EXTRACTOR = ["--nj=2", "--pca.dim=6", "--pca.subsample=1", "--ubm.num-gauss=4", "--ubm.num-iters=2",
                   "--ubm.num-iters-init=2", "--ivector-dim=3", "--num-iters=2"]
WORKS = {
    "train-ivector-extractor": ["--feat-dir=data", "--dir=exp", *SMALL_EXTRACTOR, "--extract-to=exp/ivectors"],
    "extract-ivectors": ["--feat-dir=data", "--extractor-dir=extractor", "--dir=exp", "--nj=2"],
    "nnet3-build-tree": ["--feat-dir=data", "--lang=lang", "--ali-dir=ali", "--dir=exp", "--frame-subsampling-factor=3",
                         "--context-opts=--context-width=2 --central-position=1", "--num-leaves=64"],
}


def prepare(folder: Path, command: str) -> Path:
    """A folder to work in, by relative names, for these stand in results."""
    made = make_data(folder)
    if command == "extract-ivectors":
        words = [str(ROOT / "bin" / "train-ivector-extractor"), "--feat-dir=data", "--dir=extractor", *SMALL_EXTRACTOR]
        assert process_faults.start(words, made).wait(LONGEST) == 0, messages(made)[-3000:]
    return made


def products(folder: Path) -> dict[str, bytes]:
    """Whatever was made but for logs, marks, and what tells one run from another."""
    exp = folder / "exp"
    return {str(path.relative_to(exp)): path.read_bytes().replace(str(folder).encode(), b".")      # in scp files
            for path in sorted(exp.rglob("*"))
            if path.is_file() and not {"log", ".steps"} & set(path.relative_to(exp).parts)
            and not path.name.startswith(".")}


@pytest.mark.slow
@pytest.mark.parametrize("command", WORKS)
def test_killed_often_it_ends_in_the_same_files(command: str, tmp_path: Path) -> None:
    words = [str(ROOT / "bin" / command), *WORKS[command]]
    first = tmp_path / "source"
    first.mkdir()
    source = prepare(first, command)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    shutil.copytree(source, undisturbed, symlinks=True)
    shutil.copytree(source, killed, symlinks=True)
    begun = time.monotonic()
    assert process_faults.start(words, undisturbed).wait(LONGEST) == 0, messages(undisturbed)[-3000:]
    seconds = time.monotonic() - begun
    choose = random.Random(SEED)
    for _ in range(KILLS):
        process = process_faults.start(words, killed)
        number = choose.choice(SIGNALS)
        try:
            status = process.wait(choose.uniform(0.1, 0.6) * seconds)
        except subprocess.TimeoutExpired:
            kill(process, number)
            status = process.wait(LONGEST)
        if status == 0:         # it came to its end: the others meet a new folder
            assert products(killed) == products(undisturbed)
            shutil.rmtree(killed)
            shutil.copytree(source, killed, symlinks=True)
        else:
            assert status in (-number, 128 + number), messages(killed)[-3000:]
            check_nobody_is_left(killed)
    assert process_faults.start(words, killed).wait(LONGEST) == 0, messages(killed)[-3000:]
    assert products(killed) == products(undisturbed)
    assert unfinished(killed) == [] and "internal error" not in messages(killed)
