"""Examples for networks that tell speakers apart: pieces of utterances, listed in a file.

Kaldi: nnet3-xvector-get-egs.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.make import time_indexes
from nnet3py.errors import FormatError, ShapeError
from nnet3py.formats.general import SparseMatrix, check_finite
from nnet3py.io.streams import failed_command, open_input

_FIELDS = ("utterance", "relative archive index", "absolute archive index", "first frame", "number of frames", "label")
_LARGEST = 2**31 - 1


class SpeakerRange(NamedTuple):
    """A line of a ranges file: which frames make an example, where it goes, and whose voice it is."""

    key: str                 # of the example
    archive: int
    first_frame: int
    num_frames: int
    label: int

    def example(self, features: np.ndarray, num_pdfs: int, compress: bool = True) -> NnetExample | None:
        """The example of these frames of an utterance; None if the utterance has fewer.

        Frames that would lie beyond its end are taken earlier. ``features`` is float32 (frames, dim), ``num_pdfs`` the
        number of labels. ShapeError for a label that is too large, NumericError for NaN or infinity.
        """
        if self.label >= num_pdfs:
            raise ShapeError(f"example {self.key} has the label {self.label}, but there are {num_pdfs}",
                             "is --num-pdfs right? Labels count from 0")
        if len(features) < self.num_frames:
            return None
        first = min(self.first_frame, len(features) - self.num_frames)
        rows = features[first:first + self.num_frames]
        check_finite(rows, "the feature matrix")
        label = SparseMatrix.from_rows([[(self.label, 1.0)]], num_pdfs)
        example = NnetExample([NnetIo("input", time_indexes(0, len(rows)), rows),
                               NnetIo("output", time_indexes(0, 1), label)])
        if compress:
            example.compress()
        return example


def read_speaker_ranges(rxfilename: str, num_archives: int) -> dict[str, list[SpeakerRange]]:
    """The ranges of each utterance, in the file's order; FormatError for any other line.

    A line has six fields: utterance, relative archive index (of ``num_archives``, from 0), absolute archive index
    (ignored), first frame, number of frames, label.
    """
    ranges: dict[str, list[SpeakerRange]] = {}
    with open_input(rxfilename) as stream:
        for number, line in enumerate(stream, 1):
            utterance, speaker_range = _parsed(line.decode("utf-8", "surrogateescape"), f"line {number} of the ranges",
                                     rxfilename, num_archives)
            ranges.setdefault(utterance, []).append(speaker_range)
    if stream.status:
        raise failed_command(rxfilename, stream.status)
    return ranges


def _parsed(line: str, where: str, path: str, num_archives: int) -> tuple[str, SpeakerRange]:
    fields = line.split()
    if len(fields) != len(_FIELDS):
        raise FormatError(f"Expected {len(_FIELDS)} fields ({', '.join(_FIELDS)}) in {where}, found {len(fields)}",
                          path=path)
    numbers = []
    for i, least in ((1, 0), (3, 0), (4, 1), (5, 0)):
        text = fields[i]
        if not (text.isascii() and text.isdigit()) or not least <= int(text) <= _LARGEST:
            raise FormatError(f"Expected a {_FIELDS[i]} of {least} or more in {where}, found '{text}'", path=path)
        numbers.append(int(text))
    if numbers[0] >= num_archives:
        raise FormatError(f"Requested output index exceeds number of specified output files: {numbers[0]} in {where}, "
                          f"but there are {num_archives} outputs, counted from 0", path=path)
    return fields[0], SpeakerRange("-".join((fields[0], *fields[3:])), *numbers)
