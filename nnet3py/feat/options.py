"""Options of online normalization, voice activity detection, reverberation and appended silence. Light."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt


@dataclass(frozen=True)
class OnlineOptions:
    """Options of normalizing features online; UsageError if the numbers contradict each other.

    Kaldi: OnlineCmvnOptions.
    """

    cmn_window: int = opt("cmn-window", 600, "Frames of the past that count")
    speaker_frames: int = opt("speaker-frames", 600,
                              "How many of them may come from the speaker's earlier utterances")
    global_frames: int = opt("global-frames", 200, "How many of them may come from the global statistics")
    norm_means: bool = opt("norm-means", True, "Normalize the means")
    norm_vars: bool = opt("norm-vars", False, "Normalize the variances, too")
    skip_dims: Sequence[int] = opt("skip-dims", (),
                                   "Dimensions that are not normalized, from 0: a list such as 13:14:15")

    def __post_init__(self) -> None:
        if not 0 <= self.global_frames <= self.speaker_frames <= self.cmn_window or self.cmn_window < 1:
            raise UsageError(f"expected 0 <= global-frames <= speaker-frames <= cmn-window, found "
                             f"{self.global_frames}, {self.speaker_frames} and {self.cmn_window}")
        if self.norm_vars and not self.norm_means:
            raise UsageError("You cannot normalize the variance but not the mean.")


@dataclass(frozen=True)
class VadOptions:
    """Options of finding voiced frames: frames near which enough frames are loud.

    A frame is loud if its log-energy exceeds ``energy_threshold`` plus ``energy_mean_scale`` times the mean.
    """

    energy_threshold: float = opt("vad-energy-threshold", 5.0, "Constant part of the energy that a loud frame exceeds")
    energy_mean_scale: float = opt("vad-energy-mean-scale", 0.5,
                                   "Factor of the utterance's mean energy in that threshold")
    frames_context: int = opt("vad-frames-context", 0, "Frames before and after a frame that are looked at, too")
    proportion_threshold: float = opt("vad-proportion-threshold", 0.6, "Part of these frames that must be loud")


@dataclass(frozen=True)
class RoomOptions:
    """Options of reverberated sound."""

    shift: bool = opt("shift-output", True, "Begin at the peak of the impulse response, and be as long as the input; "
                      "else as long as the convolution")
    normalize: bool = opt("normalize-output", True, "Give the result the power of the input")
    volume: float = opt("volume", 0.0, "Factor of the result, which then is not normalized; 0 for none")
    duration: float = opt("duration", 0.0,
                          "Seconds of the result, which is cut or repeated; 0 for those of the input")


@dataclass(frozen=True)
class SilenceOptions:
    """Options of silence that is appended to sound; all in seconds."""

    length: float = opt("extra-silence-length", 5.0, "Seconds of silence that are appended")
    search: float = opt("silence-search-length", 0.5, "Seconds of the beginning and of the end that are searched for "
                        "the quietest piece")
    extract: float = opt("silence-extract-length", 0.05,
                         "Seconds of a piece; it is shorter than what is searched")
    shift: float = opt("silence-extract-shift", 0.025, "Seconds from one piece that is tried to the next")
