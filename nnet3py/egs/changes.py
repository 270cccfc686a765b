"""Changes of frame-level examples while they are copied: frames and contexts chosen, images augmented at random.

Kaldi: nnet3-copy-egs; nnet3-egs-augment-image, which shifts, mirrors and turns images.

An image is a matrix: rows are x, columns y and channel, the channel varying fastest.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.options import ImageOptions
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import scaled, take_rows, to_dense
from nnet3py.random_sequence import CRandom

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Selection:
    """The frames to keep of an example, and their shift in time."""

    frame: int | str | None = None  # the one output time to keep, ``"random"`` for any of them, None for all
    # left_context, right_context: input frames to keep before the first and after the last output frame; -1 for all
    left_context: int = -1
    right_context: int = -1
    frame_shift: int = 0  # number of frames that is added to every time t, except those of iVectors

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
    """Function that applies a :class:`Selection` to an example; ``random`` draws random frames."""

    def __init__(self, selection: Selection, random: CRandom) -> None:
        self.selection, self._random = selection, random
        self._limit_context = ContextLimit(selection.left_context, selection.right_context)

    def __call__(self, example: NnetExample) -> NnetExample | None:
        """Return a new example with the selected frames; None if the example has no output at the selected time.

        Nnet3Error for an example that is merged already, or without ``input`` and ``output``.
        """
        times = self.chosen_times(*self.output_range(example))
        return None if times is None else self.cut(example, *times)

    @property
    def shift(self) -> int:
        """The number that is added to every t except those of iVectors."""
        return self.selection.frame_shift

    def output_range(self, example: NnetExample) -> tuple[int, int]:
        """Return the first and the last time t of an example's output.

        Nnet3Error for an example that is merged already, or without ``input`` and ``output``.
        """
        for name in ("input", "output"):
            io = example.find(name)
            if io is None or not len(io.indexes):
                raise Nnet3Error(f"an example without '{name}' cannot be cut", "leave out --frame and the contexts")
        if any(io.indexes[:, 0].any() for io in example.io):
            raise Nnet3Error("merged examples cannot be cut", "select frames before merging")
        times = example.find("output").indexes[:, 1]  # type: ignore[union-attr]
        return int(times.min()), int(times.max())

    def chosen_times(self, low: int, high: int) -> tuple[int, int] | None:
        """Return the first and the last output time to keep, of the times from ``low`` to ``high``; None for none."""
        frame = self.selection.frame
        if frame is None:
            return low, high
        chosen = self._random.integer(low, high) if frame == "random" else int(frame)
        return (chosen, chosen) if low <= chosen <= high else None

    def cut(self, example: NnetExample, low: int, high: int) -> NnetExample:
        """Return a new example with the outputs from time ``low`` to ``high``, and inputs with the selected context."""
        kept = []
        for io in example.io:
            if io.name == "output":
                io = _filter(io, low, high)
            elif io.name == "input":
                io = self._limit_context(io, low, high)
            kept.append(shifted(io, self.shift))
        return NnetExample(kept)


class ContextLimit:
    """Function that removes input frames beyond a left and right context, in frames; -1: all frames are kept.

    If an example has less context, a warning is logged, once for each side.
    """

    def __init__(self, left: int, right: int) -> None:
        self._left, self._right = left, right
        self._warned: set[str] = set()

    def __call__(self, io: NnetIo, low: int, high: int) -> NnetIo:
        """Return ``io`` with the frames from ``low`` - left to ``high`` + right; ``io`` itself if it has no others."""
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
    """Return an input or output with ``frame_shift`` added to every time t; iVectors are not shifted."""
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


def named_output(parts: Sequence[Any], change: str) -> list[Any]:
    """Return the inputs and outputs called ``output``; Nnet3Error, that names the ``change`` wanted, if none is."""
    outputs = [part for part in parts if part.name == "output"]
    if not outputs:
        raise Nnet3Error(f"an example without 'output' cannot be {change}")
    return outputs


def scale_outputs(example: NnetExample, weight: float) -> None:
    """Multiply the features of every output named ``output`` by ``weight``, in place; Nnet3Error if there is none."""
    for io in named_output(example.io, "weighted"):
        io.features = scaled(io.features, weight) if weight != 1.0 else io.features


def rename_output(example: Any, name: str) -> None:
    """Rename every output called ``output`` of a frame-level or chain example, in place; Nnet3Error if there is none.
    """
    for part in named_output(example.io if isinstance(example, NnetExample) else example.outputs, "renamed"):
        part.name = name


class ImageAugmenter:
    """Augmenter of images, which shifts, mirrors and rotates each image at random."""

    def __init__(self, options: ImageOptions, random: CRandom) -> None:
        options.check()
        self.options, self._random = options, random

    def change(self, example: NnetExample) -> None:
        """Change the image ``input`` of an example, in place.

        Raises Nnet3Error for an example without ``input``, or a merged one, ShapeError if columns are not whole pixels.
        A compressed image becomes dense.
        """
        if not any(io.name == "input" for io in example.io):
            raise Nnet3Error("Nnet example to perturb had no NnetIo object named 'input'")
        if any(io.indexes[:, 0].any() for io in example.io):
            raise Nnet3Error("merged examples hold several images each", "change images before merging")
        example.io = [NnetIo(io.name, io.indexes, self(to_dense(io.features))) if io.name == "input" else io
                      for io in example.io]

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """Return a random change of an image, float32 (width, height * channels)."""
        if image.shape[1] % self.options.num_channels:
            raise ShapeError(f"an image has {image.shape[1]} columns, which is not a multiple of --num-channels="
                             f"{self.options.num_channels}")
        size = image.shape[0], image.shape[1] // self.options.num_channels
        transform = self._transform(*size)
        if np.array_equal(transform, np.eye(3)):
            return image
        return transformed(image, _about_the_middle(transform, *size), self.options.num_channels,
                           self.options.fill_mode)

    def _transform(self, width: int, height: int) -> np.ndarray:
        """Draw a random affine transform, (3, 3), from pixel coordinates of the new image to those of the old one.

        The origin of both is the middle of the image.
        """
        options, random = self.options, self._random
        shift = np.eye(3)
        shift[0, 2] = _rounded((2.0 * random.uniform() - 1.0) * options.horizontal_shift * width)
        shift[1, 2] = _rounded((2.0 * random.uniform() - 1.0) * options.vertical_shift * height)
        if random.happens(options.horizontal_flip_prob):
            shift[0, 0] = -1.0
        rotation = np.eye(3)
        if random.happens(options.rotation_prob):
            angle = math.radians((2.0 * random.uniform() - 1.0) * options.rotation_degree)
            rotation[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        return rotation @ shift


def _rounded(value: float) -> float:
    """Return the nearest integer; halves away from zero, as C rounds them."""
    return math.copysign(math.floor(abs(value) + 0.5), value)


def _about_the_middle(transform: np.ndarray, width: int, height: int) -> np.ndarray:
    """Return a transform whose origin is the middle of the image as one whose origin is its corner."""
    to_middle = np.eye(3)
    to_middle[:2, 2] = (1 - width) / 2.0, (1 - height) / 2.0
    from_middle = np.eye(3)
    from_middle[:2, 2] = -to_middle[:2, 2]
    return from_middle @ transform @ to_middle


def transformed(image: np.ndarray, transform: np.ndarray, num_channels: int = 1,
                fill_mode: str = "nearest") -> np.ndarray:
    """Return an image transformed affinely: its pixel (x, y) is that of ``image`` at ``transform @ (x, y, 1)``.

    Values between pixels are interpolated bilinearly. ``image`` is float32 (width, height * channels), ``transform``
    float (3, 3). Kaldi: ApplyAffineTransform.
    """
    pixels = image.reshape(image.shape[0], image.shape[1] // num_channels, num_channels)
    places = np.indices(pixels.shape[:2], dtype=np.float32)
    m = transform.astype(np.float32)
    result = np.zeros_like(pixels)
    sides = []                            # for x and y: the pixels before and after the place, with their weights
    for axis, size in enumerate(pixels.shape[:2]):
        place = m[axis, 0] * places[0] + m[axis, 1] * places[1] + m[axis, 2]
        before = np.floor(place).astype(np.int64)
        sides.append([(_inside(before, size, fill_mode), before + 1 - place),
                      (_inside(before + 1, size, fill_mode), place - before)])
    for x, x_weight in sides[0]:
        for y, y_weight in sides[1]:
            result += (x_weight * y_weight).astype(np.float32)[:, :, None] * pixels[x, y]
    return result.reshape(image.shape)


def _inside(places: np.ndarray, size: int, fill_mode: str) -> np.ndarray:
    """Return the pixels, from 0 to ``size`` - 1, that are used for coordinates along an axis, also those outside it."""
    if fill_mode == "nearest" or size == 1:
        return np.clip(places, 0, size - 1)
    period = 2 * (size - 1)
    places = places % period
    return np.minimum(places, period - places)
