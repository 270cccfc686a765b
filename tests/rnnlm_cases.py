"""Small RNN language models of Kaldi's, with what Kaldi's programs made with them (tests/data/rnnlm)."""
from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import numpy as np
from io_samples import read_table
from paths import DATA

from nnet3py.network.model_file import read_nnet
from nnet3py.rnnlm.folder import RnnlmOptions
from nnet3py.rnnlm.network import RnnlmNetwork
from nnet3py.rnnlm.word_embedding import WordEmbedding
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import COMPACT_LATTICES

RNNLM_DATA = DATA / "rnnlm"
BOS, EOS = 16, 17
NUM_WORDS, DIM = 18, 12
NAMES = ("lstm", "tdnn")


@cache
def embedding() -> WordEmbedding:
    """Of 18 words from 30 features."""
    return WordEmbedding.read(RNNLM_DATA / "feat_embedding.mat", RNNLM_DATA / "word_feats.txt")


@cache
def rnnlm(name: str, normalize: bool = False) -> RnnlmNetwork:
    """A recurrent network, or one that sees the last four words."""
    return RnnlmNetwork(read_nnet(RNNLM_DATA / f"{name}.raw"), embedding(), RnnlmOptions(BOS, EOS, normalize=normalize))


def rnnlm_folder(folder: Path, name: str = "lstm", options: str = "") -> Path:
    """A folder as Kaldi's training leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(RNNLM_DATA / f"{name}.raw", folder / "final.raw")
    shutil.copy(RNNLM_DATA / "word_feats.txt", folder)
    shutil.copy(RNNLM_DATA / "feat_embedding.mat", folder / "feat_embedding.final.mat")
    (folder / "special_symbol_opts.txt").write_text(
        "".join(f"{line}\n" for line in (f"--bos-symbol={BOS}", f"--eos-symbol={EOS}", "--brk-symbol=15", options)))
    shutil.copy(RNNLM_DATA / "words.txt", folder)
    return folder


def scores(name: str) -> dict[str, np.ndarray]:
    """Lines KEY NUMBER …"""
    rows = [line.split() for line in (RNNLM_DATA / name).read_text().splitlines()]
    return {row[0]: np.array(row[1:], dtype=float) for row in rows}


def sentences(name: str = "text.int") -> dict[str, list[int]]:
    """Numbers of words by key."""
    return {key: row.astype(int).tolist() for key, row in scores(name).items()}


def rnnlm_lattices(name: str) -> dict[str, CompactLattice]:
    """Compact lattices of three utterances: decoded, without the old model's costs, or as Kaldi's programs rescored."""
    return read_table(f"ark:{RNNLM_DATA / name}.ark", COMPACT_LATTICES)
