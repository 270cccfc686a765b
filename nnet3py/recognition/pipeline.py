"""Features of sound that arrives in pieces, and with i-vectors the input of a network.

Kaldi: ``OnlineGenericBaseFeature``, ``OnlineAppendFeature``, ``OnlineNnet2FeaturePipeline``.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.feat.cmvn import OnlineNormalizer
from nnet3py.feat.options import OnlineOptions
from nnet3py.feat.pitch import pitch_options
from nnet3py.feat.pitch_options import PitchOptions, ProcessPitchOptions
from nnet3py.feat.process_pitch import ProcessedPitchStream, process_pitch_options
from nnet3py.feat.sound import Resampler
from nnet3py.feat.speech import SpeechFeatures, SpeechOptions
from nnet3py.formats.holders import read_matrix_file
from nnet3py.gaussians.mixtures import DiagGmm
from nnet3py.io.object_files import read_object
from nnet3py.ivectors.extractor import IvectorExtractor
from nnet3py.ivectors.online import AdaptationState, OnlineModels
from nnet3py.ivectors.options import OnlineSettings
from nnet3py.option_fields import field_values
from nnet3py.recognition import options as tables
from nnet3py.recognition.ivector_stream import IvectorStream
from nnet3py.recognition.options import SilenceWeightingOptions
from nnet3py.runtime.frame_buffer import FrameBuffer


@dataclass(frozen=True)
class PitchSettings:
    """Options of extracting and processing pitch, which is appended to other features."""

    pitch: PitchOptions
    process: ProcessPitchOptions


class FeatureStream:
    """An extractor of features for one stream of sound, which takes samples in blocks and returns finished frames.

    Its memory grows with the stream only if there is pitch. Sound of another rate is resampled if the options allow it.

    Parameters
    ----------
    options : SpeechOptions; or SpeechFeatures made of them, which many streams may share
    pitch : PitchSettings of appended pitch; None: no pitch. A frame is ready when features and pitch are

    Attributes
    ----------
    dim : dimension of the frames
    pitch_dim : number of the last columns, which are pitch
    frame_shift : seconds from one frame to the next
    """

    def __init__(self, options: SpeechOptions | SpeechFeatures, pitch: PitchSettings | None = None) -> None:
        self._features = options if isinstance(options, SpeechFeatures) else SpeechFeatures(options)
        self._pitch = None if pitch is None else ProcessedPitchStream(pitch.pitch, pitch.process)
        self.pitch_dim = 0 if self._pitch is None else self._pitch.dim
        self.dim, self.frame_shift = self._features.dim + self.pitch_dim, self._features.frame_shift
        self._frames = self._features.begin()
        self._waiting = np.zeros((0, self._features.dim), dtype=np.float32)      # frames without pitch so far
        self._done = 0
        self._resampler: Resampler | None = None
        self._rate: float | None = None          # of the sound; None before the first samples
        self._is_finished = False

    def accept(self, samples: np.ndarray, rate: float) -> np.ndarray:
        """Take a block of samples, and return the frames whose window it completes.

        ``samples``: float32 (samples,), of the range of 16 bits; any number. ``rate``: samples a second, the same for
        the whole stream.

        Returns float32 (frames, dim), often none. Raises ShapeError for samples of more than one channel; NumericError
        for NaN or infinity among the samples; Nnet3Error for another rate than the options' that may not be resampled,
        or a rate that has changed; samples after the end.
        """
        samples = np.asarray(samples)
        if samples.ndim != 1:
            raise ShapeError(f"expected the samples of one channel, found an array of shape {samples.shape}")
        if not np.isfinite(samples).all():
            raise NumericError("expected finite samples, found NaN or infinity")
        if self._is_finished:
            raise Nnet3Error("the stream is finished and takes no more sound", "begin another stream")
        if self._rate is None:
            self._begin(rate)
        elif rate != self._rate:
            raise Nnet3Error(f"the sampling rate changed from {self._rate:g} to {rate:g} within a stream")
        return self._accept(samples if self._resampler is None else self._resampler.accept(samples))

    def finish(self) -> np.ndarray:
        """End the sound, and return the remaining frames, float32 (frames, dim)."""
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
        """Return the pitch of frames ``first`` to ``end`` - 1, float32 (end - first, pitch_dim).

        These frames must be ready. Kaldi's pitch tracker revises its estimate of earlier frames as sound comes.
        """
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


_AT_A_TIME = 5000         # frames that are normalized and spliced together, however many come at once


@dataclass
class PipelineModels:
    """The settings and models that turn sound into the input of a network; any number of streams share them."""

    speech: SpeechOptions                 # options of the features
    ivectors: OnlineModels | None = None  # None for a network without i-vectors
    # normalization of the network's input; None: no normalization. i-vectors have their own
    cmvn: OnlineOptions | None = None
    global_stats: np.ndarray | None = None  # float64 (2, dim + 1), statistics for ``cmvn``
    # weights of frames of silence for i-vectors
    silence_weighting: SilenceWeightingOptions = field(default_factory=SilenceWeightingOptions)
    # of pitch appended to the network's input, not for i-vectors; None: no pitch
    pitch: PitchSettings | None = None

    @cached_property
    def features(self) -> SpeechFeatures:
        """SpeechFeatures, which computes the features."""
        return SpeechFeatures(self.speech)

    @property
    def input_dim(self) -> int:
        """Dimension of the network's ``input``."""
        return self.features.dim + (0 if self.pitch is None else self.pitch.process.dim)

    @property
    def ivector_dim(self) -> int:
        """Dimension of the network's ``ivector``; 0: no i-vectors."""
        return 0 if self.ivectors is None else self.ivectors.extractor.ivector_dim

    @property
    def frame_shift(self) -> float:
        """Seconds from one frame to the next."""
        return self.features.frame_shift

    @property
    def weights_silence(self) -> bool:
        """True if frames recognized as silence have another weight for i-vectors than other frames."""
        return self.ivectors is not None and self.silence_weighting.is_active

    def check(self) -> None:
        """Raise UsageError or ShapeError for settings that do not fit each other."""
        if self.cmvn is not None and self.global_stats is None:
            raise UsageError("--cmvn-config is given without --global-cmvn-stats",
                             "give the statistics of all the training data, for normalizing the network's input")
        input_stats = self.global_stats if self.cmvn is not None else None
        ivector_stats = None if self.ivectors is None else self.ivectors.global_stats
        for name, dim, stats in (("normalizing the network's input", self.input_dim, input_stats),
                                 ("i-vectors", self.features.dim, ivector_stats)):
            if stats is not None and stats.shape[1] - 1 != dim:
                raise ShapeError(f"the features have dimension {dim}, the statistics for {name} {stats.shape[1] - 1}")
        if self.pitch is not None:
            rates, shifts = (self.features.rate, self.pitch.pitch.sample_frequency), (
                self.features.frame_shift, 0.001 * self.pitch.pitch.frame_shift)
            if rates[0] != rates[1] or shifts[0] != shifts[1]:
                raise UsageError(f"pitch is found in sound of {rates[1]:g} samples a second, every {shifts[1]:g} s, "
                                 f"the other features in sound of {rates[0]:g}, every {shifts[0]:g} s",
                                 "--sample-frequency and --frame-shift of --online-pitch-config must be those of the "
                                 "other features")


