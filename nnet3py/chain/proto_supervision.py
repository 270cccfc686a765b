"""Which phones an utterance may have in which output frames: the first step towards its supervision.

Kaldi: ``ProtoSupervision``, ``AlignmentToProtoSupervision``, ``PhoneLatticeToProtoSupervision``.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.chain.acceptor import Acceptor, SupervisionError, behind_first, pushed_to_start
from nnet3py.chain.options import SupervisionOptions
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import connected

_UNKNOWN = -1               # the time of a state that is not reached
_MOST_FRAMES = 1_000_000    # of an utterance: almost three hours


@dataclass(frozen=True)
class ProtoSupervision:
    """Which phones an utterance may consist of.

    Attributes
    ----------
    phones : int (different phones,), ascending
    allowed : bool (output frames, different phones), whether a phone may occur in a frame
    fst : an acceptor of phones
    """

    phones: np.ndarray
    allowed: np.ndarray
    fst: Fst

    @property
    def num_frames(self) -> int:
        """Frames of the output."""
        return len(self.allowed)

    def allowed_phones(self) -> list[list[int]]:
        """The phones of each output frame, ascending."""
        return [self.phones[frame].tolist() for frame in self.allowed]


def proto_from_phones(phones: np.ndarray, durations: np.ndarray, options: SupervisionOptions) -> ProtoSupervision:
    """Which phones an utterance may have in each frame, by its alignment.

    Parameters
    ----------
    phones : int (phones,), from 1 on
    durations : int (phones,), the frames of each
    options : tolerances, subsampling

    Returns
    -------
    For :class:`SupervisionMaker`.

    Raises
    ------
    SupervisionError : what is not an alignment
    """
    if not len(phones):
        raise SupervisionError("it has no phones")
    if int(phones.min()) < 1 or int(durations.min()) < 1:
        raise SupervisionError("phones and their durations must be at least 1")
    ends = np.cumsum(durations, dtype=np.int64)
    distinct_phones, allowed = _allowed(phones, ends - durations, ends, int(ends[-1]), options)
    places = np.arange(len(phones) + 1)
    finals = np.where(places == len(phones), np.float32(0.0), NO_WEIGHT)
    fst = Fst.from_arcs(0, finals, places[:-1], phones, phones, np.zeros(len(phones)), places[1:])
    return ProtoSupervision(distinct_phones, allowed, fst)


def proto_from_lattice(lattice: CompactLattice, options: SupervisionOptions) -> ProtoSupervision:
    """Which phones an utterance may have in each frame, by a lattice whose labels are phones.

    Parameters
    ----------
    lattice : phone-aligned: ``lattice-align-phones --replace-output-symbols``, or :func:`nnet3py.lattices.align_phones`
    options : tolerances, subsampling

    Returns
    -------
    For :class:`SupervisionMaker`.

    Raises
    ------
    SupervisionError : a lattice that is empty, has a cycle or arcs without a phone, or whose paths differ in their
        number of frames: it is not phone-aligned
    """
    scale = np.float32(options.lm_scale)
    is_final = np.isfinite(lattice.final_weights[:, 0])
    finals = np.full(len(is_final), NO_WEIGHT)
    finals[is_final] = scale * lattice.final_weights[is_final, 0]
    costs = scale * lattice.weights[:, 0] if scale else np.zeros(len(lattice.sources))
    fst = Fst.from_arcs(lattice.start, finals, lattice.sources, lattice.labels, lattice.labels, costs,
                        lattice.next_states)
    times = _state_times(fst, lattice.lengths)
    begin, end = times[lattice.sources], times[lattice.next_states]
    used = begin > _UNKNOWN
    if (lattice.labels[used] <= 0).any():
        raise SupervisionError("the lattice has an arc without a phone",
                               "make it with lattice-align-phones --replace-output-symbols=true")
    ends = times[is_final & (times > _UNKNOWN)]
    num_frames = int(times.max())
    if not len(ends) or (ends != num_frames).any() or lattice.final_lengths[is_final].any():
        raise SupervisionError("the lattice is not phone-aligned: a final state is not at its last frame",
                               "use lattice-align-phones")
    distinct_phones, allowed = _allowed(lattice.labels[used], begin[used], end[used], num_frames, options)
    missing = np.flatnonzero(~allowed.any(axis=1))
    if len(missing):
        raise SupervisionError(f"no phone is allowed in output frame {missing[0]}")
    fst = connected(fst)
    if options.lm_scale != 0.0:
        fst = pushed_to_start(Acceptor.from_fst(fst)).fst()
    return ProtoSupervision(distinct_phones, allowed, fst)


def _state_times(fst: Fst, lengths: np.ndarray) -> np.ndarray:
    """int64 (states,): the frame at which each state lies if arcs have ``lengths``; -1 for one that is not reached."""
    if fst.start < 0 or not fst.num_arcs:
        raise SupervisionError("the lattice is empty")
    starts, targets, frames = fst.arc_starts.tolist(), fst.next_states.tolist(), lengths.tolist()
    times = [_UNKNOWN] * fst.num_states
    times[fst.start] = 0
    for state in reversed(behind_first(Acceptor.from_fst(fst))):
        for arc in range(starts[state], starts[state + 1]):
            time = times[state] + frames[arc]
            if times[targets[arc]] not in (_UNKNOWN, time):
                raise SupervisionError(f"paths of {times[targets[arc]]} and of {time} frames lead to one state of the "
                                       "lattice")
            times[targets[arc]] = time
    return np.array(times)


def _allowed(phones: np.ndarray, begin: np.ndarray, end: np.ndarray, num_frames: int,
             options: SupervisionOptions) -> tuple[np.ndarray, np.ndarray]:
    """The different phones, and bool (output frames, phones): spans of frames widened by the tolerances."""
    if num_frames > _MOST_FRAMES:
        raise SupervisionError(f"it has {num_frames} frames; more than {_MOST_FRAMES} are not possible")
    factor = options.frame_subsampling_factor
    distinct_phones, columns = np.unique(phones, return_inverse=True)
    first = -(-np.maximum(begin - options.left_tolerance, 0) // factor)
    last = -(-np.minimum(end + options.right_tolerance, num_frames) // factor)
    changes = np.zeros((-(-num_frames // factor) + 1, len(distinct_phones)), dtype=np.int32)
    some = first < last
    np.add.at(changes, (first[some], columns[some]), 1)
    np.add.at(changes, (last[some], columns[some]), -1)
    return distinct_phones, np.cumsum(changes, axis=0)[:-1] > 0
