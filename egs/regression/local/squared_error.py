#!/usr/bin/env python3
"""Print how far features are from their targets: mean squared error per dimension, for each group of utterances.

    local/squared_error.py [options] TARGETS NAME=FEATURES…

All are tables, such as scp:exp/denoise/denoised.scp. --by names a file of `UTTERANCE GROUP` lines, such as utt2snr.
--linear FEATURES TARGETS adds a yardstick: the first NAME's features, mapped by the affine map of one frame that fits
these training features and targets best.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import read_matrices

Table = dict[str, np.ndarray]


def affine_map(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Callable[[np.ndarray], np.ndarray]:
    """The affine map of rows with the least squared error on ``pairs`` of features and targets, (frames, dim) each."""
    square = cross = 0.0
    for features, targets in pairs:
        extended = _with_one(features)
        square, cross = square + extended.T @ extended, cross + extended.T @ targets
    matrix = np.linalg.solve(np.asarray(square), np.asarray(cross))
    return lambda features: _with_one(features) @ matrix


def _with_one(features: np.ndarray) -> np.ndarray:
    return np.hstack([features.astype(np.float64), np.ones((len(features), 1))])


def squared_errors(features: Table, targets: Table, group: dict[str, str]) -> dict[str, float]:
    """The mean of squared differences for each group and for ``all``; exits with a message where the tables differ."""
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for name, target in targets.items():
        if name not in features or features[name].shape != target.shape:
            found = f"of shape {features[name].shape}" if name in features else "missing"
            sys.exit(f"squared_error.py: the features of {name} are {found}, but its targets have {target.shape}")
        error = float(((features[name].astype(np.float64) - target) ** 2).sum())
        for key in (group.get(name, "none"), "all"):
            sums[key] = sums.get(key, 0.0) + error
            counts[key] = counts.get(key, 0) + target.size
    return {key: sums[key] / counts[key] for key in sums}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", type=Path)
    parser.add_argument("--linear", nargs=2, metavar=("FEATURES", "TARGETS"))
    parser.add_argument("targets")
    parser.add_argument("features", nargs="+", metavar="NAME=FEATURES")
    args = parser.parse_args()
    group = dict(line.split() for line in args.by.read_text().splitlines()) if args.by else {}
    targets = dict(read_matrices(args.targets))
    if not targets:
        sys.exit(f"squared_error.py: there are no targets in {args.targets}")
    tables: dict[str, Table] = {}
    for item in args.features:
        name, _, rspecifier = item.partition("=")
        tables[name] = dict(read_matrices(rspecifier))
    if args.linear:
        train_targets = dict(read_matrices(args.linear[1]))
        fitted = affine_map([(features, train_targets[name]) for name, features in read_matrices(args.linear[0])])
        first = next(iter(tables.values()))
        tables["linear"] = {name: fitted(features) for name, features in first.items()}
    errors = {name: squared_errors(table, targets, group) for name, table in tables.items()}
    keys = sorted((key for key in next(iter(errors.values())) if key != "all"), key=lambda key: (len(key), key))
    print(f"{'mean squared error':20}" + "".join(f"{key:>9}" for key in [*keys, "all"]))
    for name, by_key in errors.items():
        print(f"{name:20}" + "".join(f"{by_key[key]:9.3f}" for key in [*keys, "all"]))


if __name__ == "__main__":
    try:
        main()
    except (Nnet3Error, OSError) as error:
        sys.exit(f"squared_error.py: {error}")
