#!/usr/bin/env python3
"""Write mean.vec and transform.mat of a speaker model: the mean of vectors, and linear discriminant analysis.

    local/make_speaker_model.py --lda-dim 32 ark:xvectors.ark utt2spk MODEL_FOLDER

The transform goes into the directions in which speakers differ most for how much vectors of one speaker differ, and
gives these variance 1 (Fisher, 1936).
"""
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.linalg import eigh

from nnet3py.formats.holders import FLOAT_VECTOR
from nnet3py.formats.matrices import write_matrix, write_vector
from nnet3py.io.object_files import write_object
from nnet3py.io.tables import SequentialReader

SMOOTHING = 0.01               # of the variance within speakers that is the same in all directions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lda-dim", type=int, default=32)
    parser.add_argument("vectors")
    parser.add_argument("utt2spk", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    speaker_of = dict(line.split() for line in args.utt2spk.read_text().splitlines())
    with SequentialReader(args.vectors, FLOAT_VECTOR) as reader:
        keys, vectors = zip(*reader, strict=True)
    stacked = np.stack(vectors).astype(np.float64)
    mean = stacked.mean(axis=0)
    centered = stacked - mean
    _, numbers = np.unique([speaker_of[key] for key in keys], return_inverse=True)
    means = np.stack([centered[numbers == number].mean(axis=0) for number in range(numbers.max() + 1)])
    rest = centered - means[numbers]
    within = rest.T @ rest / len(rest)
    within += SMOOTHING * np.trace(within) / len(within) * np.eye(len(within))
    between = means[numbers].T @ means[numbers] / len(rest)
    _, directions = eigh(between, within)
    transform = directions[:, ::-1][:, :args.lda_dim].T
    write_object(str(args.folder / "mean.vec"), lambda writer: write_vector(writer, mean.astype(np.float32)))
    write_object(str(args.folder / "transform.mat"), lambda writer: write_matrix(writer, transform.astype(np.float32)))


if __name__ == "__main__":
    main()
