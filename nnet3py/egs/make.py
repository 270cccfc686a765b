"""Making examples from utterances. Kaldi: nnet3-get-egs, nnet3-get-egs-dense-targets."""
from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.splitter import Chunk, UtteranceSplitter
from nnet3py.errors import NumericError, ShapeError
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, check_finite, row_range
from nnet3py.formats.posteriors import Posterior

logger = logging.getLogger(__name__)


class ExampleMaker:
    """Cuts utterances into examples.

    Parameters
    ----------
    splitter : decides where
    compress : whether dense matrices are compressed
    num_pdfs : columns of the outputs made from posteriors
    online_ivector_period : frames per row of the iVector matrices
    """

    def __init__(self, splitter: UtteranceSplitter, compress: bool = True, num_pdfs: int = -1,
                 online_ivector_period: int = 1) -> None:
        self.splitter = splitter
        self._compress, self._num_pdfs, self._ivector_period = compress, num_pdfs, online_ivector_period

    def from_posteriors(self, utterance: str, features: GeneralMatrix, posterior: Posterior,
                        ivectors: np.ndarray | None = None) -> Iterator[tuple[str, NnetExample]]:
        """Yield (key, example), with sparse outputs: each frame's posteriors, divided by the number of its chunks.

        ``features`` (frames, dim) in any form; ``posterior`` with a frame per output frame. Before the first example,
        ShapeError for a pdf-id of ``num_pdfs`` or more, NumericError for NaN or infinity.
        """
        self._check_pdfs(utterance, posterior)
        if not np.isfinite(posterior.weights).all():
            raise NumericError("its posteriors have weights that are NaN or infinite", "check how they were made")
        self.check_finite(features, ivectors)
        for chunk in self.chunks(utterance, features.shape[0]):
            yield self._example(utterance, features, chunk, self._labels(chunk, posterior), ivectors)

    def from_targets(self, utterance: str, features: GeneralMatrix, targets: np.ndarray,
                     ivectors: np.ndarray | None = None) -> Iterator[tuple[str, NnetExample]]:
        """Yield (key, example), with rows of ``targets`` (output frames, dim) as outputs, which are not weighted.

        NumericError for NaN or infinity, before the first example.
        """
        check_finite(targets, "the target matrix")
        self.check_finite(features, ivectors)
        for chunk in self.chunks(utterance, features.shape[0]):
            rows = row_range(targets, *self.output_span(chunk))
            yield self._example(utterance, features, chunk, rows, ivectors)

    def ivectors_fit(self, utterance: str, num_frames: int, num_ivectors: int, tolerance: int) -> bool:
        """Whether an iVector matrix is as long as the utterance, within ``tolerance`` frames; a warning if not."""
        if num_ivectors and abs(num_frames - num_ivectors * self._ivector_period) <= tolerance:
            return True
        logger.warning("Length difference between feats %d and iVectors %d exceeds tolerance %d (utterance %s)",
                       num_frames, num_ivectors, tolerance, utterance)
        return False

    @staticmethod
    def check_finite(features: GeneralMatrix, ivectors: np.ndarray | None) -> None:
        """NumericError if features or iVectors hold NaN or infinity."""
        check_finite(features, "the feature matrix")
        if ivectors is not None:
            check_finite(ivectors, "the iVector matrix")

    def _check_pdfs(self, utterance: str, posterior: Posterior) -> None:
        ids = posterior.ids
        if len(ids) and not 0 <= ids.min() <= ids.max() < self._num_pdfs:
            raise ShapeError(f"utterance {utterance} has pdf-ids from {ids.min()} to {ids.max()}, but there are "
                             f"{self._num_pdfs} pdfs", "are --num-pdfs and the alignments of the same model?")

    def chunks(self, utterance: str, num_frames: int) -> list[Chunk]:
        """The pieces of an utterance, with a warning if it is too short to have any."""
        chunks = self.splitter.chunks(num_frames)
        if not chunks:
            logger.warning("Not producing egs for utterance %s because it is too short: %d frames.", utterance,
                           num_frames)
        return chunks

    def output_span(self, chunk: Chunk) -> tuple[int, int]:
        """First output frame and their number; both count subsampled frames, as do posteriors and targets.

        Kaldi's nnet3-get-egs looks posteriors up at the full rate although it checks their length at the subsampled
        one; without subsampling it is the same.
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
        """``input``, padded with copies of the first or last frame, and with ``ivectors`` an ``ivector``."""
        first = chunk.first_frame - chunk.left_context
        count = chunk.left_context + chunk.num_frames + chunk.right_context
        io = [NnetIo("input", time_indexes(-chunk.left_context, count), row_range(features, first, count))]
        if ivectors is not None:
            io.append(NnetIo("ivector", time_indexes(0, 1), self._ivector(ivectors, first, features.shape[0])))
        return io

    def _ivector(self, ivectors: np.ndarray, first: int, num_frames: int) -> np.ndarray:
        """A random row, as Kaldi draws it: over a span as long as the utterance that starts with the chunk's input."""
        frame = self.splitter.random.integer(first, first + num_frames - 1)
        row = min(max(int(frame / self._ivector_period), 0), len(ivectors) - 1)
        return ivectors[row:row + 1]


def time_indexes(first: int, count: int, step: int = 1) -> np.ndarray:
    """``count`` indexes with t = first, first + step, …: int32 (count, 3)."""
    indexes = np.zeros((count, 3), dtype=np.int32)
    indexes[:, 1] = first + step * np.arange(count)
    return indexes


def simple_example(parts: list[tuple[str, GeneralMatrix]]) -> NnetExample:
    """An example of whole matrices, t = 0, 1, … for the rows of each. Kaldi: nnet3-get-egs-simple."""
    if not parts:
        raise ShapeError("an example needs at least one input or output")
    return NnetExample([NnetIo(name, time_indexes(0, matrix.shape[0]), matrix) for name, matrix in parts])
