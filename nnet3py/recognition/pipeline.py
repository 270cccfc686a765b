"""From sound to what a network takes: features and i-vectors. Kaldi: ``OnlineNnet2FeaturePipeline``."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.errors import ShapeError, UsageError
from nnet3py.feat.cmvn import OnlineNormalizer
from nnet3py.feat.options import OnlineOptions
from nnet3py.feat.speech import SpeechFeatures, SpeechOptions
from nnet3py.ivectors.online import AdaptationState, OnlineModels
from nnet3py.recognition.feature_stream import FeatureStream, PitchSettings
from nnet3py.recognition.ivector_stream import IvectorStream
from nnet3py.recognition.stream_options import SilenceWeightingOptions
from nnet3py.runtime.looped import FrameBuffer

_AT_A_TIME = 5000         # frames that are normalized and spliced together, however many come at once


@dataclass
class PipelineModels:
    """How the input of a network is made of sound. Any number of streams share it.

    Attributes
    ----------
    speech : the features
    ivectors : what i-vectors are estimated with; None for a network without
    cmvn : how the network's input is normalized; None if it is not. i-vectors have a normalization of their own
    global_stats : float64 (2, dim + 1), for ``cmvn``
    silence_weighting : what frames of silence count for i-vectors
    pitch : of what is appended to the features, for the network but not for i-vectors; None for nothing
    """

    speech: SpeechOptions
    ivectors: OnlineModels | None = None
    cmvn: OnlineOptions | None = None
    global_stats: np.ndarray | None = None
    silence_weighting: SilenceWeightingOptions = field(default_factory=SilenceWeightingOptions)
    pitch: PitchSettings | None = None

    @cached_property
    def features(self) -> SpeechFeatures:
        """What computes features."""
        return SpeechFeatures(self.speech)

    @property
    def input_dim(self) -> int:
        """The dimension of what the network's ``input`` is given."""
        return self.features.dim + (0 if self.pitch is None else self.pitch.process.dim)

    @property
    def ivector_dim(self) -> int:
        """The dimension of what its ``ivector`` is given; 0 for none."""
        return 0 if self.ivectors is None else self.ivectors.extractor.ivector_dim

    @property
    def frame_shift(self) -> float:
        """From one frame to the next, in seconds."""
        return self.features.frame_shift

    @property
    def weights_silence(self) -> bool:
        """Whether what frames count depends on what is recognized in them."""
        return self.ivectors is not None and self.silence_weighting.is_active

    def check(self) -> None:
        """UsageError or ShapeError for parts that do not fit together."""
        if self.cmvn is not None and self.global_stats is None:
            raise UsageError("--global-cmvn-stats must be given with --cmvn-config",
                             "statistics of all the training data, for normalizing the network's input")
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
        if self.ivectors is not None:
            self.ivectors.check()


@dataclass
class SpeakerState:
    """What a stream leaves for the speaker's next one.

    Attributes
    ----------
    ivectors : None for a network without
    cmvn : float64 (2, dim + 1), statistics of the network's input; None if it is not normalized
    """

    ivectors: AdaptationState | None = None
    cmvn: np.ndarray | None = None


class FeaturePipeline:
    """What a network takes of one stream of sound, as it arrives: frames, and an i-vector for each of them.

    Parameters
    ----------
    models : how it is made
    state : what is known of the speaker; None for nothing

    Attributes
    ----------
    ivectors : the stream's i-vectors; None for a network without
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
        """Take float32 (samples,) of the range of 16 bits, ``rate`` of them a second. Raises as FeatureStream.accept.
        """
        self._accept(self._features.accept(samples, rate))

    def finish(self) -> None:
        """Say that there is no more sound. Kaldi: InputFinished."""
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
        """Frames of the network's input that are there."""
        return self._input.end

    @property
    def num_ivectors_ready(self) -> int:
        """Frames that i-vectors can be asked for; for a network without, all that are there."""
        return self._input.end if self.ivectors is None else self.ivectors.num_frames_ready

    def frames(self, first: int, end: int) -> np.ndarray:
        """float32 (end - first, input dim), a view that is valid until more sound comes; none may be forgotten yet.

        Pitch is as it is known now, unless it was normalized, which is done once.
        """
        frames = self._input.between(first, end)
        if self._revises_pitch and end > first:
            frames[:, self._base_dim:] = self._features.pitch(first, end)
        return frames

    def frames_at(self, numbers: np.ndarray) -> np.ndarray:
        """float32 (numbers, input dim), new."""
        if self._revises_pitch and len(numbers):
            self.frames(int(numbers.min()), int(numbers.max()) + 1)
        return self._input.rows(numbers)

    @property
    def _revises_pitch(self) -> bool:
        return self._features.pitch_dim > 0 and self._normalizer is None

    def forget(self, before: int) -> None:
        """Forget the input's frames before number ``before``."""
        self._input.forget(before)

    def ivector(self, frame: int) -> np.ndarray:
        """float32 (ivector dim,): as :meth:`IvectorStream.at`; zero if there is no frame yet, for ``frame`` -1."""
        if self.ivectors is None:
            raise UsageError("the stream has no i-vectors")
        if frame < 0:
            return np.zeros(self.ivectors.ivector_dim, dtype=np.float32)
        return self.ivectors.at(frame)

    def adaptation_state(self) -> SpeakerState:
        """What the speaker's next stream begins with, if this one is over now."""
        return SpeakerState(None if self.ivectors is None else self.ivectors.adaptation_state(),
                            None if self._normalizer is None else self._normalizer.stats())
