"""Features of sound that arrives in pieces. Kaldi: ``OnlineGenericBaseFeature``, ``OnlineAppendFeature``."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.feat.pitch_options import PitchOptions, ProcessPitchOptions
from nnet3py.feat.process_pitch import ProcessedPitchStream
from nnet3py.feat.sound import Resampler
from nnet3py.feat.speech import SpeechFeatures, SpeechOptions


@dataclass(frozen=True)
class PitchSettings:
    """How pitch, which is appended to other features, is found, and what is made of it."""

    pitch: PitchOptions
    process: ProcessPitchOptions


class FeatureStream:
    """Frames of one stream of sound: accept samples as they come, get frames as they are ready.

    Memory does not grow, but for pitch. Sound of another rate is resampled if the options allow it.

    Parameters
    ----------
    options : of the features; or what was made of them, which many streams may share
    pitch : of what is appended to them; None for nothing. A frame is ready if both are

    Attributes
    ----------
    dim : of the frames
    pitch_dim : how many of their columns, the last ones, are pitch
    frame_shift : from one frame to the next, in seconds
    """

    def __init__(self, options: SpeechOptions | SpeechFeatures, pitch: PitchSettings | None = None) -> None:
        self._features = options if isinstance(options, SpeechFeatures) else SpeechFeatures(options)
        self._pitch = None if pitch is None else ProcessedPitchStream(pitch.pitch, pitch.process)
        self.pitch_dim = 0 if self._pitch is None else self._pitch.dim
        self.dim, self.frame_shift = self._features.dim + self.pitch_dim, self._features.frame_shift
        self._frames = self._features.begin()
        self._waiting = np.zeros((0, self._features.dim), dtype=np.float32)      # for their pitch
        self._done = 0
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
        return self._accept(samples if self._resampler is None else self._resampler.accept(samples))

    def finish(self) -> np.ndarray:
        """Say that there is no more sound; returns the rest of the frames, float32 (frames, dim)."""
        if self._is_finished:
            return np.zeros((0, self.dim), dtype=np.float32)
        self._is_finished = True
        before = np.zeros((0, self.dim), dtype=np.float32)
        if self._resampler is not None:
            before = self._accept(self._resampler.finish())
        if self._pitch is not None:
            self._pitch.finish()
        return np.concatenate((before, self._with_pitch(self._frames.finish())))

    def pitch(self, first: int, end: int) -> np.ndarray:
        """float32 (end - first, pitch_dim): the pitch of frames that were ready, as it is known now."""
        assert self._pitch is not None
        return self._pitch.frames(first, end)

    def _accept(self, samples: np.ndarray) -> np.ndarray:
        self._frames.accept(samples)
        if self._pitch is not None:
            self._pitch.accept(np.asarray(samples, dtype=np.float32))
        return self._with_pitch(self._frames.take())

    def _with_pitch(self, frames: np.ndarray) -> np.ndarray:
        if self._pitch is None:
            return frames
        frames = np.concatenate((self._waiting, frames))
        count = min(self._pitch.num_ready - self._done, len(frames))
        ready, self._waiting = frames[:count], frames[count:]
        self._done += count
        return np.hstack((ready, self._pitch.frames(self._done - count, self._done)))

    def _begin(self, rate: float) -> None:
        if not rate >= 1:
            raise Nnet3Error(f"expected a sampling rate above 0, found {rate:g}")
        self._features.check_rate(rate)
        self._rate = rate
        if rate != self._features.rate:
            self._resampler = Resampler(int(rate), int(self._features.rate))
