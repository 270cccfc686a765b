"""Making examples from utterances: where they are cut, and what each example holds.

Kaldi: ``UtteranceSplitter``, ``ExampleGenerationConfig``, nnet3-get-egs, nnet3-get-egs-dense-targets,
nnet3-get-egs-simple, nnet3-xvector-get-egs.
"""
from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.options import SplitOptions
from nnet3py.errors import FormatError, Nnet3Error, NumericError, ShapeError
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, check_finite, row_range
from nnet3py.formats.posteriors import Posterior
from nnet3py.io.streams import complete_input
from nnet3py.log import kaldi_place
from nnet3py.random_sequence import CRandom, philox

logger = logging.getLogger(__name__)


_SLACK = 1.9999                 # how much worse than the best a split may be and still be chosen
_SECONDS_PER_FRAME = 0.01


@dataclass
class Chunk:
    """A piece of an utterance: ``num_frames`` labeled frames from ``first_frame`` on, with context around them.

    ``output_weights``, float32 (num_frames / frame_subsampling_factor,), are the weights of the output frames: 1
    divided by the number of chunks that contain the frame.
    """

    first_frame: int
    num_frames: int
    left_context: int
    right_context: int
    output_weights: np.ndarray = field(default_factory=lambda: np.ones(0, dtype=np.float32))


