"""How features are normalized frame by frame. Light."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt


@dataclass(frozen=True)
class OnlineOptions:
    """What is normalized, and how much of the past counts; UsageError if the numbers contradict each other.

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
