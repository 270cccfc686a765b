"""Making discriminative examples from utterances. Kaldi: nnet3-discriminative-get-egs."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnet3py.discriminative.splitting import SupervisionSplitter
from nnet3py.discriminative.splitting_options import SplittingOptions
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample, NnetDiscriminativeSupervision
from nnet3py.egs.make import ExampleMaker, time_indexes
from nnet3py.egs.splitter import UtteranceSplitter
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import GeneralMatrix
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.transducers.fst import Fst

_LEAST_FRAMES = 2           # output frames of an example that can be stored


class DiscriminativeExampleMaker:
    """Cuts utterances, their lattices and their alignments into examples.

    Parameters
    ----------
    splitter : decides where to cut
    options : how lattices are cut
    model : of the transition-ids
    compress : whether inputs are compressed
    online_ivector_period : frames per row of the iVector matrices

    Nnet3Error for examples of fewer than two output frames.
    """

    def __init__(self, splitter: UtteranceSplitter, options: SplittingOptions, model: TransitionModel,
                 compress: bool = True, online_ivector_period: int = 1) -> None:
        factor, lengths = splitter.options.frame_subsampling_factor, splitter.options.num_frames
        if lengths != (-1,) and min(lengths) // factor < _LEAST_FRAMES:
            raise Nnet3Error(f"--num-frames={','.join(map(str, lengths))} asks for examples of one output frame",
                             f"discriminative examples need two or more: at least {_LEAST_FRAMES * factor}")
        self.cutter = ExampleMaker(splitter, compress, online_ivector_period=online_ivector_period)
        self._splitter, self._options, self._model, self._compress = splitter, options, model, compress

    def examples(self, utterance: str, features: GeneralMatrix, lattice: Fst, alignment: np.ndarray,
                 ivectors: np.ndarray | None = None) -> Iterator[tuple[str, NnetDiscriminativeExample]]:
        """Yield (key, example) for each piece of an utterance; nothing, with a warning, if it is too short.

        Parameters
        ----------
        features : (frames, dim), in any form
        lattice : the competitors, and ``alignment``, int32: the reference; both at the output's frame rate
        ivectors : float32 (rows, dim)

        Raises
        ------
        ShapeError, LatticeError : what ``SupervisionSplitter`` raises
        NumericError : features or iVectors with NaN or infinity
        """
        self.cutter.check_finite(features, ivectors)
        supervisions = SupervisionSplitter(self._options, self._model, alignment, lattice)
        factor = self._splitter.options.frame_subsampling_factor
        num_frames = min(features.shape[0], factor * len(alignment))
        for place, chunk in enumerate(self.cutter.chunks(utterance, num_frames)):
            first, count = self.cutter.output_span(chunk)
            # As in Kaldi the first piece keeps the sum over the whole utterance's paths.
            supervision = supervisions.frame_range(first, count, normalize=place > 0)
            output = NnetDiscriminativeSupervision("output", time_indexes(0, count, factor), supervision,
                                                   chunk.output_weights.astype(np.float32))
            example = NnetDiscriminativeExample(list(self.cutter.inputs(features, chunk, ivectors)), [output])
            if self._compress:
                example.compress()
            yield f"{utterance}-{chunk.first_frame}", example
