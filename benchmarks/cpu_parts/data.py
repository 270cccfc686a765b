"""The benchmark's data, made from egs/digits/data, and the commands that are timed on it."""
from __future__ import annotations

import os
from pathlib import Path

from cpu_parts.processes import ROOT, program

LARGE = ("tdnnf", "tdnn-lstm")      # benchmarks/nets
RECIPES = ("tdnn", "lstm")          # egs/digits/conf
UTTERANCES = 120                    # of the large nets' data
TRAIN = ROOT / "egs" / "digits" / "data" / "train"
_ALIGNMENT = f"ark:ali-to-post ark,t:{TRAIN / 'ali.txt'} ark:- |"


def make(folder: Path) -> None:
    """Make models, features and merged examples in ``folder``; what is there already is kept."""
    for net, config in [(net, ROOT / "benchmarks" / "nets" / f"{net}.config") for net in LARGE] + \
            [(net, ROOT / "egs" / "digits" / "conf" / f"{net}.config") for net in RECIPES]:
        if not (folder / f"{net}.raw").exists():
            program("nnet3-init", "--srand=1", config, folder / f"{net}.raw", threads=1)
    if not (folder / "large.ark").exists():
        _make_large(folder)
    if not (folder / "recipe.ark").exists():
        _make_recipe(folder)


def _make_large(folder: Path) -> None:
    """features.ark (120 utterances), short.ark (the shortest of all), large.ark (13 minibatches of 32 x 60 frames)."""
    program("subset-feats", f"--n={UTTERANCES}", f"ark:{TRAIN / 'feats.ark'}", f"ark:{folder / 'features.ark'}",
            threads=1)
    lengths = (line.split() for line in (TRAIN / "utt2num_frames").read_text(encoding="utf-8").splitlines())
    (folder / "short.list").write_text(min(lengths, key=lambda line: int(line[1]))[0] + "\n", encoding="utf-8")
    program("subset-feats", f"--include={folder / 'short.list'}", f"ark:{TRAIN / 'feats.ark'}",
            f"ark:{folder / 'short.ark'}", threads=1)
    program("nnet3-get-egs", "--num-pdfs=28", "--left-context=28", "--right-context=28", "--num-frames=60",
            f"ark:{folder / 'features.ark'}", _ALIGNMENT, f"ark:{folder / 'single.ark'}", threads=1)
    program("nnet3-merge-egs", "--minibatch-size=32", f"ark:{folder / 'single.ark'}", f"ark:{folder / 'large.part'}",
            threads=1)
    _complete(folder, "large")


def _make_recipe(folder: Path) -> None:
    """recipe.ark: the examples of the digits recipe, shuffled, 181 minibatches of 64."""
    program("nnet3-get-egs", "--num-pdfs=28", "--left-context=12", "--right-context=12", "--num-frames=8",
            f"ark:{TRAIN / 'feats.ark'}", _ALIGNMENT, f"ark:{folder / 'single.ark'}", threads=1)
    program("nnet3-merge-egs", "--minibatch-size=64",
            f"ark:nnet3-shuffle-egs --buffer-size=5000 ark:{folder / 'single.ark'} ark:- |",
            f"ark:{folder / 'recipe.part'}", threads=1)
    _complete(folder, "recipe")


def _complete(folder: Path, name: str) -> None:
    """Only a complete file gets its name."""
    os.replace(folder / f"{name}.part", folder / f"{name}.ark")
    (folder / "single.ark").unlink()


def train_command(folder: Path, net: str, threads: int) -> list[str | Path]:
    """nnet3-train, one pass over the net's examples."""
    examples = folder / ("large.ark" if net in LARGE else "recipe.ark")
    return [ROOT / "bin" / "nnet3-train", f"--num-threads={threads}", "--max-param-change=2.0", folder / f"{net}.raw",
            f"ark:{examples}", folder / "out.raw"]


def compute_command(folder: Path, net: str, threads: int, features: str = "features") -> list[str | Path]:
    """nnet3-compute, all utterances of ``features``.ark in chunks of 150 frames."""
    return [ROOT / "bin" / "nnet3-compute", f"--num-threads={threads}", "--frames-per-chunk=150", folder / f"{net}.raw",
            f"ark:{folder / features}.ark", f"ark:{folder / 'out.ark'}"]
