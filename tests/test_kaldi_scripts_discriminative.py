"""Kaldi's own scripts of discriminative training, unmodified, with our launchers alone on PATH.

The scripts lie beside the checkout, or nothing is tried. The model is tiny and random: what is tried is that scripts
find every program, option and log line that they ask for, from alignments and lattices to a model with new priors.
"""
from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from kaldi_scripts import PREPARE_LANG, shell, write_work_folder

from nnet3py.acoustic_model import read_model
from nnet3py.egs.discriminative_example import read_discriminative_egs

pytestmark = pytest.mark.slow

UTTERANCES = {"train": 24, "test": 1}
PREPARE = PREPARE_LANG + r"""echo 0.01 > kaldi/data/train/frame_shift
steps/nnet3/align.sh --nj 1 --cmd run.pl --use-gpu false kaldi/data/train lang_words exp/tdnn exp/ali
steps/nnet3/make_denlats.sh --nj 1 --cmd run.pl kaldi/data/train lang_words exp/tdnn exp/denlats
"""
EGS = r"""
steps/nnet3/get_egs_discriminative.sh --cmd run.pl --frames-per-eg 40 --frames-overlap-per-eg 8 --left-context 0 \
  --right-context 0 --num-utts-subset 4 --num-priors-subset 8 --num-archives-priors 2 --frames-per-iter 3000 \
  kaldi/data/train lang_words exp/ali exp/denlats exp/tdnn/final.mdl exp/degs
"""
TRAIN = r"""
steps/nnet3/train_discriminative.sh --cmd run.pl --use-gpu false --num-epochs 1 --num-jobs-nnet 1 --minibatch-size 8 \
  --criterion smbr --learning-rate 0.001 --num-jobs-compute-prior 2 --num-threads 1 exp/degs exp/smbr
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with alignments, denominator lattices and examples."""
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    folder = write_work_folder(tmp_path_factory.mktemp("work"), UTTERANCES, 1)
    shell(folder, PREPARE + EGS)
    return folder


def test_examples(work: Path) -> None:
    archives = sorted((work / "exp" / "degs").glob("degs.*.ark"))
    assert archives and (work / "exp" / "degs" / "info" / "silence.csl").read_text().strip() == "1"
    frames = sum(eg.outputs[0].supervision.frames_per_sequence
                 for path in archives for _, eg in read_discriminative_egs(f"ark:{path}"))
    assert frames > 1000


def test_training(work: Path) -> None:
    shell(work, TRAIN)
    folder = work / "exp" / "smbr"
    logs = [path.read_text() for path in sorted((folder / "log").glob("train.*.1.log"))]
    values = [float(value) for text in logs for value in re.findall(r"smbr-per-frame=(\S+)", text)]
    assert values and all(0.0 <= value <= 1.0 for value in values)
    before, after = (read_model(work / "exp" / path) for path in ("tdnn/final.mdl", "smbr/final.mdl"))
    assert not np.array_equal(before.nnet.components[0].vectorize(), after.nnet.components[0].vectorize())
    adjusted = read_model(folder / "epoch1_adj.mdl").priors
    assert math.isclose(adjusted.sum(), 1.0, rel_tol=1e-4) and not np.array_equal(adjusted, before.priors)
