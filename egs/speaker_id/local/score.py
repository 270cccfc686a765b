#!/usr/bin/env python3
"""Score trials in three ways and print the equal-error rate of each, in percent.

    local/score.py [options] TRAIN_VECTORS TRAIN_UTT2SPK TEST_VECTORS TRIALS

The vectors are tables, such as ark:exp/xvector/test.ark; a line of TRIALS is `UTTERANCE UTTERANCE target|nontarget`.

cosine          of vectors less the mean of all training vectors
lda-cosine      the same in the directions (their number follows) in which the training speakers differ most
two-covariance  log-likelihood ratio of one speaker against two, from covariances within and between the training
                speakers (as PLDA, with full rank), in the same directions, the vectors having unit length
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from verification import class_scatter, equal_error_rate, lda, log_likelihood_ratios, unit_length

from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import FLOAT_VECTOR
from nnet3py.io.tables import SequentialReader


def read_vectors(rspecifier: str) -> tuple[list[str], np.ndarray]:
    """Names and float64 (n, dim) of a table of vectors; exits with a message if it is empty."""
    with SequentialReader(rspecifier, FLOAT_VECTOR) as reader:
        table = [(key, np.asarray(vector, np.float64)) for key, vector in reader]
    if not table:
        sys.exit(f"score.py: there are no vectors in {rspecifier}")
    return [key for key, _ in table], np.stack([vector for _, vector in table])


def read_trials(path: Path, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Places among ``names`` int (trials, 2), which are targets bool (trials,); exits with a message on bad lines."""
    place = {name: number for number, name in enumerate(names)}
    pairs, is_target = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fields = line.split()
        if len(fields) != 3 or fields[2] not in ("target", "nontarget"):
            sys.exit(f"score.py: expected two utterances and target or nontarget in line {number} of {path}, "
                     f"found '{line}'")
        missing = [name for name in fields[:2] if name not in place]
        if missing:
            sys.exit(f"score.py: line {number} of {path}: there is no vector of {missing[0]}")
        pairs.append((place[fields[0]], place[fields[1]]))
        is_target.append(fields[2] == "target")
    if not pairs:
        sys.exit(f"score.py: there are no trials in {path}")
    return np.array(pairs), np.array(is_target)


def lda_scores(train: np.ndarray, labels: np.ndarray, test: np.ndarray, lda_dim: int) -> dict[str, np.ndarray]:
    """Of the two ways of scoring after LDA, the scores of all pairs of ``test`` (n, dim): float64 (n, n)."""
    center = train.mean(0)
    lda_dim = min(lda_dim, train.shape[1], len(np.unique(labels)) - 1)
    transform = lda(train - center, labels, lda_dim)
    train_lda, test_lda = (unit_length((vectors - center) @ transform.T) for vectors in (train, test))
    offset = train_lda.mean(0)
    within, between = class_scatter(train_lda - offset, labels)
    ridge = 1e-3 * np.trace(within) / len(within) * np.eye(len(within))   # unit length takes a dimension away
    return {f"lda-cosine-{lda_dim}": test_lda @ test_lda.T,
            f"two-covariance-{lda_dim}": log_likelihood_ratios(test_lda - offset, within + ridge, between)}


def dimensions(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lda-dims", type=dimensions, default=[20], help="one or more, such as 10,20")
    parser.add_argument("--scores", type=Path, help="write the two-covariance score (of the last dimension) of each "
                                                    "trial here")
    parser.add_argument("train_vectors")
    parser.add_argument("train_utt2spk", type=Path)
    parser.add_argument("test_vectors")
    parser.add_argument("trials", type=Path)
    args = parser.parse_args()
    speakers = dict(line.split() for line in args.train_utt2spk.read_text().splitlines())
    train_names, train = read_vectors(args.train_vectors)
    unknown = [name for name in train_names if name not in speakers]
    if unknown:
        sys.exit(f"score.py: {args.train_utt2spk} does not say whose utterance {unknown[0]} is")
    test_names, test = read_vectors(args.test_vectors)
    pairs, is_target = read_trials(args.trials, test_names)
    labels = np.array([speakers[name] for name in train_names])
    centered = unit_length(test - train.mean(0))
    matrices = {"cosine": centered @ centered.T}
    for lda_dim in args.lda_dims:
        matrices |= lda_scores(train, labels, test, lda_dim)
    for name, matrix in matrices.items():
        rate, _ = equal_error_rate(matrix[pairs[:, 0], pairs[:, 1]], is_target)
        print(f"{name} {100 * rate:.2f}")
    if args.scores:
        last = matrices[list(matrices)[-1]]
        args.scores.write_text("".join(f"{test_names[i]} {test_names[j]} {last[i, j]:.5f}\n" for i, j in pairs))


if __name__ == "__main__":
    try:
        main()
    except (Nnet3Error, OSError) as error:
        sys.exit(f"score.py: {error}")
