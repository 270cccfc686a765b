"""Features of words, such as their letters, in a text file: ``word_feats.txt``. Kaldi: ReadSparseWordFeatures."""
from __future__ import annotations

import os

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.formats.general import SparseMatrix
from nnet3py.io.streams import read_text

_LARGEST = 2 ** 31 - 1
_SHOWN = 80            # characters of a line in a message


def read_word_features(path: str | os.PathLike[str], num_features: int | None = None) -> SparseMatrix:
    """The features of words: a row for each word, a column for each feature.

    A line is the number of a word, 0, 1, 2, … in order, then pairs of a feature's number and its value; the numbers of
    features increase.

    Parameters
    ----------
    path : a file, or any rxfilename
    num_features : how many there are, the rows of the matrix of their embedding; None: up to the largest in the file

    Raises FormatError that names the first wrong line.
    """
    rxfilename = os.fspath(path)
    lines = read_text(rxfilename).splitlines()
    if not lines:
        raise FormatError("expected lines with a word's number and its features, found nothing", path=rxfilename)
    counts = np.array([len(line.split()) for line in lines], dtype=np.int64)
    try:
        numbers = np.fromiter(map(float, " ".join(lines).split()), np.float64, int(counts.sum()))
    except ValueError:
        raise _first_wrong(lines, num_features, rxfilename) from None
    firsts = np.cumsum(counts) - counts
    starts = np.concatenate(([0], np.cumsum((counts - 1) // 2)))
    if np.any(counts % 2 == 0) or not np.array_equal(numbers[firsts], np.arange(len(lines))):
        raise _first_wrong(lines, num_features, rxfilename)
    pairs = np.delete(numbers, firsts).reshape(-1, 2)
    features = pairs[:, 0]
    with np.errstate(over="ignore"):
        values = pairs[:, 1].astype(np.float32)
    limit = _LARGEST if num_features is None else num_features
    is_first = np.zeros(len(features) + 1, dtype=bool)
    is_first[starts] = True
    if len(features) and (features.min() < 0 or features.max() >= limit or np.any(features != np.floor(features))
                          or np.any((np.diff(features) <= 0) & ~is_first[1:-1]) or not np.isfinite(values).all()):
        raise _first_wrong(lines, num_features, rxfilename)
    num_columns = int(features.max(initial=-1)) + 1 if num_features is None else num_features
    return SparseMatrix(starts, features.astype(np.int32), values, num_columns)


def _first_wrong(lines: list[str], num_features: int | None, path: str) -> FormatError:
    """What is wrong with the first line that is."""
    limit = _LARGEST if num_features is None else num_features
    for number, line in enumerate(lines):
        problem = _problem(line.split(), number, limit)
        if problem:
            return FormatError(f"line {number + 1} of a file of word features: {problem}: {line[:_SHOWN]!r}", path=path)
    raise AssertionError("a line is wrong, but none was found")


def _problem(parts: list[str], number: int, limit: int) -> str:
    if not parts or not (parts[0].isascii() and parts[0].isdigit()) or int(parts[0]) != number:
        return f"expected it to begin with the number of the word, {number}: words are in order 0, 1, 2, …"
    if len(parts) % 2 == 0:
        return "the last feature has no value"
    last = -1
    for feature, value in zip(parts[1::2], parts[2::2], strict=True):
        try:
            column, is_number = float(feature), abs(float(value)) <= float(np.finfo(np.float32).max)
        except ValueError:
            return f"expected a feature and its value, found {feature} {value}"
        if not 0 <= column < limit or column != int(column):
            return f"expected a feature from 0 to {limit - 1}, found {feature}"
        if column <= last:
            return f"expected increasing features, found {feature} after {int(last)}"
        if not is_number:
            return f"expected a number for feature {feature}, found {value}"
        last = int(column)
    return ""