@dataclass
class SpeakerState:
    """The adaptation to a speaker at the end of a stream, with which the speaker's next stream can begin."""

    ivectors: AdaptationState | None = None  # None for a network without i-vectors
    cmvn: np.ndarray | None = None  # float64 (2, dim + 1), statistics of the network's input; None: no normalization


class FeaturePipeline:
    """A computer of the network's input for one stream of sound as it arrives: frames and i-vectors.

    Parameters
    ----------
    models : PipelineModels
    state : SpeakerState; None: unknown speaker

    Attributes
    ----------
    ivectors : IvectorStream; None for a network without i-vectors
    is_finished : whether the sound is over
    """

    def __init__(self, models: PipelineModels, state: SpeakerState | None = None) -> None:
        self.models = models
        state = state or SpeakerState()
        self._features = FeatureStream(models.features, models.pitch)
        self._base_dim = models.features.dim
        self._input = FrameBuffer(models.input_dim)
        self._normalizer: OnlineNormalizer | None = None
        if models.cmvn is not None and models.global_stats is not None:
            self._normalizer = OnlineNormalizer(models.global_stats, models.cmvn)
            if state.cmvn is not None:
                self._normalizer.speaker_stats = state.cmvn
        self.ivectors = None if models.ivectors is None else IvectorStream(models.ivectors, state.ivectors)
        self.is_finished = False

    def accept_waveform(self, samples: np.ndarray, rate: float) -> None:
        """Take samples, float32 (samples,) of the range of 16 bits. Raises as :meth:`FeatureStream.accept`."""
        self._accept(self._features.accept(samples, rate))

    def finish(self) -> None:
        """End the sound. Kaldi: InputFinished."""
        if self.is_finished:
            return
        self._accept(self._features.finish())
        self.is_finished = True
        if self.ivectors is not None:
            self.ivectors.finish()

    def _accept(self, frames: np.ndarray) -> None:
        for begin in range(0, len(frames), _AT_A_TIME):
            some = frames[begin:begin + _AT_A_TIME]
            self._input.append(some if self._normalizer is None else self._normalizer.accept(some))
            if self.ivectors is not None:
                self.ivectors.accept(some[:, :self._base_dim])

    @property
    def num_frames_ready(self) -> int:
        """Number of frames of the network's input that are ready."""
        return self._input.end

    @property
    def num_ivectors_ready(self) -> int:
        """Number of frames that have i-vectors; all frames for a network without i-vectors."""
        return self._input.end if self.ivectors is None else self.ivectors.num_frames_ready

    def frames(self, first: int, end: int) -> np.ndarray:
        """Return frames ``first`` to ``end`` - 1 of the input, float32 (end - first, input dim).

        The result is a view, valid until more sound is accepted. Pitch is the current estimate, except where the input
        is normalized: then it is the estimate at the time when the frame became ready.
        """
        frames = self._input.between(first, end)
        if self._revises_pitch and end > first:
            frames[:, self._base_dim:] = self._features.pitch(first, end)
        return frames

    def frames_at(self, numbers: np.ndarray) -> np.ndarray:
        """Return a copy of the frames with the given numbers, float32 (len(numbers), input dim)."""
        if self._revises_pitch and len(numbers):
            self.frames(int(numbers.min()), int(numbers.max()) + 1)
        return self._input.rows(numbers)

    @property
    def _revises_pitch(self) -> bool:
        return self._features.pitch_dim > 0 and self._normalizer is None

    def forget(self, before: int) -> None:
        """Free the memory of the input's frames before frame ``before``."""
        self._input.forget(before)

    def ivector(self, frame: int) -> np.ndarray:
        """Return the i-vector for a frame as :meth:`IvectorStream.at`; zeros for ``frame`` -1, before any frame."""
        if self.ivectors is None:
            raise UsageError("the stream has no i-vectors")
        if frame < 0:
            return np.zeros(self.ivectors.ivector_dim, dtype=np.float32)
        return self.ivectors.at(frame)

    def adaptation_state(self) -> SpeakerState:
        """Return the adaptation to the speaker, for the speaker's next stream, as if this stream ended now."""
        return SpeakerState(None if self.ivectors is None else self.ivectors.adaptation_state(),
                            None if self._normalizer is None else self._normalizer.stats())


