"""Where an utterance is cut into chunks of given lengths. Kaldi: ``UtteranceSplitter``, ``ExampleGenerationConfig``."""
from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.egs.options import SplitOptions
from nnet3py.errors import Nnet3Error
from nnet3py.log import kaldi_place
from nnet3py.random_sequence import CRandom, philox

logger = logging.getLogger(__name__)

_SLACK = 1.9999                 # how much worse than the best a split may be and still be chosen
_SECONDS_PER_FRAME = 0.01


@dataclass
class Chunk:
    """A piece of an utterance: supervised frames ``first_frame`` … + ``num_frames``, with context around them.

    ``output_weights`` is float32 (num_frames / frame_subsampling_factor,): 1 / how many chunks cover the frame.
    """

    first_frame: int
    num_frames: int
    left_context: int
    right_context: int
    output_weights: np.ndarray = field(default_factory=lambda: np.ones(0, dtype=np.float32))


class UtteranceSplitter:
    """Cuts utterances into chunks, and counts what it did.

    Which of several equally good splits is taken is random; ``seed`` is that of the C library (1: unseeded).
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
        """The chunks of an utterance of that many frames, in order of time; none if it is too short.

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
        """Frames between one chunk's end and the next one's start (negative where they overlap), the first included."""
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
        """Whether a supervision of that many frames fits the utterance; a warning if not. Kaldi: LengthsMatch."""
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
        """What Kaldi logs at the end: how much was cut into how many chunks of which sizes."""
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
        """Log :meth:`report` where Kaldi's own programs log it."""
        for line, number in zip(self.report(), (373, 383, 399), strict=False):
            logger.info("%s", line, extra=kaldi_place("~UtteranceSplitter", "nnet-example-utils.cc", number))


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` divided in proportion to ``weights``, rounded down, the units left over going to the first ones."""
    shares = [total * weight // sum(weights) for weight in weights]
    for i in range(total - sum(shares)):
        shares[i] += 1
    return shares


# -- which splits are possible --------------------------------------------------------------------------------------


def split_pools(options: SplitOptions) -> list[list[tuple[int, ...]]]:
    """For every utterance length 0 … the largest one treated here, the splits (chunk sizes) to choose from.

    Kaldi: InitSplitForLength.
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
    """At most two chunks of other than the principal length, and principal ones up to a duration of ``ceiling``."""
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
    """Frames that chunks of these sizes (ascending) cover with the usual overlap between neighbors."""
    overlap = np.float32(options.num_frames_overlap) / np.float32(options.num_frames[0])
    duration = np.float32(sum(split))
    for size in split[:-1]:
        duration -= overlap * np.float32(size)      # ascending, so the first of two neighbors is the smaller
    return duration
