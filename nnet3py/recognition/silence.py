"""Silence in what is decoded: ends of utterances (endpointing), and weights of frames for i-vectors.

Kaldi: ``online-endpoint.h``, ``OnlineSilenceWeighting``.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.errors import UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.recognition.options import EndpointOptions, EndpointRule, SilenceWeightingOptions

_FIRST_LOOK = 64          # decoded frames that are searched first for the end of the last word


class EndpointState(NamedTuple):
    """The state of a search that endpoint rules test; seconds and costs are float32, as in Kaldi.

    ``relative_cost`` is the cost of the best path that ends in a final state, minus that of the best path.
    """

    contains_nonsilence: bool
    trailing_silence: np.float32
    relative_cost: np.float32
    utterance_length: np.float32

    def satisfies(self, rule: EndpointRule) -> bool:
        """Return whether the utterance is over by this rule."""
        return ((self.contains_nonsilence or not rule.must_contain_nonsilence)
                and bool(self.trailing_silence >= np.float32(rule.min_trailing_silence))
                and bool(self.relative_cost <= np.float32(rule.max_relative_cost))
                and bool(self.utterance_length >= np.float32(rule.min_utterance_length)))


class EndpointDetector:
    """A detector of ends of utterances.

    Parameters
    ----------
    options : EndpointOptions, the rules
    model : TransitionModel, for the phones of transition-ids
    frame_shift : seconds from one decoded frame to the next
    """

    def __init__(self, options: EndpointOptions, model: TransitionModel, frame_shift: float) -> None:
        self.options = options
        self._is_silence = is_silence(model, options.silence_phones)
        self._frame_shift = np.float32(frame_shift)

    def state(self, search: LatticeDecoder) -> EndpointState:
        """Return the state of a search, which has decoded one or more frames, for endpoint rules."""
        length = np.float32(search.num_frames) * self._frame_shift
        silence = np.float32(trailing_silence(search, self._is_silence)) * self._frame_shift
        return EndpointState(bool(length > silence), silence, np.float32(search.final_relative_cost()), length)

    def activated_rule(self, search: LatticeDecoder) -> tuple[str, EndpointState] | None:
        """Return the first rule by which the utterance is over, as (name, state); None if no rule holds.

        Kaldi: EndpointDetected.
        """
        if not search.num_frames:
            return None
        state = self.state(search)
        for name, rule in self.options.rules.items():
            if state.satisfies(rule):
                return name, state
        return None


def is_silence(model: TransitionModel, silence_phones: Sequence[int]) -> np.ndarray:
    """Return which transition-ids are silence, bool (transition-ids + 1,). Raises UsageError for a phone below 1."""
    if any(phone < 1 for phone in silence_phones):
        raise UsageError(f"expected silence phones above 0, found {':'.join(map(str, silence_phones))}")
    return np.isin(model.transition_id_to_phone, np.array(silence_phones, dtype=np.int64))


def trailing_silence(search: LatticeDecoder, silence: np.ndarray) -> int:
    """Return the number of decoded frames of silence at the end of the best path; final costs do not count.

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


LOOK_BACK = 100         # decoded frames whose weights may still change


