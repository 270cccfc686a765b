"""Structural components and fixed scales and biases: values, files and config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import from_config, normal, read_text, written

from nnet3py.components.structural import (
    DistributeComponent,
    DistributeComponentPrecomputedIndexes,
    ElementwiseProductComponent,
    FixedBiasComponent,
    FixedScaleComponent,
    NoOpComponent,
    PermuteComponent,
    SumBlockComponent,
    SumGroupComponent,
)
from nnet3py.errors import CompileError, ConfigError, FormatError, ShapeError
from nnet3py.io.tokens import TokenWriter

FLOAT32 = 1e-6
VECTOR = np.array([1.5, -2, 0.25, 3, 0, 1], np.float32)
COMPONENTS = {
    "no-op": NoOpComponent(6), "product": ElementwiseProductComponent(6, 2), "block": SumBlockComponent(6, 2, 0.75),
    "group": SumGroupComponent([1, 3, 2]), "permute": PermuteComponent([3, 0, 1, 5, 4, 2]),
    "scale": FixedScaleComponent(VECTOR), "bias": FixedBiasComponent(VECTOR)}


EXPECTED = {
    "no-op": lambda x: x, "product": lambda x: x[:, :2] * x[:, 2:4] * x[:, 4:],
    "block": lambda x: 0.75 * (x[:, :2] + x[:, 2:4] + x[:, 4:]),
    "group": lambda x: np.stack([x[:, 0], x[:, 1:4].sum(axis=1), x[:, 4:].sum(axis=1)], axis=1),
    "permute": lambda x: x[:, [3, 0, 1, 5, 4, 2]], "scale": lambda x: x * VECTOR, "bias": lambda x: x + VECTOR}


@pytest.mark.parametrize("name", COMPONENTS)
def test_values(name, ops):
    component, x = COMPONENTS[name], normal(5, 6)
    y = np.zeros((5, component.output_dim), np.float32)
    component.propagate(ops, None, x, y, None)
    np.testing.assert_allclose(y, EXPECTED[name](x), atol=FLOAT32)


def test_scaled_backprop(ops):
    for scale in (0.5, 0.0, -1.0):
        dx = dy = normal(5, 6)
        expected = scale * dy
        NoOpComponent(6, scale).backprop(ops, None, None, None, dy, None, None, dx)
        np.testing.assert_array_equal(dx, expected)


@pytest.mark.parametrize("kind, text, message", [
    (NoOpComponent, b"<Dim> -3 ", "dimension"),
    (NoOpComponent, b"<Dim> 3 <BackpropScale> 1 <Dim> ", "</NoOpComponent>"),
    (ElementwiseProductComponent, b"<InputDim> 6 <OutputDim> 4 </ElementwiseProductComponent> ",
     "divides the input dimension 6"),
    (SumGroupComponent, b"<Sizes> [ 1 0 ] ", "positive group sizes"),
    (SumGroupComponent, b"<Sizes> [ ] ", "positive"),
    (PermuteComponent, b"<ColumnMap> [ 0 2 ] ", r"once after <ColumnMap>, found \[0 2\]"),
    (PermuteComponent, b"<ColumnMap> [ ] ", "once after <ColumnMap>"),
    (FixedScaleComponent, b"<Scales> [ ] ", "vector with elements")])
def test_damaged_files(kind, text, message):
    with pytest.raises(FormatError, match=message):
        read_text(kind, text + f"</{kind.__name__}> ".encode())


def test_information():
    assert COMPONENTS["block"].info() == "SumBlockComponent, input-dim=6, output-dim=2, scale=0.75"
    assert COMPONENTS["product"].info() == "ElementwiseProductComponent, input-dim=6, output-dim=2"
    assert COMPONENTS["group"].info() == "SumGroupComponent, input-dim=6, output-dim=3"
    assert COMPONENTS["permute"].info() == "PermuteComponent, dim=6 , column-map=[ 3 0 1 5 4 ... ]"
    assert PermuteComponent([1, 0]).info() == "PermuteComponent, dim=2 , column-map=[ 1 0 ]"
    assert NoOpComponent(3, 0.5).info() == "NoOpComponent, dim=3, backprop-scale=0.5"
    assert COMPONENTS["bias"].info() == (
        "FixedBiasComponent, input-dim=6, output-dim=6, bias-{mean,stddev}=0.625,1.526")
    assert ", scales-{mean,stddev}=" in COMPONENTS["scale"].info()


def test_configs(tmp_path):
    assert from_config(NoOpComponent, "dim=3 backprop-scale=-2").backprop_scale == -2.0
    assert from_config(ElementwiseProductComponent, "input-dim=6 output-dim=3").output_dim == 3
    assert from_config(SumBlockComponent, "input-dim=6 output-dim=3 scale=0.5").block_scale == 0.5
    assert from_config(SumBlockComponent, "input-dim=1 output-dim=1").output_dim == 1
    assert from_config(SumGroupComponent, "sizes=3:4,5").sizes.tolist() == [3, 4, 5]
    assert from_config(SumGroupComponent, "input-dim=6 output-dim=3").sizes.tolist() == [2, 2, 2]
    assert from_config(PermuteComponent, "column-map=1,,0").column_map.tolist() == [1, 0]
    assert from_config(FixedScaleComponent, "dim=3 scale=0.5").vector.tolist() == [0.5] * 3
    assert from_config(FixedScaleComponent, "dim=3").vector.std() > 0
    (tmp_path / "v").write_text(" [ 1 2 4 ]\n")
    assert from_config(FixedScaleComponent, f"scales={tmp_path}/v").vector.tolist() == [1, 2, 4]
    assert from_config(FixedBiasComponent, f"bias={tmp_path}/v").vector.tolist() == [1, 2, 4]
    with pytest.raises(ConfigError, match="Unused values 'dim=3'"):
        from_config(FixedBiasComponent, f"bias={tmp_path}/v dim=3")


def grid(extra, times=(0, 1), sequences=(0, 1)) -> np.ndarray:
    return np.array([(n, t, x) for t in times for x in extra for n in sequences], np.int32)


def test_wanted_inputs():
    wanted = DistributeComponent(6, 2).input_indexes(np.array([[1, 5, x] for x in range(-4, 5)], np.int32))
    assert wanted.dtype == np.int32 and wanted.shape == (9, 1, 3)
    assert wanted[:, 0, 2].tolist() == [-2, -1, -1, -1, 0, 0, 0, 1, 1]
    assert (wanted[:, 0, :2] == [1, 5]).all()


@pytest.mark.parametrize("extra", [range(3), range(-3, 3), [2], [-1, 0, 1, 5]])
def test_every_block_comes_from_its_row(extra, ops):
    component, outputs = DistributeComponent(6, 2), grid(extra)
    inputs = np.unique(component.input_indexes(outputs)[:, 0], axis=0)[::-1]
    indexes = component.precompute_indexes(inputs, outputs, True)
    assert indexes.places.dtype == np.int32
    x = np.random.default_rng(0).standard_normal((len(inputs), 6)).astype(np.float32)
    y, dx = np.full((len(outputs), 2), np.nan, np.float32), np.full_like(x, np.nan)
    component.propagate(ops, indexes, x, y, None)
    row = {tuple(index): i for i, index in enumerate(inputs.tolist())}
    expected_dx = np.zeros_like(x)
    for i, (n, t, k) in enumerate(outputs.tolist()):
        piece = row[n, t, k // 3], slice(k % 3 * 2, k % 3 * 2 + 2)
        np.testing.assert_array_equal(y[i], x[piece])
        expected_dx[piece] = -y[i]
    component.backprop(ops, indexes, None, None, -y, None, None, dx)
    np.testing.assert_array_equal(dx, expected_dx)
    component.backprop(ops, indexes, None, None, -y, None, None, None)     # nobody wants a derivative


def test_rows_that_do_not_fit(ops):
    component = DistributeComponent(6, 2)
    with pytest.raises(CompileError, match="no input row"):
        component.precompute_indexes(grid([0]), grid([3]), True)
    x = np.zeros((2, 6), np.float32)
    for places in ([[2, 0]], [[0, 5]], [[0, 0], [0, 2]]):
        indexes = DistributeComponentPrecomputedIndexes(np.array(places, np.int32))
        with pytest.raises(ShapeError, match="compiled for other dimensions"):
            component.propagate(ops, indexes, x, np.zeros((1, 2), np.float32), None)
        with pytest.raises(ShapeError, match="compiled for other dimensions"):
            component.backprop(ops, indexes, None, None, np.zeros((1, 2), np.float32), None, None, x)


def test_damaged_files_of_distribute():
    text = written(DistributeComponent(6, 2), False)
    assert read_text(DistributeComponent, (text.split(b" ", 1)[1])).input_dim == 6    # the opening tag may be missing
    for found, damage in ((b"<InputDim> 6", b"<InputDim> 7"), (b"6", b"0"), (b"<OutputDim> 2", b"<OutputDim> -2"),
                          (b"<OutputDim>", b"<Dim>"), (b"</DistributeComponent>", b"</Distribute>")):
        assert found in text
        with pytest.raises(FormatError):
            read_text(DistributeComponent, (text.replace(found, damage)))


@pytest.mark.parametrize("binary", [True, False])
def test_files_of_precomputed_indexes(binary):
    indexes = DistributeComponentPrecomputedIndexes(np.array([[0, 4], [1, 0]], np.int32))
    stream = io.BytesIO()
    indexes.write(TokenWriter(stream, binary))
    data = stream.getvalue()
    if binary:
        assert data == (b"<DistributeComponentPrecomputedIndexes> <Pairs> \x04"
                        + np.array([2, 0, 4, 1, 0], "<i4").tobytes() + b"</DistributeComponentPrecomputedIndexes> ")
    else:
        assert data.split() == (b"<DistributeComponentPrecomputedIndexes> <Pairs> [ 0,4 1,0 ] "
                                b"</DistributeComponentPrecomputedIndexes>").split()
        with pytest.raises(FormatError, match="found -4"):
            read_text(DistributeComponentPrecomputedIndexes, (data.replace(b"0,4", b"0,-4")))
    again = read_text(DistributeComponentPrecomputedIndexes, ((b"\0B" if binary else b"") + data))
    np.testing.assert_array_equal(again.places, indexes.places)
    assert again.places.dtype == np.int32 and again.places.flags.c_contiguous
    assert (again.last_row, again.last_col) == (1, 4)
