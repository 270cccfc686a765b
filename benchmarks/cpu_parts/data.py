"""The benchmark's data, made from egs/digits/data, and the commands that are timed on it."""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cpu_parts.processes import ROOT, program

LARGE = ("tdnnf", "tdnn-lstm")      # benchmarks/nets
PRODUCTION = "tdnnf-17m"            # there, too: 16 layers of 1536/160, 3000 outputs, 17.4 million parameters
RECIPES = ("tdnn", "lstm")          # egs/digits/conf
UTTERANCES = 120                    # of the large nets' data
TRAIN = ROOT / "egs" / "digits" / "data" / "train"
_ALIGNMENT = f"ark:ali-to-post ark,t:{TRAIN / 'ali.txt'} ark:- |"


def make(folder: Path, nets: Sequence[str] = (*LARGE, PRODUCTION, *RECIPES), utterances: int | None = None) -> None:
    """Make models, features and merged examples of ``nets`` in ``folder``; what is there already is kept.

    All data are of the first ``utterances`` utterances, if their number is given.
    """
    for net in nets:
        folder_of_config = ROOT / "egs" / "digits" / "conf" if net in RECIPES else ROOT / "benchmarks" / "nets"
        if not (folder / f"{net}.raw").exists():
            program("nnet3-init", "--srand=1", folder_of_config / f"{net}.config", folder / f"{net}.raw", threads=1)
    if not (folder / "short.ark").exists():
        _make_features(folder, utterances or UTTERANCES)
    if set(nets) & set(LARGE) and not (folder / "large.ark").exists():
        _make_examples_of_sixty_frames(folder, "large", num_pdfs=28, context=28)
    if PRODUCTION in nets and not (folder / "production.ark").exists():
        _make_examples_of_sixty_frames(folder, "production", num_pdfs=3000, context=40)
    if set(nets) & set(RECIPES) and not (folder / "recipe.ark").exists():
        _make_recipe(folder, utterances)


def _make_features(folder: Path, utterances: int) -> None:
    """features.ark, and short.ark (the shortest utterance of all)."""
    program("subset-feats", f"--n={utterances}", f"ark:{TRAIN / 'feats.ark'}", f"ark:{folder / 'features.ark'}",
            threads=1)
    lengths = (line.split() for line in (TRAIN / "utt2num_frames").read_text(encoding="utf-8").splitlines())
    (folder / "short.list").write_text(min(lengths, key=lambda line: int(line[1]))[0] + "\n", encoding="utf-8")
    program("subset-feats", f"--include={folder / 'short.list'}", f"ark:{TRAIN / 'feats.ark'}",
            f"ark:{folder / 'short.ark'}", threads=1)


def _make_examples_of_sixty_frames(folder: Path, name: str, num_pdfs: int, context: int) -> None:
    """13 minibatches of 32 x 60 frames of features.ark, each with its context."""
    program("nnet3-get-egs", f"--num-pdfs={num_pdfs}", f"--left-context={context}", f"--right-context={context}",
            "--num-frames=60", f"ark:{folder / 'features.ark'}", _ALIGNMENT, f"ark:{folder / 'single.ark'}", threads=1)
    program("nnet3-merge-egs", "--minibatch-size=32", f"ark:{folder / 'single.ark'}", f"ark:{folder / f'{name}.part'}",
            threads=1)
    _complete(folder, name)


def _make_recipe(folder: Path, utterances: int | None) -> None:
    """recipe.ark: the examples of the digits recipe, shuffled, 181 minibatches of 64."""
    features = folder / "features.ark" if utterances else TRAIN / "feats.ark"
    program("nnet3-get-egs", "--num-pdfs=28", "--left-context=12", "--right-context=12", "--num-frames=8",
            f"ark:{features}", _ALIGNMENT, f"ark:{folder / 'single.ark'}", threads=1)
    program("nnet3-merge-egs", "--minibatch-size=64",
            f"ark:nnet3-shuffle-egs --buffer-size=5000 ark:{folder / 'single.ark'} ark:- |",
            f"ark:{folder / 'recipe.part'}", threads=1)
    _complete(folder, "recipe")


def _complete(folder: Path, name: str) -> None:
    """Only a complete file gets its name."""
    os.replace(folder / f"{name}.part", folder / f"{name}.ark")
    (folder / "single.ark").unlink()


def examples(folder: Path, net: str) -> Path:
    """The merged examples that a net is trained on."""
    return folder / ("production.ark" if net == PRODUCTION else "large.ark" if net in LARGE else "recipe.ark")


def train_command(folder: Path, net: str, threads: int) -> list[str | Path]:
    """nnet3-train, one pass over the net's examples."""
    return [ROOT / "bin" / "nnet3-train", f"--num-threads={threads}", "--max-param-change=2.0", folder / f"{net}.raw",
            f"ark:{examples(folder, net)}", folder / "out.raw"]


def compute_command(folder: Path, net: str, threads: int, features: str = "features") -> list[str | Path]:
    """nnet3-compute, all utterances of ``features``.ark in chunks of 150 frames."""
    return [ROOT / "bin" / "nnet3-compute", f"--num-threads={threads}", "--frames-per-chunk=150", folder / f"{net}.raw",
            f"ark:{folder / features}.ark", f"ark:{folder / 'out.ark'}"]
