"""Options of streams and of diarization: ends of utterances, weights of silence for i-vectors, speakers. Light."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt

# By what the silences after which an utterance is over are multiplied.
ENDPOINT_MODES = {"default": 1.0, "short": 0.75, "long": 1.5, "very-long": 4.0}


@dataclass(frozen=True)
class EndpointRule:
    """The utterance is over if all of this holds. Times are in seconds.

    ``max_relative_cost`` compares the best path with the best one that could end here; ``min_utterance_length`` is
    counted from where the last utterance was over.
    """

    must_contain_nonsilence: bool = opt("must-contain-nonsilence", True,
                                        "only if there was something other than silence")
    min_trailing_silence: float = opt("min-trailing-silence", 1.0, "least silence at the end, in seconds")
    max_relative_cost: float = opt("max-relative-cost", float("inf"),
                                   "how much worse than the best path one that may end here may be")
    min_utterance_length: float = opt("min-utterance-length", 0.0, "least length, in seconds")


def _default_rules() -> dict[str, EndpointRule]:
    return {"rule1": EndpointRule(False, 5.0), "rule2": EndpointRule(True, 0.5, 2.0),
            "rule3": EndpointRule(True, 1.0, 8.0), "rule4": EndpointRule(True, 2.0),
            "rule5": EndpointRule(False, 0.0, float("inf"), 20.0)}


@dataclass(frozen=True)
class EndpointOptions:
    """When an utterance is over: as soon as one of the rules says so. Kaldi: OnlineEndpointConfig.

    Attributes
    ----------
    silence_phones : that are silence; without any, nothing is
    rules : by name, in the order in which they are tried
    """

    silence_phones: Sequence[int] = opt("silence-phones", (), "Phones (numbers, with colons) that are silence")
    rules: dict[str, EndpointRule] = field(default_factory=_default_rules)

    def with_mode(self, mode: str) -> EndpointOptions:
        """The same with other silences in rules 2 to 4; ``mode`` is one of ``ENDPOINT_MODES``. UsageError for another.

        vosk: SetEndpointerMode.
        """
        if mode not in ENDPOINT_MODES:
            raise UsageError(f"expected {', '.join(ENDPOINT_MODES)} for when an utterance is over, found {mode!r}")
        return replace(self, rules={
            name: replace(rule, min_trailing_silence=rule.min_trailing_silence * (
                ENDPOINT_MODES[mode] if name in ("rule2", "rule3", "rule4") else 1.0))
            for name, rule in self.rules.items()})

    def with_delays(self, start: float, end: float, longest: float) -> EndpointOptions:
        """The same with other times, in seconds: silence before words, silence after them, the longest utterance.

        vosk: SetEndpointerDelays.
        """
        silences = {"rule1": start, "rule2": end, "rule3": end + 0.5, "rule4": end + 1.0}
        rules = {name: replace(rule, min_trailing_silence=silences.get(name, rule.min_trailing_silence))
                 for name, rule in self.rules.items()}
        return replace(self, rules={**rules, "rule5": replace(rules["rule5"], min_utterance_length=longest)})


@dataclass(frozen=True)
class SilenceWeightingOptions:
    """What frames of silence count for i-vectors, where others count 1. Kaldi: OnlineSilenceWeightingConfig.

    A frame is silence by its phone, or if it is one of ``max_state_duration`` or more in a row with the same
    transition-id; however many, it is not, if that is not above 0.
    """

    silence_phones: Sequence[int] = opt("silence-phones", (), "Phones (numbers, with colons) whose frames count less "
                                        "for i-vectors")
    silence_weight: float = opt("silence-weight", 1.0, "What these count, such as 0.001")
    max_state_duration: float = opt("max-state-duration", -1.0, "Frames with the same transition-id in a row that "
                                    "count as silence, if they are that many (-1: never)")

    @property
    def is_active(self) -> bool:
        """Whether weights are to be worked out at all."""
        return len(self.silence_phones) > 0 and self.silence_weight != 1.0


@dataclass(frozen=True)
class DiarizationOptions:
    """Options of finding speakers.

    Attributes
    ----------
    threshold : smallest similarity of vectors of one speaker: a cosine, or a log-likelihood ratio by PLDA; None: 0.5,
        or 0 by PLDA
    max_pause : seconds; shorter pauses do not end a turn
    min_speech : seconds; shorter speech is passed over
    """

    window: float = opt("window", 1.5, "Seconds of speech of one vector")
    shift: float = opt("shift", 0.75, "Seconds from one vector to the next")
    threshold: float | None = opt("threshold", None, "How alike pieces of one speaker are at least: a cosine, or a "
                                  "log-likelihood ratio by PLDA; empty: 0.5, or 0 by PLDA")
    num_speakers: int = opt("num-speakers", 0, "How many speakers there are; 0: as many as the threshold gives")
    max_pause: float = opt("max-pause", 0.3, "Longest pause within speech, in seconds")
    min_speech: float = opt("min-speech", 0.2, "Shortest speech, in seconds")

    def check(self) -> None:
        """UsageError for values that make no sense."""
        if not 0.1 <= self.window <= 60.0 or not 0.0 < self.shift <= self.window:
            raise UsageError(f"window={self.window:g} and shift={self.shift:g}: expected 0.1 to 60 seconds, and a "
                             "shift above 0 that is no longer")
        if self.num_speakers < 0 or self.max_pause < 0.0 or self.min_speech < 0.0:
            raise UsageError("num_speakers, max_pause and min_speech must not be below 0")
