"""What the commands about i-vectors share: reading extractors, posteriors, vectors and trials."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.errors import FormatError, ShapeError, within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.posteriors import Posterior
    from nnet3py.ivectors.extractor import IvectorExtractor


def read_extractor(rxfilename: str) -> Any:
    """An extractor, with what is derived from it."""
    from nnet3py.io.object_files import read_object
    from nnet3py.ivectors.extractor import IvectorExtractor

    extractor = read_object(rxfilename, IvectorExtractor.read)
    derive(extractor)
    return extractor


def derive(extractor: IvectorExtractor) -> None:
    """Compute what is derived from an extractor, and log it, since it takes time."""
    log.log("Computing derived variables for iVector extractor")
    assert extractor.quadratics is not None
    log.log("Done.")


def with_posteriors(features: str, posteriors: str,
                    counts: dict[str, int]) -> Iterator[tuple[str, np.ndarray, Posterior]]:
    """Utterances that have posteriors of all their frames; others are warned of and counted as ``errors``."""
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader

    with SequentialReader(features, FLOAT_MATRIX) as matrices, RandomAccessReader(posteriors, POSTERIOR) as table:
        for key, matrix in matrices:
            if key not in table:
                log.warning(f"No posteriors for utterance {key}")
                counts["errors"] += 1
                continue
            posterior = table[key]
            if len(posterior) != len(matrix):
                log.warning(f"Size mismatch between posterior {len(posterior)} and features {len(matrix)} for "
                            f"utterance {key}")
                counts["errors"] += 1
                continue
            with within(f"utterance {key}"):
                check_finite(matrix, "features")
            yield key, matrix, posterior


def read_vectors(rspecifier: str) -> dict[str, np.ndarray]:
    """All vectors of a table. ShapeError if their dimensions differ."""
    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.io.tables import SequentialReader

    vectors: dict[str, np.ndarray] = {}
    with SequentialReader(rspecifier, FLOAT_VECTOR) as table:
        for key, vector in table:
            first = next(iter(vectors.values()), vector)
            if len(vector) != len(first):
                raise ShapeError(f"expected vectors of dimension {len(first)}, found {len(vector)}, {key}")
            vectors[key] = vector
    return vectors


def read_trials(rxfilename: str) -> Iterator[tuple[str, str]]:
    """Lines of two keys."""
    from nnet3py.io.streams import read_lines

    for number, line in enumerate(read_lines(rxfilename), 1):
        words = line.split()
        if len(words) != 2:
            raise FormatError(f"line {number} of the trials is not two keys: {line.strip()[:80]!r}", path=rxfilename)
        yield words[0], words[1]


class Moments:
    """Mean and standard deviation of numbers, for logs."""

    def __init__(self) -> None:
        self.count, self._sum, self._squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        """Add a number."""
        self.count, self._sum, self._squares = self.count + 1, self._sum + value, self._squares + value * value

    @property
    def mean(self) -> float:
        """The mean of all values."""
        return self._sum / (self.count or 1)

    @property
    def deviation(self) -> float:
        """The standard deviation of all values."""
        return math.sqrt(max(0.0, self._squares / (self.count or 1) - self.mean ** 2))
