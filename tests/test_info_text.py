"""How numbers are shortened in the information text."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.components.info_text import compact, number, parameter_stats, significant, truth, vector_summary


@pytest.mark.parametrize("value, text", [
    (0.0, "0"), (123.4, "123"), (9999.4, "9999"), (10.0, "10"), (9.96, "10.0"), (-2.345, "-2.3"), (0.995, "1.0"),
    (12345.6, "12345.6"), (0.994, "0.99"), (0.01, "0.01"), (0.0099, "0.01"), (0.005, "0.005"), (3.4e-5, "3e-05"),
    (-0.5, "-0.50"), (float("inf"), "inf")])
def test_compact(value, text):
    assert compact(value) == text


@pytest.mark.parametrize("value, text", [(0.001, "0.001"), (1e-5, "1e-05"), (2000.0, "2000"), (1 / 3, "0.333333"),
                                         (np.float32(0.1), "0.1"), (1234567.0, "1.23457e+06")])
def test_number(value, text):
    assert number(value) == text


def test_a_nan_is_the_root_of_a_negative_variance():
    assert significant(float("nan"), 4) == "-nan"
    assert parameter_stats("b", np.full(3, 0.1, dtype=np.float32), with_mean=True) in (
        ", b-{mean,stddev}=0.1,-nan", ", b-{mean,stddev}=0.1,0")


def test_truth():
    assert (truth(True), truth(False)) == ("true", "false")


def test_short_vectors_are_printed_whole():
    assert vector_summary(np.array([0.5, 12.0, 1e-4], dtype=np.float32)) == "[ 0.50 12 0.0001 ]"
    assert vector_summary(np.zeros(0, dtype=np.float32)) == "[ ]"
    assert vector_summary(np.ones(9, dtype=np.float32)).count("1.0") == 9


def test_long_vectors_by_their_percentiles():
    vector = np.arange(100, -1, -1, dtype=np.float32)   # 0 … 100: the percentile p is p
    assert vector_summary(vector) == (
        "[percentiles(0,1,2,5 10,20,50,80,90 95,98,99,100)=(0,1.0,2.0,5.0 10,20,50,80,90 95,98,99,100), "
        "mean=50, stddev=29.2]")


def test_parameter_stats_of_a_matrix():
    matrix = np.array([[3.0, 0.0], [0.0, 4.0]], dtype=np.float32)
    assert parameter_stats("w", matrix) == ", w-rms=2.5"
    assert parameter_stats("w", matrix, with_mean=True) == ", w-{mean,stddev}=1.75,1.785"
    assert parameter_stats("w", matrix, norms=True, singular_values=True) == (
        ", w-rms=2.5, w-row-norms=[ 3.0 4.0 ], w-col-norms=[ 3.0 4.0 ], w-singular-values=[ 4.0 3.0 ]")


def test_parameters_that_have_diverged_are_shown():
    matrix = np.array([[1e30, 1.0], [np.nan, np.inf]], dtype=np.float32)
    text = parameter_stats("w", matrix, norms=True, singular_values=True)
    assert text.startswith(", w-rms=-nan, w-row-norms=[ inf") and "singular" not in text
    assert "nan" in parameter_stats("b", matrix[1], with_mean=True)
    assert vector_summary(np.full(12, np.nan, dtype=np.float32)).count("nan") == 15