class UtteranceSplitter:
    """Splitter of utterances into chunks, which also counts them for a report.

    Among equally good splits the choice is random, with the C library's generator; ``seed`` is its seed (1: unseeded).
    """

    def __init__(self, options: SplitOptions, seed: int = 1) -> None:
        self.options = options
        self.random = CRandom(seed)
        self._seed = seed
        self._pools = [] if options.num_frames == (-1,) else split_pools(options)
        self.num_utterances = self.num_frames = self.num_chunks = self.num_chunk_frames = self.num_overlap = 0
        self._frames_by_size: Counter[int] = Counter()

    # -- cutting -------------------------------------------------------------------------------------------------------

    @cached_property
    def _gap_random(self) -> np.random.Generator:
        return philox(self._seed)     # made when needed: numpy.random takes 10 ms to load

    def chunks(self, utterance_length: int) -> list[Chunk]:
        """Return the chunks of an utterance of ``utterance_length`` frames, in order of time; [] if it is too short.

        Kaldi: GetChunksForUtterance.
        """
        options = self.options
        if options.num_frames == (-1,):
            sizes, gaps = ([utterance_length] if utterance_length else []), [0]
        else:
            sizes = self._chunk_sizes(utterance_length)
            gaps = self._gaps(utterance_length, sizes)
        chunks = []
        position = 0
        for i, (size, gap) in enumerate(zip(sizes, gaps, strict=True)):
            position += gap
            first = i == 0 and options.left_context_initial >= 0
            last = i == len(sizes) - 1 and options.right_context_final >= 0
            chunks.append(Chunk(position, size, options.left_context_initial if first else options.left_context,
                               options.right_context_final if last else options.right_context))
            position += size
        self._set_weights(utterance_length, chunks)
        self._count(utterance_length, chunks)
        return chunks

    def _chunk_sizes(self, utterance_length: int) -> list[int]:
        principal = self.options.num_frames[0]
        step = principal - self.options.num_frames_overlap
        repeats = max(0, -(-(utterance_length - (len(self._pools) - 1)) // step))
        pool = self._pools[utterance_length - repeats * step]
        if not pool:
            return []
        sizes = sorted([*pool[self.random.integer(0, len(pool) - 1)], *[principal] * repeats])
        return sizes[::-1] if self.random.integer(0, 1) == 0 else sizes

    def _gaps(self, utterance_length: int, sizes: list[int]) -> list[int]:
        """Return for each chunk the number of frames between the chunk before (or the start) and it; negative: overlap.

        ``sizes`` are the chunks' numbers of frames.
        """
        if not sizes:
            return []
        factor = self.options.frame_subsampling_factor
        sizes = [size // factor for size in sizes]
        total = -(-utterance_length // factor) - sum(sizes)
        if total >= 0:
            every, extra = divmod(total, len(sizes) + 1)
            gaps = np.full(len(sizes) + 1, every)
            gaps[:extra] += 1
            if extra:
                self._gap_random.shuffle(gaps)
            return [factor * int(gap) for gap in gaps[:-1]]
        if len(sizes) == 1:
            raise Nnet3Error(f"Chunk size is {sizes[0]} but utterance length is only {utterance_length}")
        weights = [min(pair) for pair in zip(sizes, sizes[1:], strict=False)]
        return [0, *(-factor * share for share in _shares(-total, weights))]

    def _set_weights(self, utterance_length: int, chunks: list[Chunk]) -> None:
        factor = self.options.frame_subsampling_factor
        counts = np.zeros(-(-utterance_length // factor), dtype=np.int32)
        spans = [slice(chunk.first_frame // factor, chunk.first_frame // factor + chunk.num_frames // factor)
                 for chunk in chunks]
        for span in spans:
            counts[span] += 1
        for chunk, span in zip(chunks, spans, strict=True):
            chunk.output_weights = np.float32(1) / counts[span].astype(np.float32)

    # -- checking and reporting -----------------------------------------------------------------------------------

    def lengths_match(self, utterance: str, utterance_length: int, supervision_length: int, tolerance: int = 0) -> bool:
        """Return whether the number of labeled frames is as expected for the utterance; log a warning if not.

        The expected number is ``utterance_length`` divided by the frame subsampling factor, rounded up; up to
        ``tolerance`` frames more or less are accepted. Kaldi: LengthsMatch.
        """
        factor = self.options.frame_subsampling_factor
        expected = -(-utterance_length // factor)
        if abs(expected - supervision_length) <= tolerance:
            return True
        mismatch = f"expected length = {expected}, got {supervision_length}"
        if factor != 1:
            mismatch = (f"expected length = ({utterance_length} + {factor} - 1) / {factor} = {expected}, "
                     f"got: {supervision_length} (note: --frame-subsampling-factor={factor})")
        logger.warning("Supervision does not have expected length for utterance %s: %s", utterance, mismatch)
        return False

    def _count(self, utterance_length: int, chunks: list[Chunk]) -> None:
        self.num_utterances += 1
        self.num_frames += utterance_length
        self.num_chunks += len(chunks)
        for chunk in chunks:
            self._frames_by_size[chunk.num_frames] += chunk.num_frames
            self.num_chunk_frames += chunk.num_frames
        for before, after in zip(chunks, chunks[1:], strict=False):
            self.num_overlap += max(0, before.first_frame + before.num_frames - after.first_frame)

    def report(self) -> list[str]:
        """Return the lines that Kaldi logs at the end: numbers of utterances and frames, and the sizes of chunks."""
        frames = self.num_frames or float("nan")
        overlap, output = 100 * self.num_overlap / frames, 100 * self.num_chunk_frames / frames
        average = self.num_chunk_frames / (self.num_chunks or float("nan"))
        lines = [
            f"Split {self.num_utterances} utts, with total length {self.num_frames} frames "
            f"({self.num_frames * _SECONDS_PER_FRAME / 3600:g} hours assuming 100 frames per second) "
            f"into {self.num_chunks} chunks.",
            f"Average chunk length was {average:g} frames; overlap between adjacent chunks was {overlap:g}% of input "
            f"length; length of output was {output:g}% of input length (minus overlap = {output - overlap:g}%)."]
        if len(self._frames_by_size) > 1:
            shares = ", ".join(f"{size} = {100 * count / self.num_chunk_frames:.4g}%"
                               for size, count in sorted(self._frames_by_size.items()))
            lines.append(f"Output frames are distributed among chunk-sizes as follows: {shares}")
        return lines

    def log_report(self) -> None:
        """Log :meth:`report` with the source file and line of Kaldi's own log messages."""
        for line, number in zip(self.report(), (373, 383, 399), strict=False):
            logger.info("%s", line, extra=kaldi_place("~UtteranceSplitter", "nnet-example-utils.cc", number))


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """Divide ``total`` into integers in proportion to ``weights``, rounded down; the first get the remainder."""
    shares = [total * weight // sum(weights) for weight in weights]
    for i in range(total - sum(shares)):
        shares[i] += 1
    return shares


# -- which splits are possible --------------------------------------------------------------------------------------


def split_pools(options: SplitOptions) -> list[list[tuple[int, ...]]]:
    """Return the best splits (tuples of chunk sizes) for each utterance length, from 0 frames on.

    The list ends at twice the longest chunk plus the principal one; longer utterances have more chunks of the principal
    length. Kaldi: InitSplitForLength.
    """
    principal = options.num_frames[0]
    longest = 2 * max(options.num_frames) + principal
    splits = _candidate_splits(options, ceiling=longest + principal)
    lengths = np.arange(longest + 1, dtype=np.float32)
    costs = np.empty((len(splits), longest + 1), dtype=np.float32)
    for row, split in zip(costs, splits, strict=True):
        duration = _default_duration(split, options)
        row[:] = np.where(duration > lengths, duration - lengths, 2 * (lengths - duration))
        row[lengths < max(split)] = np.inf
    good = (costs < costs.min(axis=0) + np.float32(_SLACK)) & np.isfinite(costs)
    return [[splits[i] for i in np.flatnonzero(column)] for column in good.T]


def _candidate_splits(options: SplitOptions, ceiling: float) -> list[tuple[int, ...]]:
    """Return the splits up to ``ceiling`` frames in which at most two chunks have another than the principal length."""
    lengths = options.num_frames
    splits = set()
    alternates = [(), *((length,) for length in lengths[1:])]
    for first in alternates:
        for second in alternates:
            split = tuple(sorted(first + second))
            while _default_duration(split, options) <= ceiling:
                splits.add(split)
                split = tuple(sorted((*split, lengths[0])))
    return sorted(splits - {()})


def _default_duration(split: tuple[int, ...], options: SplitOptions) -> np.float32:
    """Return the number of frames that chunks of ascending sizes cover if neighbors overlap as the options say."""
    overlap = np.float32(options.num_frames_overlap) / np.float32(options.num_frames[0])
    duration = np.float32(sum(split))
    for size in split[:-1]:
        duration -= overlap * np.float32(size)      # ascending, so the first of two neighbors is the smaller
    return duration


class ExampleMaker:
    """Maker of examples from utterances.

    Parameters
    ----------
    splitter : UtteranceSplitter, which decides where utterances are cut
    compress : whether dense matrices are compressed
    num_pdfs : number of columns of outputs that are made from posteriors
    online_ivector_period : number of frames for each row of the iVector matrices
    """

    def __init__(self, splitter: UtteranceSplitter, compress: bool = True, num_pdfs: int = -1,
                 online_ivector_period: int = 1) -> None:
        self.splitter = splitter
        self._compress, self._num_pdfs, self._ivector_period = compress, num_pdfs, online_ivector_period

    def from_posteriors(self, utterance: str, features: GeneralMatrix, posterior: Posterior,
                        ivectors: np.ndarray | None = None) -> Iterator[tuple[str, NnetExample]]:
        """Yield (key, example) for each chunk of an utterance, with its posteriors as sparse outputs.

        The posteriors of a frame are divided by the number of chunks that contain it. ``features`` are a matrix
        (frames, dim) of any kind; ``posterior`` has one entry for each output frame. Before the first example
        ShapeError is raised for a pdf-id of ``num_pdfs`` or more, NumericError for NaN or infinity.
        """
        self._check_pdfs(utterance, posterior)
        if not np.isfinite(posterior.weights).all():
            raise NumericError("the posteriors have weights that are NaN or infinite", "check how they were made")
        self.check_finite(features, ivectors)
        for chunk in self.chunks(utterance, features.shape[0]):
            yield self._example(utterance, features, chunk, self._labels(chunk, posterior), ivectors)

    def from_targets(self, utterance: str, features: GeneralMatrix, targets: np.ndarray,
                     ivectors: np.ndarray | None = None) -> Iterator[tuple[str, NnetExample]]:
        """Yield (key, example) for each chunk of an utterance, whose outputs are rows of ``targets``.

        ``targets`` are float (output frames, dim). NumericError is raised for NaN or infinity, before the first
        example.
        """
        check_finite(targets, "the target matrix")
        self.check_finite(features, ivectors)
        for chunk in self.chunks(utterance, features.shape[0]):
            rows = row_range(targets, *self.output_span(chunk))
            yield self._example(utterance, features, chunk, rows, ivectors)

    def ivectors_fit(self, utterance: str, num_frames: int, num_ivectors: int, tolerance: int) -> bool:
        """Return whether an iVector matrix is as long as the utterance, within ``tolerance`` frames; warn if not."""
        if num_ivectors and abs(num_frames - num_ivectors * self._ivector_period) <= tolerance:
            return True
        logger.warning("Length difference between feats %d and iVectors %d exceeds tolerance %d (utterance %s)",
                       num_frames, num_ivectors, tolerance, utterance)
        return False

    @staticmethod
    def check_finite(features: GeneralMatrix, ivectors: np.ndarray | None) -> None:
        """Raise NumericError if features or iVectors hold NaN or infinity."""
        check_finite(features, "the feature matrix")
        if ivectors is not None:
            check_finite(ivectors, "the iVector matrix")

    def _check_pdfs(self, utterance: str, posterior: Posterior) -> None:
        ids = posterior.ids
        if len(ids) and not 0 <= ids.min() <= ids.max() < self._num_pdfs:
            raise ShapeError(f"utterance {utterance} has pdf-ids from {ids.min()} to {ids.max()}, but there are "
                             f"{self._num_pdfs} pdfs", "are --num-pdfs and the alignments of the same model?")

    def chunks(self, utterance: str, num_frames: int) -> list[Chunk]:
        """Return the chunks of an utterance; log a warning if it is too short for any."""
        chunks = self.splitter.chunks(num_frames)
        if not chunks:
            logger.warning("Not producing egs for utterance %s because it is too short: %d frames.", utterance,
                           num_frames)
        return chunks

    def output_span(self, chunk: Chunk) -> tuple[int, int]:
        """Return the first output frame of a chunk, and the number of its output frames.

        Output frames are those after subsampling, one for each entry of posteriors. (With subsampling, Kaldi's
        nnet3-get-egs takes posteriors by input frames, although it expects one for each output frame.)
        """
        factor = self.splitter.options.frame_subsampling_factor
        return chunk.first_frame // factor, chunk.num_frames // factor

    def _labels(self, chunk: Chunk, posterior: Posterior) -> SparseMatrix:
        first, count = self.output_span(chunk)
        starts = posterior.row_starts[np.minimum(np.arange(first, first + count + 1), len(posterior))]
        entries = slice(int(starts[0]), int(starts[-1]))
        weights = posterior.weights[entries] * np.repeat(chunk.output_weights, np.diff(starts))
        return SparseMatrix.from_arrays(starts - starts[0], posterior.ids[entries], weights, self._num_pdfs)

    def _example(self, utterance: str, features: GeneralMatrix, chunk: Chunk, output: GeneralMatrix,
                 ivectors: np.ndarray | None) -> tuple[str, NnetExample]:
        io = self.inputs(features, chunk, ivectors)
        factor = self.splitter.options.frame_subsampling_factor
        io.append(NnetIo("output", time_indexes(0, output.shape[0], factor), output))
        example = NnetExample(io)
        if self._compress:
            example.compress()
        return f"{utterance}-{chunk.first_frame}", example

    def inputs(self, features: GeneralMatrix, chunk: Chunk, ivectors: np.ndarray | None) -> list[NnetIo]:
        """Return the inputs of a chunk: ``input`` and, if ``ivectors`` are given, ``ivector``.

        Context beyond the ends of the utterance consists of copies of its first or last frame.
        """
        first = chunk.first_frame - chunk.left_context
        count = chunk.left_context + chunk.num_frames + chunk.right_context
        io = [NnetIo("input", time_indexes(-chunk.left_context, count), row_range(features, first, count))]
        if ivectors is not None:
            io.append(NnetIo("ivector", time_indexes(0, 1), self._ivector(ivectors, first, features.shape[0])))
        return io

    def _ivector(self, ivectors: np.ndarray, first: int, num_frames: int) -> np.ndarray:
        """Return a random row of ``ivectors``, (1, dim), drawn as in Kaldi.

        It is the row of a random frame of the ``num_frames`` from the chunk's first input frame, ``first``, on.
        """
        frame = self.splitter.random.integer(first, first + num_frames - 1)
        row = min(max(int(frame / self._ivector_period), 0), len(ivectors) - 1)
        return ivectors[row:row + 1]


def time_indexes(first: int, count: int, step: int = 1) -> np.ndarray:
    """Return ``count`` indexes with t = first, first + step, …: int32 (count, 3)."""
    indexes = np.zeros((count, 3), dtype=np.int32)
    indexes[:, 1] = first + step * np.arange(count)
    return indexes


def simple_example(parts: list[tuple[str, GeneralMatrix]]) -> NnetExample:
    """Return an example of whole matrices, given as (name of the input or output, matrix).

    The rows of each have the times t = 0, 1, and so on. Kaldi: nnet3-get-egs-simple.
    """
    if not parts:
        raise ShapeError("an example needs at least one input or output")
    return NnetExample([NnetIo(name, time_indexes(0, matrix.shape[0]), matrix) for name, matrix in parts])


_FIELDS = ("utterance", "relative archive index", "absolute archive index", "first frame", "number of frames", "label")
_LARGEST = 2**31 - 1


class SpeakerRange(NamedTuple):
    """A line of a ranges file: the frames of an example, its archive, and the label of its speaker."""

    key: str                 # key of the example
    archive: int
    first_frame: int
    num_frames: int
    label: int

    def example(self, features: np.ndarray, num_pdfs: int, compress: bool = True) -> NnetExample | None:
        """Return the example of this range; None if the utterance has fewer than ``num_frames`` frames.

        A range that would end beyond the utterance begins earlier. ``features``, float32 (frames, dim), are those of
        the utterance, ``num_pdfs`` is the number of labels. ShapeError for a label that is too large, NumericError for
        NaN or infinity.
        """
        if self.label >= num_pdfs:
            raise ShapeError(f"example {self.key} has the label {self.label}, but --num-pdfs={num_pdfs}, so labels are "
                             f"0 to {num_pdfs - 1}", "give the number of speakers")
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
    """Read a ranges file; return the ranges of each utterance, in the file's order. FormatError for an invalid line.

    A line has six fields: utterance, relative archive index (of ``num_archives``, from 0), absolute archive index
    (ignored), first frame, number of frames, label.
    """
    ranges: dict[str, list[SpeakerRange]] = {}
    with complete_input(rxfilename) as stream:
        for number, line in enumerate(stream, 1):
            utterance, speaker_range = _parsed(line.decode("utf-8", "surrogateescape"), f"line {number} of the ranges",
                                     rxfilename, num_archives)
            ranges.setdefault(utterance, []).append(speaker_range)
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
