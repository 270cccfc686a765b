"""The Fourier transform in single precision, to the bit as Kaldi's programs have it.

A split-radix transform (Sorensen, Heideman and Burrus 1986) of half the length, from which that of real numbers is
made. Logarithms of spectra show how it is rounded: where next to nothing is heard they hold little else. What is not a
logarithm of single frequencies (MFCC and others) is computed by numpy's transform, which is faster and more exact.
"""
from __future__ import annotations

import math
from functools import cache

import numpy as np

from nnet3py.engine.loop import Loop

_cosines = Loop("nnet3py.feat.spectrum_loops", "cosines_and_sines", "f4[] f4[] f4[]")
_ROOT_HALF = np.float32(math.sqrt(0.5))
_HALF = np.float32(0.5)


def is_power_of_two(size: int) -> bool:
    """Whether a transform has this length."""
    return size >= 4 and size & (size - 1) == 0


def real_transform(rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The real and imaginary parts of frequencies 0 to half the rate, each float32 (rows, size / 2 + 1).

    ``rows``: float32 (rows, up to ``size``), continued by zeros. ``size``: a power of 2, at least 4. Kaldi:
    SplitRadixRealFft.
    """
    padded = np.zeros((len(rows), size), dtype=np.float32)
    padded[:, :rows.shape[1]] = rows
    real, imaginary = _transform(padded[:, 0::2], padded[:, 1::2])
    half = size // 2
    places, roots = np.arange(1, half // 2 + 1), _roots(size)
    others = half - places
    # Of two real signals that were transformed as one, the spectra of both.
    even_real, even_imaginary = _HALF * (real[:, places] + real[:, others]), _HALF * (
        imaginary[:, places] - imaginary[:, others])
    odd_real, odd_imaginary = _HALF * (imaginary[:, places] + imaginary[:, others]), -_HALF * (
        real[:, places] - real[:, others])
    turned_real = roots[0] * odd_real - roots[1] * odd_imaginary
    turned_imaginary = roots[0] * odd_imaginary + roots[1] * odd_real
    spectrum = np.zeros((2, len(rows), half + 1), dtype=np.float32)
    spectrum[0][:, others], spectrum[1][:, others] = even_real - turned_real, turned_imaginary - even_imaginary
    spectrum[0][:, places], spectrum[1][:, places] = even_real + turned_real, even_imaginary + turned_imaginary
    spectrum[0][:, 0], spectrum[0][:, half] = real[:, 0] + imaginary[:, 0], real[:, 0] - imaginary[:, 0]
    return spectrum[0], spectrum[1]


def _transform(real: np.ndarray, imaginary: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of complex numbers, along the last axis: halves of even frequencies, quarters of those of 4k + 1 and 4k + 3."""
    size = real.shape[1]
    if size == 1:
        return real, imaginary
    half, quarter = size // 2, size // 4
    result = np.empty((2, *real.shape), dtype=np.float32)
    even = _transform(real[:, :half] + real[:, half:], imaginary[:, :half] + imaginary[:, half:])
    result[0][:, 0::2], result[1][:, 0::2] = even
    left, right = real[:, :half] - real[:, half:], imaginary[:, :half] - imaginary[:, half:]
    if size == 2:
        result[0][:, 1:], result[1][:, 1:] = left, right
        return result[0], result[1]
    near, far = (left[:, :quarter], right[:, :quarter]), (left[:, quarter:], right[:, quarter:])
    for step, parts in ((1, (near[0] + far[1], near[1] - far[0])), (3, (near[0] - far[1], near[1] + far[0]))):
        odd = _transform(*_turned(*parts, size, step))
        result[0][:, step::4], result[1][:, step::4] = odd
    return result[0], result[1]


def _turned(real: np.ndarray, imaginary: np.ndarray, size: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers turned by ``-step`` times their places, of ``size`` a whole turn: three products for each."""
    cosines, sums, differences = _tables(size, step)
    common = cosines * (real + imaginary)
    new_real, new_imaginary = differences * imaginary + common, sums * real + common
    new_real[:, 0], new_imaginary[:, 0] = real[:, 0], imaginary[:, 0]
    if size >= 8:
        eighth = size // 8
        across, up = real[:, eighth], imaginary[:, eighth]
        turned = _ROOT_HALF * (across + up), _ROOT_HALF * (up - across)
        new_real[:, eighth], new_imaginary[:, eighth] = turned if step == 1 else (turned[1], -turned[0])
    return new_real, new_imaginary


@cache
def _tables(size: int, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """float32 (size / 4,): cosines, minus their sums with sines, and sines less cosines."""
    angles = (step * np.arange(size // 4) * (2 * math.pi) / size).astype(np.float32)
    cosines, sines = np.empty((2, len(angles)), dtype=np.float32)
    _cosines(angles, cosines, sines)
    return cosines, -(sines + cosines), sines - cosines


@cache
def _roots(size: int) -> np.ndarray:
    """float32 (2, size / 4): powers of a root of 1, each made of the one before, so that rounding adds up."""
    angle = np.array([-2 * math.pi / size], dtype=np.float32)
    cosine, sine = np.empty((2, 1), dtype=np.float32)
    _cosines(angle, cosine, sine)
    roots = np.empty((2, size // 4), dtype=np.float32)
    real, imaginary = np.float32(1), np.float32(0)
    for power in range(roots.shape[1]):
        real, imaginary = (real * cosine[0] - imaginary * sine[0], real * sine[0] + imaginary * cosine[0])
        roots[:, power] = real, imaginary
    return roots
