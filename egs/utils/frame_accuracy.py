#!/usr/bin/env python3
"""Print the part of frames whose largest output is the label: utils/frame_accuracy.py ark:post.ark ali.txt

With --log first, outputs are logarithms, and the mean of the labels' own is printed, too.
"""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import read_matrices


def frame_scores(rspecifier: str, alignments: Path) -> tuple[float, float]:
    """(Right frames by all, mean output of the label); exits with a message for utterances without labels and for
    different lengths."""
    labels = {name: np.array(rest, int) for name, *rest in map(str.split, alignments.read_text().splitlines())}
    right = total = 0
    log_likelihood = 0.0
    for name, outputs in read_matrices(rspecifier):
        if name not in labels or len(labels[name]) != len(outputs):
            sys.exit(f"frame_accuracy.py: {alignments} has {len(labels.get(name, []))} labels of {name}, "
                     f"which has {len(outputs)} frames")
        right += int((outputs.argmax(1) == labels[name]).sum())
        log_likelihood += float(outputs[np.arange(len(outputs)), labels[name]].sum(dtype=float))
        total += len(outputs)
    if not total:
        sys.exit(f"frame_accuracy.py: there is nothing in {rspecifier}")
    return right / total, log_likelihood / total


if __name__ == "__main__":
    arguments = [word for word in sys.argv[1:] if word != "--log"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    try:
        accuracy, log_likelihood = frame_scores(arguments[0], Path(arguments[1]))
    except (Nnet3Error, OSError) as error:
        sys.exit(f"frame_accuracy.py: {error}")
    print(f"frame accuracy {accuracy:.3f}")
    if "--log" in sys.argv:
        print(f"log-likelihood {log_likelihood:.4f}")
