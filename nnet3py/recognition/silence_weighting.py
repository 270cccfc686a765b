"""How much less frames of silence count for i-vectors. Kaldi: ``OnlineSilenceWeighting``."""
from __future__ import annotations

import numpy as np

from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.recognition.endpoint import is_silence
from nnet3py.recognition.stream_options import SilenceWeightingOptions

LOOK_BACK = 100         # decoded frames whose weights may still change


class SilenceWeighting:
    """Works out what frames count, by what is being recognized in them, and how that changes.

    Parameters
    ----------
    options : of the weights
    model : knows the phones of transition-ids
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
        """The first frame of input whose weight may still change."""
        return self._offset + max(0, self._size - LOOK_BACK) * self._subsampling

    @property
    def can_wait(self) -> bool:
        """Whether nothing is lost if weights are not worked out before the search has gone on.

        Long runs are counted from where the frames that may still change begin, so then the moment matters.
        """
        return int(self._options.max_state_duration) <= 0

    @property
    def _size(self) -> int:
        """Decoded frames, and those that will be decoded, that have a weight."""
        return self._first + len(self._weights)

    def delta_weights(self, search: LatticeDecoder, num_frames_ready: int) -> tuple[np.ndarray, np.ndarray]:
        """By how much the weights of frames change.

        Parameters
        ----------
        search : what has been recognized so far
        num_frames_ready : frames of input that there are i-vectors for; up to ``frame_subsampling_factor - 1`` more
            get a weight

        Returns
        -------
        frames : int64 (changes,), ascending
        deltas : float32 (changes,), what is added to their weights, which were 0
        """
        self._trace_back(search)
        begin = max(0, self._size - LOOK_BACK)
        ready = -(-(num_frames_ready - self._offset) // self._subsampling)
        self._enlarge(ready)
        if self._size <= begin:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        wanted = self._wanted(begin)
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
        """Note what the best path says now of frames whose weights may still change. Kaldi: ComputeCurrentTraceback."""
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

    def _wanted(self, begin: int) -> np.ndarray:
        """float32: what the weights from the frame ``begin`` on should be."""
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
        """bool: which belong to too long a run of the same."""
        most = int(self._options.max_state_duration)
        if most <= 0:
            return np.zeros(len(transition_ids), dtype=bool)
        starts = np.flatnonzero(np.concatenate(([True], transition_ids[1:] != transition_ids[:-1])))
        lengths = np.diff(starts, append=len(transition_ids))
        return np.repeat(lengths >= most, lengths)

    def _forget(self) -> None:
        """Forget what will not be looked at again: all but the weight before the first that may change."""
        gone = max(0, self._size - LOOK_BACK - 1) - self._first
        if gone > LOOK_BACK:
            self._first += gone
            self._transition_ids, self._weights = self._transition_ids[gone:].copy(), self._weights[gone:].copy()
