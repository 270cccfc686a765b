"""Random changes to images while they are copied: shifted, mirrored, turned. Kaldi: nnet3-egs-augment-image.

An image is a matrix: rows are x, columns y and channel, the channel varying fastest.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.options import ImageOptions
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.general import to_dense
from nnet3py.random_sequence import CRandom


class ImageAugmenter:
    """Augmenter of images, which changes one after the other at random."""

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
        """Return the image, float32 (width, height * channels), changed at random."""
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
        """Draw an affine transform (3, 3) from places in the new image to places in the old one, about the middle."""
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
    """Return ``transform`` of places that count from the image's corner."""
    to_middle = np.eye(3)
    to_middle[:2, 2] = (1 - width) / 2.0, (1 - height) / 2.0
    from_middle = np.eye(3)
    from_middle[:2, 2] = -to_middle[:2, 2]
    return from_middle @ transform @ to_middle


def transformed(image: np.ndarray, transform: np.ndarray, num_channels: int = 1,
                fill_mode: str = "nearest") -> np.ndarray:
    """Return the image whose pixel (x, y) is what ``image`` has at ``transform @ (x, y, 1)``, between its pixels too.

    ``image`` is float32 (width, height * channels), ``transform`` float (3, 3). Kaldi: ApplyAffineTransform.
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
    """Return the pixels that stand for ``places`` along an axis of ``size`` pixels."""
    if fill_mode == "nearest" or size == 1:
        return np.clip(places, 0, size - 1)
    period = 2 * (size - 1)
    places = places % period
    return np.minimum(places, period - places)
