"""Draws images/training-objective.svg of docs/training.md anew: python docs/make_training_picture.py [EXP-DIR]

Without a folder of a training, the one of the page is trained first, by the page's own commands, in egs/digits/exp: a
few minutes. The picture is the first plot of that training's report.
"""
from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from nnet3py.report.training_page import write_report

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGE, PICTURE = DOCS / "training.md", DOCS / "images" / "training-objective.svg"
LAST = "train-dnn "        # what the block begins with after which nothing more is needed


def commands() -> str:
    """The blocks of the page up to the training."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    end = next(number for number, block in enumerate(blocks) if block.startswith(LAST))
    return "".join(blocks[:end + 1])


def trained() -> Path:
    """The page's training, done now unless it is there."""
    subprocess.run(["bash", "-e", "-c", commands()], cwd=ROOT, check=True,
                   env={**os.environ, "NNET3PY_PYTHON": sys.executable})
    [name] = re.findall(r"--dir=(\S+)", commands())
    return ROOT / "egs" / "digits" / name


def draw(training: Path) -> str:
    """The SVG's text."""
    with tempfile.TemporaryDirectory() as folder:
        write_report([training], Path(folder))
        return (Path(folder) / "objective-output.svg").read_text(encoding="utf-8")


if __name__ == "__main__":
    PICTURE.write_text(draw(Path(sys.argv[1]) if len(sys.argv) > 1 else trained()), encoding="utf-8")
