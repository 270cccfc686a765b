"""Features of sound that arrives in pieces. Kaldi: ``OnlineGenericBaseFeature``."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.features.resample import Resampler
from nnet3py.features.speech import SpeechFeatures, SpeechOptions


class FeatureStream:
    """Frames of one stream of sound: accept samples as they come, get frames as they are ready.

    Memory does not grow. Sound of another rate is resampled if the options allow it.

    Parameters
    ----------
    options : of the features; or what was made of them, which many streams may share

    Attributes
    ----------
    dim : of the frames
    frame_shift : from one frame to the next, in seconds
    """

    def __init__(self, options: SpeechOptions | SpeechFeatures) -> None:
        self._features = options if isinstance(options, SpeechFeatures) else SpeechFeatures(options)
        self.dim, self.frame_shift = self._features.dim, self._features.frame_shift
        self._frames = self._features.begin()
        self._resampler: Resampler | None = None
        self._rate: float | None = None          # of the sound that comes in, once some has
        self._is_finished = False

    def accept(self, samples: np.ndarray, rate: float) -> np.ndarray:
        """Take samples; returns the frames that are ready now and were not before.

        Parameters
        ----------
        samples : float32 (samples,), of the range of 16 bits, any number of them
        rate : samples a second, the same for the whole stream

        Returns
        -------
        float32 (frames, dim), often none

        Raises
        ------
        ShapeError : samples of more than one channel
        NumericError : NaN or infinity among them
        Nnet3Error : a rate that is not that of the options and may not be resampled, or that has changed; samples
            after the end
        """
        samples = np.asarray(samples)
        if samples.ndim != 1:
            raise ShapeError(f"expected the samples of one channel, found an array of shape {samples.shape}")
        if not np.isfinite(samples).all():
            raise NumericError("NaN or infinity among the samples")
        if self._is_finished:
            raise Nnet3Error("the stream is finished and takes no more sound", "begin another one")
        if self._rate is None:
            self._begin(rate)
        elif rate != self._rate:
            raise Nnet3Error(f"the sampling rate changed from {self._rate:g} to {rate:g} within a stream")
        self._frames.accept(samples if self._resampler is None else self._resampler.accept(samples))
        return self._frames.take()

    def finish(self) -> np.ndarray:
        """Say that there is no more sound; returns the rest of the frames, float32 (frames, dim)."""
        if self._is_finished:
            return np.zeros((0, self.dim), dtype=np.float32)
        self._is_finished = True
        if self._resampler is not None:
            self._frames.accept(self._resampler.finish())
        return self._frames.finish()

    def _begin(self, rate: float) -> None:
        if not rate >= 1:
            raise Nnet3Error(f"expected a sampling rate above 0, found {rate:g}")
        self._features.check_rate(rate)
        self._rate = rate
        if rate != self._features.rate:
            self._resampler = Resampler(int(rate), int(self._features.rate))
