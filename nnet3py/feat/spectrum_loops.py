"""The loops from spectra to features. Each frame's result is the same however many are computed together."""
from __future__ import annotations

import math
from typing import Any

import numpy as np


def apply_filters(spectrum: Any, starts: Any, sizes: Any, weights: Any, result: Any) -> None:
    """Sums over the frequencies of each filter, ``sizes`` from ``starts`` on; their ``weights`` follow each other."""
    for frame in range(spectrum.shape[0]):
        at = np.int64(0)
        for number in range(starts.shape[0]):
            total, first = np.float32(0.0), np.int64(starts[number])
            for place in range(np.int64(sizes[number])):
                total += spectrum[frame, first + place] * weights[at + place]
            at += np.int64(sizes[number])
            result[frame, number] = total


def multiply_rows(rows: Any, columns: Any, result: Any) -> None:
    """Products of rows with a matrix, float32 (dim, columns)."""
    for frame in range(rows.shape[0]):
        for column in range(columns.shape[1]):
            result[frame, column] = np.float32(0.0)
        for place in range(rows.shape[1]):
            value = rows[frame, place]
            for column in range(columns.shape[1]):
                result[frame, column] += value * columns[place, column]


def predict_linearly(correlations: Any, least_error: float, coefficients: Any, other: Any, errors: Any) -> None:
    """Durbin's recursion: linear prediction of each frame from its autocorrelations, float64 (frames, order + 1).

    ``coefficients``, float64 (frames, order), gets minus the predictor's; ``errors``, float64 (frames,), what
    remains. ``other`` is float64 (order,). An error is not multiplied by less than ``least_error``.
    """
    order = coefficients.shape[1]
    for frame in range(correlations.shape[0]):
        error = correlations[frame, 0]
        for i in range(order):
            reflection = correlations[frame, i + 1]
            for j in range(i):
                reflection += coefficients[frame, j] * correlations[frame, i - j]
            reflection = reflection / error if error > 0.0 else 0.0
            error *= max(1.0 - reflection * reflection, least_error)
            for j in range(i):
                other[j] = coefficients[frame, j] - reflection * coefficients[frame, i - j - 1]
            for j in range(i):
                coefficients[frame, j] = other[j]
            coefficients[frame, i] = -reflection
        errors[frame] = error


def cepstra_of_predictors(coefficients: Any, cepstra: Any) -> None:
    """Cepstra, float64 (frames, order), without the first one, from what :func:`predict_linearly` found."""
    for frame in range(coefficients.shape[0]):
        for i in range(coefficients.shape[1]):
            total = 0.0
            for j in range(i):
                total += (i - j) * coefficients[frame, j] * cepstra[frame, i - j - 1]
            cepstra[frame, i] = -coefficients[frame, i] - total / (i + 1)


def cosines_and_sines(angles: Any, cosines: Any, sines: Any) -> None:
    """In single precision, as the C library rounds them."""
    for place in range(angles.shape[0]):
        cosines[place], sines[place] = math.cos(angles[place]), math.sin(angles[place])
