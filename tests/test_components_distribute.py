"""DistributeComponent: blocks of columns for each x, Kaldi's case, precomputed indexes, files and config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from case_runs import differences
from component_cases import CASES, check_derivatives, info_lines, read_components, reread, written
from own_ops import reference_ops

from nnet3py.components.distribute import DistributeComponent, DistributeComponentPrecomputedIndexes
from nnet3py.config_line import ConfigLine
from nnet3py.errors import CompileError, ConfigError, FormatError, ShapeError
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.ops import get_ops

KALDI = 1e-5         # of the largest value: float32 sums of a few terms
KALDI_UPDATE = 1e-3  # of the largest change, which is about 1e-3 of the parameters, themselves rounded by 6e-8


@pytest.fixture(params=["reference", "cpu"])
def ops(request):
    return reference_ops() if request.param == "reference" else get_ops("cpu")


def grid(extra, times=(0, 1), sequences=(0, 1)) -> np.ndarray:
    return np.array([(n, t, x) for t in times for x in extra for n in sequences], np.int32)


def reader(data: bytes) -> TokenReader:
    stream = TokenReader(io.BytesIO(data), size=len(data))
    stream.read_header()
    return stream


# -- indexes ---------------------------------------------------------------------------------------------------------


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


def test_derivatives():
    component, outputs = DistributeComponent(6, 2), grid([0, 2, 3])
    inputs = np.unique(component.input_indexes(outputs)[:, 0], axis=0)
    indexes = component.precompute_indexes(inputs, outputs, True)
    check_derivatives(reference_ops(np.float64), component, len(inputs), len(outputs), indexes)


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


# -- Kaldi's case ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimize", [True, False])
def test_golden_case(optimize):
    found = differences(CASES / "distribute", optimize=optimize)
    assert max(found.output, found.input_deriv, *found.gradient.values()) < KALDI
    assert found.types["d"] == "DistributeComponent" and max(found.update.values()) < KALDI_UPDATE


@pytest.mark.parametrize("name", ["nnet.raw", "nnet.txt"])
def test_golden_files(name):
    component, data = read_components(CASES / "distribute" / name)["d"]
    assert written(component, name == "nnet.raw").split() == data.split()
    assert component.info() == info_lines("distribute")["d"]


# -- files and config lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
def test_files(binary):
    component = DistributeComponent(6, 2)
    again = reread(component, binary)
    assert written(again, binary) == written(component, binary)
    assert (again.input_dim, again.output_dim, int(again.properties)) == (6, 2, 0)


def test_damaged_files():
    text = written(DistributeComponent(6, 2), False)
    assert DistributeComponent.read(reader(text.split(b" ", 1)[1])).input_dim == 6    # the opening tag may be missing
    for found, damage in ((b"<InputDim> 6", b"<InputDim> 7"), (b"6", b"0"), (b"<OutputDim> 2", b"<OutputDim> -2"),
                          (b"<OutputDim>", b"<Dim>"), (b"</DistributeComponent>", b"</Distribute>")):
        assert found in text
        with pytest.raises(FormatError):
            DistributeComponent.read(reader(text.replace(found, damage)))


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
            DistributeComponentPrecomputedIndexes.read(reader(data.replace(b"0,4", b"0,-4")))
    again = DistributeComponentPrecomputedIndexes.read(reader((b"\0B" if binary else b"") + data))
    np.testing.assert_array_equal(again.places, indexes.places)
    assert again.places.dtype == np.int32 and again.places.flags.c_contiguous
    assert (again.last_row, again.last_col) == (1, 4)


def from_config(text: str) -> DistributeComponent:
    line = ConfigLine(text)
    component = DistributeComponent.from_config(line, np.random.default_rng(0))
    line.check_all_used()
    return component


def test_config_lines():
    assert from_config("input-dim=12 output-dim=4").info() == "DistributeComponent, input-dim=12, output-dim=4"
    for text in ("", "input-dim=12", "output-dim=4", "input-dim=12 output-dim=5", "input-dim=0 output-dim=4",
                 "input-dim=12 output-dim=-4"):
        with pytest.raises(ConfigError, match="Invalid initializer for layer of type DistributeComponent"):
            from_config(text)