def pipeline_models(speech: SpeechOptions, values: Mapping[str, Any], cmvn: Mapping[str, Any] | None,
                    ivectors: Mapping[str, Any] | None, pitch: Mapping[str, Any] | None = None) -> PipelineModels:
    """Read the files named by options of features, normalization and i-vectors.

    Parameters
    ----------
    speech : options of the features
    values : options ``ivector-silence-weighting.…`` by Kaldi's names
    cmvn : options of normalizing the network's input, with ``global-cmvn-stats``; None: no normalization
    ivectors : options as for :func:`ivector_models`; None: no i-vectors
    pitch : options of extracting and processing pitch; None: no pitch

    Raises Nnet3Error for files that are invalid, or do not fit each other.
    """
    models = PipelineModels(speech, silence_weighting=tables.weighting_options(values))
    if cmvn is not None:
        models.cmvn = tables.cmvn_options(cmvn)
        models.global_stats = read_matrix_file(cmvn["global-cmvn-stats"], dtype=np.float64)
    if ivectors is not None:
        models.ivectors = ivector_models(ivectors)
    if pitch is not None:
        models.pitch = PitchSettings(pitch_options(pitch), process_pitch_options(pitch))
    models.check()
    return models


def ivector_models(values: Mapping[str, Any]) -> OnlineModels:
    """Read the models of i-vectors. Raises Nnet3Error for files that are invalid, or do not fit each other.

    ``values`` maps the options in ``IVECTOR_FILES`` to paths, options in ``IVECTOR`` to values (the others have their
    defaults), and ``splice`` and ``cmvn`` to the options read from the files ``splice-config`` and ``cmvn-config``.
    """
    models = OnlineModels(
        read_object(values["ivector-extractor"], IvectorExtractor.read), read_object(values["diag-ubm"], DiagGmm.read),
        read_matrix_file(values["lda-matrix"]), read_matrix_file(values["global-cmvn-stats"], dtype=np.float64),
        tables.cmvn_options(values["cmvn"]), **field_values(OnlineSettings, {**values, **values["splice"]}))
    models.use_most_recent |= models.greedy
    models.check()
    return models