class SilenceWeighting:
    """A computer of the weights of frames for i-vectors from the best path so far, which changes during the search.

    Parameters
    ----------
    options : SilenceWeightingOptions
    model : TransitionModel, for the phones of transition-ids
    frame_subsampling_factor : frames of input for each decoded frame
    first_frame : the frame of input with which decoding began
    """

    def __init__(self, options: SilenceWeightingOptions, model: TransitionModel, frame_subsampling_factor: int = 1,
                 first_frame: int = 0) -> None:
        self._options, self._subsampling, self._offset = options, frame_subsampling_factor, first_frame
        self._is_silence = is_silence(model, options.silence_phones)
        # Of decoded frames from number ``_first`` on: transition-ids (-1: not decoded yet) and weights given.
        self._first = 0
        self._transition_ids = np.zeros(0, dtype=np.int32)
        self._weights = np.zeros(0, dtype=np.float32)

    @property
    def first_changing(self) -> int:
        """First frame of input whose weight may still change."""
        return self._offset + max(0, self._size - LOOK_BACK) * self._subsampling

    @property
    def can_wait(self) -> bool:
        """True if weights do not depend on how often :meth:`delta_weights` is called, so that calls can be put off.

        False with ``max_state_duration``: runs are counted from the first frame whose weight may still change.
        """
        return int(self._options.max_state_duration) <= 0

    @property
    def _size(self) -> int:
        """Number of frames, at the decoded frame rate, that have a weight, whether or not they are decoded yet."""
        return self._first + len(self._weights)

    def delta_weights(self, search: LatticeDecoder, num_frames_ready: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the changes of weights since the last call.

        ``search``: LatticeDecoder, the search so far. ``num_frames_ready``: number of frames of input that have
        i-vectors, all of which get a weight; rounded up to a multiple of ``frame_subsampling_factor``.

        Returns
        -------
        frames : int64 (changes,), ascending
        deltas : float32 (changes,), differences to add to their weights, which begin at 0
        """
        self._trace_back(search)
        begin = max(0, self._size - LOOK_BACK)
        ready = -(-(num_frames_ready - self._offset) // self._subsampling)
        self._enlarge(ready)
        if self._size <= begin:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        wanted = self._new_weights(begin)
        current = self._weights[begin - self._first:]
        deltas = wanted - current
        changed = deltas != 0
        changed[-1] = True
        current[:] = wanted
        decoded = begin + np.flatnonzero(changed)
        frames = self._offset + decoded[:, None] * self._subsampling + np.arange(self._subsampling)
        self._forget()
        return frames.reshape(-1), np.repeat(deltas[changed], self._subsampling)

    def _trace_back(self, search: LatticeDecoder) -> None:
        """Store the best path's transition-ids of the last ``LOOK_BACK`` frames. Kaldi: ComputeCurrentTraceback."""
        num_decoded = search.num_frames
        self._enlarge(num_decoded)
        first = max(0, self._size - LOOK_BACK, self._first)
        if num_decoded > first:
            recent = search.recent_alignment(num_decoded - first)
            end = num_decoded - self._first
            self._transition_ids[end - len(recent):end] = recent

    def _enlarge(self, size: int) -> None:
        missing = size - self._size
        if missing > 0:
            self._transition_ids = np.concatenate((self._transition_ids, np.full(missing, -1, dtype=np.int32)))
            self._weights = np.concatenate((self._weights, np.zeros(missing, dtype=np.float32)))

    def _new_weights(self, begin: int) -> np.ndarray:
        """Return the weights of decoded frames from ``begin`` on by the stored best path, float32 (frames,).

        Frames that are not decoded yet have the weight of the last decoded frame.
        """
        silence_weight = np.float32(self._options.silence_weight)
        ids = self._transition_ids[begin - self._first:]
        if ids[0] < 0:
            before = silence_weight if begin == 0 else self._weights[begin - self._first - 1]
            return np.full(len(ids), before, dtype=np.float32)
        decided = ids[:np.argmin(ids >= 0)] if (ids < 0).any() else ids
        wanted = np.full(len(ids), 1.0, dtype=np.float32)
        wanted[:len(decided)][self._is_silence[decided] | self._lasts_long(decided)] = silence_weight
        wanted[len(decided):] = wanted[len(decided) - 1]
        return wanted

    def _lasts_long(self, transition_ids: np.ndarray) -> np.ndarray:
        """Return which frames belong to a run of ``max_state_duration`` or more equal transition-ids, bool."""
        most = int(self._options.max_state_duration)
        if most <= 0:
            return np.zeros(len(transition_ids), dtype=bool)
        starts = np.flatnonzero(np.concatenate(([True], transition_ids[1:] != transition_ids[:-1])))
        lengths = np.diff(starts, append=len(transition_ids))
        return np.repeat(lengths >= most, lengths)

    def _forget(self) -> None:
        """Free the memory of frames whose weights cannot change any more, except the last of them."""
        gone = max(0, self._size - LOOK_BACK - 1) - self._first
        if gone > LOOK_BACK:
            self._first += gone
            self._transition_ids, self._weights = self._transition_ids[gone:].copy(), self._weights[gone:].copy()
