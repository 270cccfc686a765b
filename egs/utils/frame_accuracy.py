#!/usr/bin/env python3
"""Print the part of frames whose largest output is the label: utils/frame_accuracy.py ark:post.ark ali.txt"""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.io.tables import read_matrices


def frame_accuracy(rspecifier: str, alignments: Path) -> float:
    """Right frames by all; exits with a message for utterances without labels and for different lengths."""
    labels = {name: np.array(rest, int) for name, *rest in map(str.split, alignments.read_text().splitlines())}
    right = total = 0
    for name, outputs in read_matrices(rspecifier):
        if name not in labels or len(labels[name]) != len(outputs):
            sys.exit(f"frame_accuracy.py: {alignments} has {len(labels.get(name, []))} labels of {name}, "
                     f"which has {len(outputs)} frames")
        right += int((outputs.argmax(1) == labels[name]).sum())
        total += len(outputs)
    if not total:
        sys.exit(f"frame_accuracy.py: there is nothing in {rspecifier}")
    return right / total


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        print(f"frame accuracy {frame_accuracy(sys.argv[1], Path(sys.argv[2])):.3f}")
    except (Nnet3Error, OSError) as error:
        sys.exit(f"frame_accuracy.py: {error}")
