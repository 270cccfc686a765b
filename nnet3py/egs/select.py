"""Choosing frames and contexts of examples while they are copied. Kaldi: nnet3-copy-egs."""
from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import Nnet3Error
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import scaled, take_rows
from nnet3py.random_sequence import CRandom

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Selection:
    """The frames that are taken from an example, and their shift in time.

    Attributes
    ----------
    frame : the one output time to keep, ``"random"`` for any of them, None for all
    left_context, right_context : input frames to keep before the first and after the last output frame; -1 for all
    frame_shift : added to every t except those of iVectors
    """

    frame: int | str | None = None
    left_context: int = -1
    right_context: int = -1
    frame_shift: int = 0

    @classmethod
    def parse(cls, frame: str, left_context: int, right_context: int, frame_shift: int) -> Selection:
        """Return a selection with ``frame`` as on the command line: empty, ``random`` or an integer."""
        chosen: int | str | None = None
        if frame == "random":
            chosen = frame
        elif frame:
            try:
                chosen = int(frame)
            except ValueError:
                raise Nnet3Error(f"Invalid option --frame='{frame}'", "expected an integer or 'random'") from None
        return cls(chosen, left_context, right_context, frame_shift)

    def is_everything(self) -> bool:
        """True if examples would be copied as they are."""
        return self == Selection()


class ExampleSelector:
    """Selector that applies a :class:`Selection` to examples, one after the other."""

    def __init__(self, selection: Selection, random: CRandom) -> None:
        self.selection, self._random = selection, random
        self._limit_context = ContextLimit(selection.left_context, selection.right_context)

    def __call__(self, example: NnetExample) -> NnetExample | None:
        """Return a new example with the frames asked for; None if it has no frame with that number.

        Nnet3Error for an example that is merged already, or without ``input`` and ``output``.
        """
        times = self.chosen_times(*self.output_range(example))
        return None if times is None else self.cut(example, *times)

    @property
    def shift(self) -> int:
        """The number that is added to every t except those of iVectors."""
        return self.selection.frame_shift

    def output_range(self, example: NnetExample) -> tuple[int, int]:
        """Return the first and the last output time of an example that can be cut; Nnet3Error for any other."""
        for name in ("input", "output"):
            io = example.find(name)
            if io is None or not len(io.indexes):
                raise Nnet3Error(f"an example without '{name}' cannot be cut", "leave out --frame and the contexts")
        if any(io.indexes[:, 0].any() for io in example.io):
            raise Nnet3Error("merged examples cannot be cut", "select frames before merging")
        times = example.find("output").indexes[:, 1]  # type: ignore[union-attr]
        return int(times.min()), int(times.max())

    def chosen_times(self, low: int, high: int) -> tuple[int, int] | None:
        """Return the first and the last of the output times from ``low`` to ``high`` to keep; None if there is none."""
        frame = self.selection.frame
        if frame is None:
            return low, high
        chosen = self._random.integer(low, high) if frame == "random" else int(frame)
        return (chosen, chosen) if low <= chosen <= high else None

    def cut(self, example: NnetExample, low: int, high: int) -> NnetExample:
        """Return a new example with the outputs from time ``low`` to ``high`` and the inputs that they need."""
        kept = []
        for io in example.io:
            if io.name == "output":
                io = _filter(io, low, high)
            elif io.name == "input":
                io = self._limit_context(io, low, high)
            kept.append(shifted(io, self.shift))
        return NnetExample(kept)


class ContextLimit:
    """Limit on input frames, which removes those beyond a left and right context; -1: all stay. Warns once for less."""

    def __init__(self, left: int, right: int) -> None:
        self._left, self._right = left, right
        self._warned: set[str] = set()

    def __call__(self, io: NnetIo, low: int, high: int) -> NnetIo:
        """Return ``io`` for outputs from time ``low`` to ``high``; ``io`` itself if nothing is removed."""
        times = io.indexes[:, 1]
        first, last = int(times.min()), int(times.max())
        if self._left != -1:
            first = self._limit("left", self._left, low - self._left, first, max)
        if self._right != -1:
            last = self._limit("right", self._right, high + self._right, last, min)
        return _filter(io, first, last)

    def _limit(self, side: str, wanted: int, time: int, available: int, choose: Callable[[int, int], int]) -> int:
        limited = choose(time, available)
        if limited != time and side not in self._warned:
            self._warned.add(side)
            logger.warning("The examples have less than the %s-context of %d that was asked for: %d frames less "
                           "(said only once)", side, wanted, abs(time - available))
        return limited


def shifted(io: NnetIo, frame_shift: int) -> NnetIo:
    """Return ``io`` with ``frame_shift`` added to every t, unless it is the iVector."""
    indexes = io.indexes.copy()
    indexes[:, 1] += frame_shift if io.name != "ivector" else 0
    return NnetIo(io.name, indexes, io.features)


def _filter(io: NnetIo, low: int, high: int) -> NnetIo:
    keep = (io.indexes[:, 1] >= low) & (io.indexes[:, 1] <= high)
    if keep.all():
        return io
    if not keep.any():
        raise Nnet3Error(f"the selection removed all indexes of '{io.name}'",
                         "with frame subsampling not every t has an output")
    # What is left of compressed features becomes dense, as in Kaldi.
    features = io.features.to_dense() if isinstance(io.features, CompressedMatrix) else io.features
    return NnetIo(io.name, io.indexes[keep], take_rows(features, np.flatnonzero(keep)))


def scale_outputs(example: NnetExample, weight: float) -> None:
    """Multiply the features of every io named ``output``, in place; raise Nnet3Error if there is none."""
    outputs = [io for io in example.io if io.name == "output"]
    if not outputs:
        raise Nnet3Error("an example without 'output' cannot be weighted")
    if weight != 1.0:
        for io in outputs:
            io.features = scaled(io.features, weight)


def rename_output(example: NnetExample, name: str) -> None:
    """Rename every io called ``output``, in place; raise Nnet3Error if there is none."""
    outputs = [io for io in example.io if io.name == "output"]
    if not outputs:
        raise Nnet3Error("an example without 'output' cannot have it renamed")
    for io in outputs:
        io.name = name
