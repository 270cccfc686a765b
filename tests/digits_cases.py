"""A few utterances of the digits recipe, and small networks for them."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np

from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR, read_matrices
from nnet3py.io.tables import SequentialReader, TableWriter, write_table

RECIPE = Path(__file__).resolve().parent.parent / "egs" / "digits"
DATA = RECIPE / "data" / "train"
NUM_PHONES = 28

CONFIG = """
input-node name=input dim=40
component name=n type=BatchNormComponent dim=40
component name=a type=NaturalGradientAffineComponent input-dim=120 output-dim=32 max-change=0.75
component name=r type=RectifiedLinearComponent dim=32
component name=b type=NaturalGradientAffineComponent input-dim=32 output-dim=28 param-stddev=0 bias-stddev=0
component name=l type=LogSoftmaxComponent dim=28
component-node name=n component=n input=input
component-node name=a component=a input=Append(Offset(n, -2), n, Offset(n, 2))
component-node name=r component=r input=a
component-node name=b component=b input=r
component-node name=l component=l input=b
output-node name=output input=l
"""


def write_digits(folder: Path, count: int = 3) -> list[str]:
    """feats.ark (float) and ali.ark of the first utterances, in ``folder``; returns their names."""
    with SequentialReader(f"ark:{DATA / 'ali.txt'}", INT_VECTOR) as reader:
        labels = dict(islice(reader, count))
    names = []
    with TableWriter(f"ark:{folder / 'feats.ark'}", FLOAT_MATRIX) as feats, \
            TableWriter(f"ark:{folder / 'ali.ark'}", INT_VECTOR) as targets:
        for name, matrix in islice(read_matrices(f"ark:{DATA / 'feats.ark'}"), count):
            feats.write(name, np.asarray(matrix, dtype=np.float32))
            targets.write(name, labels[name])
            names.append(name)
    return names


def write_recipe_data(folder: Path, utterances: dict[str, int]) -> None:
    """The recipe's data folder, with so many utterances of each part ("train", "test")."""
    for part, count in utterances.items():
        source, target = RECIPE / "data" / part, folder / part
        target.mkdir(parents=True)
        write_table(f"ark:{target / 'feats.ark'}", FLOAT_MATRIX, {
            key: np.asarray(feats) for key, feats in islice(read_matrices(f"ark:{source / 'feats.ark'}"), count)})
        for name in ("ali.txt", "utt2spk", "text", "utt2num_frames"):
            lines = (source / name).read_text(encoding="utf-8").splitlines(keepends=True)
            (target / name).write_text("".join(lines[:count]), encoding="utf-8")
    for name in ("phones.txt", "lexicon.txt"):
        shutil.copy(RECIPE / "data" / name, folder)


def write_kaldi_dirs(folder: Path, utterances: dict[str, int], jobs: int = 2) -> None:
    """What ``local/make_kaldi_dirs.sh`` makes of so many utterances, at least as many as jobs, in ``folder``."""
    write_recipe_data(folder / "source", utterances)
    command = [RECIPE / "local" / "make_kaldi_dirs.sh", "--data", folder / "source", "--dir", folder, "--nj", str(jobs)]
    subprocess.run(command, env={**os.environ, "NNET3PY_PYTHON": sys.executable}, capture_output=True, check=True)
