#!/usr/bin/env python3
"""Write the mean of each utterance's features: local/mean_features.py ark:feats.ark ark:means.ark"""
from __future__ import annotations

import sys

from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import FLOAT_VECTOR, read_matrices
from nnet3py.io.tables import TableWriter


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with TableWriter(sys.argv[2], FLOAT_VECTOR) as writer:
        for name, features in read_matrices(sys.argv[1]):
            if len(features):
                writer.write(name, features.mean(0))


if __name__ == "__main__":
    try:
        main()
    except (Nnet3Error, OSError) as error:
        sys.exit(f"mean_features.py: {error}")
