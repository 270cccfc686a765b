"""Shortening numbers in the information text of components (``nnet3-info``)."""
from __future__ import annotations

import numpy as np

_PERCENTILES = ((0, 1, 2, 5), (10, 20, 50, 80, 90), (95, 98, 99, 100))


def number(value: float) -> str:
    """A number with 6 significant digits, as a C++ stream prints it (``1e-05``, ``0.001``, ``2000``)."""
    return significant(value, 6)


def significant(value: float, digits: int) -> str:
    """A number with ``digits`` significant digits; a NaN prints as ``-nan``, like the root of a negative variance."""
    return "-nan" if np.isnan(value) else f"{value:.{digits}g}"


def truth(value: bool) -> str:
    """``true`` or ``false``."""
    return "true" if value else "false"


def compact(value: float) -> str:
    """A number in few characters that show its size: ``123``, ``1.2``, ``0.12``, ``0.005``."""
    size = abs(value)
    if 10.0 <= size < 10000.0:
        return f"{value:.0f}"
    if size >= 0.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.01 else f"{value:.1g}"


@np.errstate(over="ignore", invalid="ignore")   # parameters that have diverged are shown as they are
def vector_summary(vector: np.ndarray) -> str:
    """All values of a short vector; percentiles, mean and standard deviation of a long one (10 values or more).

    Kaldi: SummarizeVector.
    """
    if vector.size < 10:
        return "[ " + "".join(compact(float(value)) + " " for value in vector) + "]"
    ordered = np.sort(vector)
    names = " ".join(",".join(str(p) for p in group) for group in _PERCENTILES)
    values = " ".join(",".join(compact(float(ordered[(vector.size - 1) * p // 100])) for p in group)
                      for group in _PERCENTILES)
    mean, stddev = _mean_and_stddev(vector)
    return f"[percentiles({names})=({values}), mean={significant(mean, 3)}, stddev={significant(stddev, 3)}]"


@np.errstate(over="ignore", invalid="ignore")
def parameter_stats(name: str, values: np.ndarray, with_mean: bool = False, norms: bool = False,
                    singular_values: bool = False) -> str:
    """The fields that describe one parameter array, each with its leading comma. Kaldi: PrintParameterStats.

    Parameters
    ----------
    name : the beginning of the fields' names
    values : float32 vector or matrix
    with_mean : print mean and standard deviation instead of the root mean square
    norms : add summaries of the 2-norms of rows and columns (matrices only)
    singular_values : add a summary of the singular values (matrices only)
    """
    if with_mean:
        mean, stddev = _mean_and_stddev(values)
        text = f", {name}-{{mean,stddev}}={significant(mean, 4)},{significant(stddev, 4)}"
    else:
        text = f", {name}-rms={significant(_root(_mean(values * values)), 4)}"
    if norms:
        squares = values * values
        text += f", {name}-row-norms={vector_summary(np.sqrt(squares.sum(axis=1)))}"
        text += f", {name}-col-norms={vector_summary(np.sqrt(squares.sum(axis=0)))}"
    if singular_values and np.isfinite(values).all():   # a matrix with NaN has none
        text += f", {name}-singular-values={vector_summary(np.linalg.svd(values, compute_uv=False))}"
    return text


def _mean(values: np.ndarray) -> np.floating:
    return values.sum() / values.dtype.type(max(values.size, 1))


def _mean_and_stddev(values: np.ndarray) -> tuple[float, float]:
    mean = _mean(values)
    return float(mean), _root(_mean(values * values) - mean * mean)


def _root(value: np.floating) -> float:
    """Square root; NaN for a negative value, which rounding can make of a constant vector's variance."""
    return float(np.sqrt(value)) if value >= 0 else float("nan")
