"""Small data from which tests make examples: features, alignments, targets."""
from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
from paths import DATA

from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.hmm.alignment import PhoneAligner
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import TableWriter

NUM_UTTERANCES, DIM = 24, 5
NAMES = [f"s{number // 4}-u{number % 4}" for number in range(NUM_UTTERANCES)]


def length(number: int) -> int:
    return 40 + number


def make_source(path: Path) -> Path:
    """Write ``data`` and ``cmvn`` (data directories), ``ali``, and lists of targets; returns ``path``."""
    (path / "data").mkdir()
    (path / "ali").mkdir()
    for name, target in (("tree", "tree"), ("0.trans_mdl", "final.mdl")):
        shutil.copyfile(DATA / "chain" / name, path / "ali" / target)
    model = read_object(path / "ali" / "final.mdl", TransitionModel.read)
    aligner = PhoneAligner(model, read_object(path / "ali" / "tree", ContextDependency.read))
    rng = np.random.default_rng(0)
    feats, targets = (f"ark,scp:{path}/{name}.ark,{path}/{name}.scp" for name in ("feats", "targets"))
    lines = []
    with TableWriter(feats, FLOAT_MATRIX) as features, TableWriter(targets, FLOAT_MATRIX) as dense, \
            TableWriter(f"ark,scp:{path}/labels.ark,{path}/labels.scp", INT_VECTOR) as sparse:
        for number, name in enumerate(NAMES):
            features.write(name, rng.normal(size=(length(number), DIM)).astype(np.float32))
            dense.write(name, rng.normal(size=(length(number), 2)).astype(np.float32))
            sparse.write(name, rng.integers(0, 3, length(number)).astype(np.int32))
            ids = aligner.align(rng.integers(1, 29, 4).tolist(), [10, 10, 10, length(number) - 30])
            lines.append(f"{name} {' '.join(map(str, ids))}\n")
    shutil.copyfile(path / "feats.scp", path / "data" / "feats.scp")
    (path / "data" / "utt2spk").write_text("".join(f"{name} {name[:2]}\n" for name in NAMES))
    for number in (1, 2):      # not in the order of the data
        with gzip.open(path / "ali" / f"ali.{number}.gz", "wt") as stream:
            stream.writelines(lines[-number::-2])
    (path / "ali" / "num_jobs").write_text("2\n")
    (path / "cmvn").mkdir()
    for name in ("feats.scp", "utt2spk"):
        shutil.copyfile(path / "data" / name, path / "cmvn" / name)
    (path / "cmvn" / "cmvn.scp").write_text("".join(f"s{number} x:1\n" for number in range(6)))
    (path / "cmvn" / "utt2num_frames").write_text("".join(f"{name} {length(n)}\n" for n, name in enumerate(NAMES)))
    return path
