"""Tables of fields: what reading, writing and the information text make of them."""
from __future__ import annotations

import io

import numpy as np
import pytest

from nnet3py.components.fields import AS_DIM, OLDER, Field, InFiles, fields_info
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
