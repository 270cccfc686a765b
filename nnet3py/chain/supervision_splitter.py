"""Cutting the supervision of an utterance into those of pieces. Kaldi: ``SupervisionSplitter``."""
from __future__ import annotations

import numpy as np

from nnet3py.chain.acceptor import SupervisionError
from nnet3py.egs.supervision import Supervision
from nnet3py.transducers.fst import NO_WEIGHT, Fst


def fst_state_times(fst: Fst) -> np.ndarray:
    """int64 (states,): the frame that each state of a time-constrained FST belongs to, never falling.

    SupervisionError for an FST in which a state belongs to no frame or to several, or paths differ in length.
    """
    if fst.start != 0 or (fst.input_labels == 0).any() or not fst.is_acceptor:
        raise SupervisionError("a supervision's FST must start in state 0 and be an acceptor without epsilons")
    times = [-1] * fst.num_states
    times[0] = 0
    for source, target in zip(fst.sources.tolist(), fst.next_states.tolist(), strict=True):
        time = times[source] + 1
        if not time or target <= source or times[target] not in (-1, time):
            raise SupervisionError("a state of a supervision's FST belongs to no frame, or to several")
        times[target] = time
    result = np.array(times)
    finals = result[fst.is_final]
    if (np.diff(result) < 0).any() or not len(finals) or (finals != result[-1]).any():
        raise SupervisionError("the paths of a supervision's FST differ in length, or its states are not in order")
    return result


class SupervisionSplitter:
    """Cuts pieces out of a supervision. Kaldi: SupervisionSplitter.

    Parameters
    ----------
    supervision : of one utterance, with times

    Raises
    ------
    SupervisionError : one of several sequences, one without times (end-to-end), or one whose FST does not match its
        frames
    """

    def __init__(self, supervision: Supervision) -> None:
        if supervision.fst is None or supervision.num_sequences != 1:
            raise SupervisionError("only the supervision of one utterance, with times, can be cut")
        self._supervision, self._fst = supervision, supervision.fst
        self._times = fst_state_times(self._fst)
        if self._times[-1] != supervision.frames_per_sequence:
            raise SupervisionError(f"the paths of a supervision's FST have {self._times[-1]} frames; it is to have "
                                   f"{supervision.frames_per_sequence}")

    def frame_range(self, begin: int, num_frames: int) -> Supervision:
        """The supervision of frames ``begin`` … ``begin + num_frames`` - 1, with all states allowed at both ends.

        Its FST has epsilon arcs from the start: it must be normalized, or made unconstrained, before use. Kaldi:
        GetFrameRange.
        """
        end = begin + num_frames
        if not 0 <= begin < end <= self._supervision.frames_per_sequence:
            raise SupervisionError(f"frames {begin} to {end} are not within the supervision's "
                                   f"{self._supervision.frames_per_sequence}")
        fst = self._fst
        first, second, last = np.searchsorted(self._times, [begin, begin + 1, end]).tolist()
        arcs = slice(int(fst.arc_starts[first]), int(fst.arc_starts[last]))
        num_starts, last_state = second - first, last - first + 1
        labels = np.concatenate((np.zeros(num_starts, dtype=np.int32), fst.input_labels[arcs]))
        starts = np.concatenate(([0], fst.arc_starts[first:last + 1] - fst.arc_starts[first] + num_starts,
                                 [len(labels)]))
        finals = np.full(last_state + 1, NO_WEIGHT)
        finals[-1] = 0.0
        cut = Fst(0, finals, starts, labels, labels,
                  np.concatenate((np.zeros(num_starts, dtype=np.float32), fst.weights[arcs])),
                  np.concatenate((np.arange(1, num_starts + 1),
                                  np.minimum(fst.next_states[arcs] - first + 1, last_state))).astype(np.int32))
        return Supervision(self._supervision.weight, 1, num_frames, self._supervision.label_dim, cut)
