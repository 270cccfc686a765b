"""Which sequences of a padded minibatch are computed together: those whose supervisions can be merged."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from nnet3py.egs.chain_example import NnetChainSupervision
from nnet3py.egs.supervision import Supervision, merge_supervisions
from nnet3py.errors import ShapeError, UsageError, within

Supervised: TypeAlias = Supervision | NnetChainSupervision


@dataclass(frozen=True)
class Group:
    """Sequences of equally many frames.

    Attributes
    ----------
    places : int64 (sequences,), their places in the minibatch
    supervision : of all of them
    deriv_weights : float32 (frames, sequences), what derivatives are multiplied with, or None
    """

    places: np.ndarray
    supervision: Supervision
    deriv_weights: np.ndarray | None

    @property
    def num_frames(self) -> int:
        """Frames of each sequence."""
        return self.supervision.frames_per_sequence


def grouped(supervised: Supervised | Sequence[Supervised], shape: tuple[int, int],
            lengths: Sequence[int] | None) -> list[Group]:
    """The sequences of a minibatch in groups.

    Parameters
    ----------
    supervised : the supervision of all sequences, or several whose sequences follow each other
    shape : sequences and frames of the output
    lengths : the frames of each sequence that count; None: all

    Raises
    ------
    UsageError : what is not a supervision
    ShapeError : supervisions, lengths and output that do not fit each other, or that cannot be merged
    """
    parts = [supervised] if isinstance(supervised, Supervised) else list(supervised)
    for part in parts:
        if not isinstance(part, Supervised):
            raise UsageError(f"found a {type(part).__name__} as supervision, expected a Supervision, the output of a "
                             "chain example, or a list of these", "supervision_from_alignments makes a list")
    counts = [_plain(part).num_sequences for part in parts]
    if sum(counts) != shape[0]:
        raise ShapeError(f"the supervision is of {sum(counts)} sequences, but the network's output has {shape[0]}",
                         "the output is expected as (sequences, frames, pdfs)")
    frames = np.repeat([_plain(part).frames_per_sequence for part in parts], counts)
    _check_lengths(frames, shape[1], lengths)
    firsts = np.cumsum([0, *counts])
    by_kind: dict[tuple[int, float, bool], list[int]] = {}
    for number, part in enumerate(parts):
        plain = _plain(part)
        by_kind.setdefault((plain.frames_per_sequence, plain.weight, plain.is_end_to_end), []).append(number)
    return [Group(np.concatenate([np.arange(firsts[number], firsts[number + 1]) for number in numbers]),
                  merge_supervisions([_plain(parts[number]) for number in numbers]),
                  _deriv_weights([parts[number] for number in numbers]))
            for numbers in by_kind.values()]


def _plain(part: Supervised) -> Supervision:
    return part.supervision if isinstance(part, NnetChainSupervision) else part


def _check_lengths(frames: np.ndarray, num_frames: int, lengths: Sequence[int] | None) -> None:
    wanted = np.full(len(frames), num_frames) if lengths is None else np.asarray(lengths)
    if wanted.shape != frames.shape:
        raise ShapeError(f"lengths have the shape {wanted.shape}, expected a number for each of {len(frames)} "
                         "sequences")
    wrong = np.flatnonzero(wanted != frames)
    if len(wrong):
        first = int(wrong[0])
        advice = ("give lengths, if the output is padded" if lengths is None else
                  "lengths count frames of the output, not of the features")
        with within(f"sequence {first}"):
            raise ShapeError(f"its supervision is of {frames[first]} frames, but its output has {wanted[first]}",
                             advice)
    if frames.max(initial=0) > num_frames:
        raise ShapeError(f"a sequence has {frames.max()} frames, but the network's output has {num_frames}")


def _deriv_weights(parts: Sequence[Supervised]) -> np.ndarray | None:
    """The weights of several side by side; a part without weights has weights of 1. None if no part has any."""
    weights = [part.deriv_weights if isinstance(part, NnetChainSupervision) else np.zeros(0) for part in parts]
    if not any(len(each) for each in weights):
        return None
    shapes = [(_plain(part).frames_per_sequence, _plain(part).num_sequences) for part in parts]
    for each, shape in zip(weights, shapes, strict=True):
        if len(each) not in (0, shape[0] * shape[1]):
            raise ShapeError(f"a chain example has {len(each)} weights, expected {shape[0] * shape[1]} or none")
    return np.concatenate([np.asarray(each, dtype=np.float32).reshape(shape) if len(each)
                           else np.ones(shape, dtype=np.float32)
                           for each, shape in zip(weights, shapes, strict=True)], axis=1)
