"""Making chain examples from utterances. Kaldi: nnet3-chain-get-egs, nnet3-chain-e2e-get-egs."""
from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.chain.acceptor import SupervisionError
from nnet3py.chain.normalization import Normalizer
from nnet3py.chain.supervision import SupervisionSplitter, end_to_end_supervision, unconstrained
from nnet3py.egs.chain_example import NnetChainExample, NnetChainSupervision, Supervision
from nnet3py.egs.make import Chunk, ExampleMaker, UtteranceSplitter, time_indexes
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import GeneralMatrix, row_range
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.random_sequence import philox
from nnet3py.transducers.fst import Fst

logger = logging.getLogger(__name__)

_LEAST_FRAMES = 2           # output frames of an example that can be stored
_TOO_FAR = 5                # frames: a length that far from every allowed one is not changed
_NO_LENGTH_NEAR = 100       # frames; Kaldi's figure for lengths further away


class ChainExampleMaker:
    """Maker of chain examples from utterances and their supervisions.

    Parameters
    ----------
    splitter : chooses the chunks of an utterance
    normalizer : normalizer of supervisions; None if nnet3-chain-normalize-egs is run on the examples later
    model : transition model, if the labels of supervisions are transition-ids, to make them unconstrained; None if the
        labels are pdf-ids
    compress : whether inputs are compressed
    online_ivector_period : frames per row of the iVector matrices
    long_key : whether keys include contexts and length
    seed : seed of the random paths in unconstrained supervisions

    ``num_normalized`` and ``num_not_normalized`` count the examples whose supervision could be normalized, or could
    not. Raises Nnet3Error for examples of fewer than two output frames.
    """

    def __init__(self, splitter: UtteranceSplitter, normalizer: Normalizer | None = None,
                 model: TransitionModel | None = None, compress: bool = True, online_ivector_period: int = 1,
                 long_key: bool = False, seed: int = 0) -> None:
        factor = splitter.options.frame_subsampling_factor
        if splitter.options.num_frames != (-1,) and min(splitter.options.num_frames) // factor < _LEAST_FRAMES:
            raise Nnet3Error(f"--num-frames={','.join(map(str, splitter.options.num_frames))} asks for examples of one "
                             "output frame", f"chain examples need two or more: at least {_LEAST_FRAMES * factor}")
        self.cutter = ExampleMaker(splitter, compress, online_ivector_period=online_ivector_period)
        self._splitter, self._normalizer, self._model = splitter, normalizer, model
        self._compress, self._long_key = compress, long_key
        self._seed = seed
        self.num_normalized = self.num_not_normalized = 0

    @cached_property
    def _random(self) -> np.random.Generator:
        return philox(self._seed)     # made when needed: numpy.random takes 10 ms to load

    def examples(self, utterance: str, features: GeneralMatrix, supervision: Supervision,
                 ivectors: np.ndarray | None = None,
                 deriv_weights: np.ndarray | None = None) -> Iterator[tuple[str, NnetChainExample]]:
        """Yield (key, example) for each piece of an utterance; nothing, with a warning, if it is too short.

        A supervision that cannot be normalized is kept unchanged, with a warning, as in Kaldi; a piece is left out if
        its supervision cannot be made unconstrained.

        Parameters
        ----------
        features : (frames, dim), in any form
        supervision : the supervision of the whole utterance
        ivectors : float32 (rows, dim)
        deriv_weights : float32 (output frames,), 0 or more; missing ones at the end are 0

        Raises SupervisionError for a supervision that cannot be cut, invalid weights; NumericError for features or
        iVectors with NaN or infinity.
        """
        self.cutter.check_finite(features, ivectors)
        if deriv_weights is not None and not (np.isfinite(deriv_weights) & (deriv_weights >= 0.0)).all():
            raise SupervisionError("a derivative weight is NaN, infinite or below 0")
        splitter = SupervisionSplitter(supervision)
        factor = self._splitter.options.frame_subsampling_factor
        num_frames = min(features.shape[0], factor * supervision.frames_per_sequence)
        for chunk in self.cutter.chunks(utterance, num_frames):
            first, count = self.cutter.output_span(chunk)
            if count < _LEAST_FRAMES:
                logger.warning("Not producing an example of utterance %s: it has %d output frames", utterance, count)
                continue
            piece = self._finished(utterance, chunk, splitter.frame_range(first, count))
            if piece is None:
                continue
            weights = chunk.output_weights
            if deriv_weights is not None:
                given = deriv_weights[first:first + count]
                weights = weights * np.pad(given, (0, count - len(given)))
            yield self._key(utterance, chunk), self._example(features, chunk, piece, weights, ivectors)

    def _finished(self, utterance: str, chunk: Chunk, piece: Supervision) -> Supervision | None:
        """Return a piece's supervision, unconstrained and normalized if requested; None if it cannot be unconstrained.
        """
        where = f"For utterance {utterance}, feature frames {chunk.first_frame} to " \
                f"{chunk.first_frame + chunk.num_frames}"
        if self._model is not None:
            try:
                piece = unconstrained(piece, self._model, self._random)
            except SupervisionError as error:
                logger.warning("%s, the supervision could not be made unconstrained: %s", where, error)
                return None
        return self._normalized(where, piece)

    def _normalized(self, where: str, piece: Supervision) -> Supervision:
        if self._normalizer is None:
            return piece
        try:
            normalized = self._normalizer(piece)
            self.num_normalized += 1
            return normalized
        except SupervisionError as error:
            self.num_not_normalized += 1
            logger.warning("%s, %s. This should be extremely rare (a few per corpus, at most); the example is written "
                           "without normalization", where, error)
            return piece

    def _key(self, utterance: str, chunk: Chunk) -> str:
        if not self._long_key:
            return f"{utterance}-{chunk.first_frame}"
        return (f"{utterance}-{chunk.first_frame}-{chunk.left_context}-{chunk.num_frames}-{chunk.right_context}-v1")

    def _example(self, features: GeneralMatrix, chunk: Chunk, supervision: Supervision, weights: np.ndarray,
                 ivectors: np.ndarray | None) -> NnetChainExample:
        factor = self._splitter.options.frame_subsampling_factor
        indexes = time_indexes(0, supervision.frames_per_sequence, factor)
        output = NnetChainSupervision("output", indexes, supervision, weights.astype(np.float32))
        example = NnetChainExample(list(self.cutter.inputs(features, chunk, ivectors)), [output])
        if self._compress:
            example.compress()
        return example

    # -- whole utterances ------------------------------------------------------------------------------------------

    def end_to_end_example(self, utterance: str, features: GeneralMatrix, graph: Fst, model: TransitionModel,
                           ivectors: np.ndarray | None = None) -> NnetChainExample:
        """Make the example of a whole utterance from its training graph, whose labels are transition-ids of ``model``.

        The utterance's length is changed to the closest of the splitter's. Raises Nnet3Error if this differs by five
        frames or more, SupervisionError for too few frames for the graph, NumericError for NaN or infinity.
        """
        self.cutter.check_finite(features, ivectors)
        options = self._splitter.options
        num_frames = self._allowed_length(utterance, features.shape[0])
        if num_frames != features.shape[0]:
            features = row_range(features, 0, num_frames)
        num_outputs = -(-num_frames // options.frame_subsampling_factor)
        if num_outputs < _LEAST_FRAMES:
            raise SupervisionError(f"the utterance has {num_outputs} output frames, expected {_LEAST_FRAMES} or more")
        supervision = self._normalized(f"For utterance {utterance}", end_to_end_supervision(graph, model, num_outputs))
        left, right = options.left_context_initial, options.right_context_final
        chunk = Chunk(0, num_frames, left if left >= 0 else options.left_context,
                      right if right >= 0 else options.right_context)
        return self._example(features, chunk, supervision, np.ones(num_outputs, dtype=np.float32), ivectors)

    def _allowed_length(self, utterance: str, num_frames: int) -> int:
        lengths = self._splitter.options.num_frames
        if lengths == (-1,):
            return num_frames
        closest = min(lengths, key=lambda length: abs(num_frames - length))
        change = num_frames - closest
        if not change:
            return num_frames
        if abs(change) >= _NO_LENGTH_NEAR:
            change = _NO_LENGTH_NEAR
        logger.warning("No exact match found for the length of utt %s which has length: %d closest allowed length is "
                       "off by %d frames. Will try to fix it..", utterance, num_frames, change)
        if abs(change) >= _TOO_FAR:
            raise Nnet3Error(f"Too much length difference for utterance {utterance}",
                             f"its {num_frames} frames are not within {_TOO_FAR - 1} of a length that "
                             "--num-frames allows; change the speed of the utterance, or add a length to --num-frames")
        return closest
