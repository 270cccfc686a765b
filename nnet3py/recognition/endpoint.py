"""Rules of when an utterance is over. Kaldi: ``online-endpoint.h``."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.errors import UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.recognition.stream_options import EndpointOptions, EndpointRule

_FIRST_LOOK = 64          # decoded frames in which the end of the last word is looked for first


class Situation(NamedTuple):
    """What the rules look at; seconds and costs in single precision, as Kaldi's."""

    contains_nonsilence: bool
    trailing_silence: np.float32
    relative_cost: np.float32
    utterance_length: np.float32

    def satisfies(self, rule: EndpointRule) -> bool:
        """Whether the utterance is over by this rule."""
        return ((self.contains_nonsilence or not rule.must_contain_nonsilence)
                and bool(self.trailing_silence >= np.float32(rule.min_trailing_silence))
                and bool(self.relative_cost <= np.float32(rule.max_relative_cost))
                and bool(self.utterance_length >= np.float32(rule.min_utterance_length)))


class EndpointDetector:
    """Says when an utterance is over.

    Parameters
    ----------
    options : the rules
    model : knows the phones of transition-ids
    frame_shift : seconds from one decoded frame to the next
    """

    def __init__(self, options: EndpointOptions, model: TransitionModel, frame_shift: float) -> None:
        self.options = options
        self._is_silence = is_silence(model, options.silence_phones)
        self._frame_shift = np.float32(frame_shift)

    def situation(self, search: LatticeDecoder) -> Situation:
        """What the rules look at, after one or more frames of a search."""
        length = np.float32(search.num_frames) * self._frame_shift
        silence = np.float32(trailing_silence(search, self._is_silence)) * self._frame_shift
        return Situation(bool(length > silence), silence, np.float32(search.final_relative_cost()), length)

    def activated_rule(self, search: LatticeDecoder) -> tuple[str, Situation] | None:
        """The name of the first rule by which the utterance is over, and why; None if it goes on.

        Kaldi: EndpointDetected.
        """
        if not search.num_frames:
            return None
        situation = self.situation(search)
        for name, rule in self.options.rules.items():
            if situation.satisfies(rule):
                return name, situation
        return None


def is_silence(model: TransitionModel, silence_phones: Sequence[int]) -> np.ndarray:
    """bool (transition-ids + 1,): which belong to silence. UsageError for a phone that is not above 0."""
    if any(phone < 1 for phone in silence_phones):
        raise UsageError(f"expected silence phones above 0, found {':'.join(map(str, silence_phones))}")
    return np.isin(model.transition_id_to_phone, np.array(silence_phones, dtype=np.int64))


def trailing_silence(search: LatticeDecoder, silence: np.ndarray) -> int:
    """Decoded frames of silence at the end of the best path, which need not be able to end there.

    ``silence`` is bool (transition-ids + 1,). Kaldi: TrailingSilenceLength.
    """
    look = _FIRST_LOOK
    while True:
        sounding = np.flatnonzero(~silence[search.recent_alignment(look)][::-1])
        if len(sounding):
            return int(sounding[0])
        if look >= search.num_frames:
            return search.num_frames
        look *= 2
