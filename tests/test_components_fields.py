"""Tables of fields: what reading, writing and the information text make of them."""
from __future__ import annotations

import io

import numpy as np
import pytest

from nnet3py.components.fields import (
    AS_DIM,
    OLDER,
    Field,
    InFiles,
    compact,
    fields_info,
    number,
    parameter_stats,
    significant,
    truth,
    vector_summary,
)
from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader, TokenWriter


class Layer(InFiles):
    FIELDS = (Field("<Dim>|<InputDim>", "dim", "dim", "dim"),
              Field("<BlockDim>", "block_dim", "block_dim", "block-dim", default=AS_DIM, omitted=True),
              Field("<RankInOut>|<Rank>", "integer", "inner", "rank-in"), Field("", "integer", "outer", "rank-out"),
              Field("<Scale>", "float32", "scale", "scale", hidden=1.0),
              Field("<Bias>", "vector", "bias", size="dim", may_be_empty=True),
              Field("<Count>", "float64", "counters.1", default=0.0),
              Field("<MaxChange>", "float32", default=OLDER), Field("<Scale>", "float32", "scale", default=OLDER))

    def __init__(self, dim: int, block_dim: int, inner: int, scale: float, bias: np.ndarray, outer: int = -1) -> None:
        self.dim, self.block_dim, self.inner, self.outer = dim, block_dim, inner, outer
        self.scale, self.bias = scale, bias
        self.counters = np.zeros(2)


NEW = "<Layer> <Dim> 4 <RankInOut> 2 3 <Scale> 1 <Bias>  [ ]\n<Count> 7 </Layer> "


def read(text: str) -> Layer:
    return Layer.read(TokenReader(io.BytesIO(text.encode()), size=len(text)))


def written(layer: Layer) -> str:
    stream = io.BytesIO()
    layer.write(TokenWriter(stream, False))
    return stream.getvalue().decode()


def test_files_are_written_as_they_were_read():
    layer = read(NEW)
    assert written(layer) == NEW
    assert (layer.dim, layer.block_dim, layer.inner, layer.outer, layer.counters.tolist()) == (4, 4, 2, 3, [0, 7])
    with_blocks = NEW.replace("<RankInOut>", "<BlockDim> 2 <RankInOut>")
    assert written(read(with_blocks)) == with_blocks


def test_older_files():
    text = "<InputDim> 4 <Rank> 2 <Scale> 1 <Bias> [ ] <MaxChange> 5 <Scale> 0.5 <Layer> "
    layer = read(text)      # no opening tag, which somebody has read; very old files close with it
    assert (layer.inner, layer.outer, layer.scale) == (2, -1, 0.5)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("<Scale>", "<Stale>", "expected <Scale>, found '<Stale>'"), ("<Dim> 4", "<Dim> 0", "a dimension between 1"),
    ("[ ]", "[ 1 ]", "expected 4 elements after <Bias>, found 1"), ("</Layer>", "</Dim>", "expected </Layer>"),
    ("<RankInOut>", "<BlockDim> 3 <RankInOut>", "divides the dimension 4"),
    ("<Dim>", "<Dims>", "expected <Layer> or <Dim> or <InputDim>, found")])
def test_damaged_files(old, new, message):
    with pytest.raises(FormatError, match=message):
        read(NEW.replace(old, new))


def test_information():
    layer = read(NEW)
    assert fields_info(layer, Layer.FIELDS) == ", dim=4, rank-in=2, rank-out=3"
    layer.block_dim, layer.scale, layer.bias = 2, 0.5, np.array([1, 2, 3, 4], dtype=np.float32)
    names = ("bias-max", "scale", "block-dim")
    assert fields_info(layer, Layer.FIELDS, names) == ", bias-max=4, scale=0.5, block-dim=2"


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
