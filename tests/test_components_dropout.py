"""Dropout and GeneralDropout: masks, proportions, Kaldi's test-mode case, files and config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from case_with_stats import OUTPUT, assert_close
from component_cases import CASES, read_ark, reread, written
from own_ops import reference_ops
from test_components_nonlinear import from_config, normal

from nnet3py.components.affine import AffineComponent
from nnet3py.components.base import Properties
from nnet3py.components.dropout import (
    DropoutComponent,
    GeneralDropoutComponent,
    GeneralDropoutComponentPrecomputedIndexes,
)
from nnet3py.errors import ConfigError, FormatError
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.ops import get_ops

FLOAT32 = 1e-6
FOUR_SIGMA = 4


@pytest.fixture(params=["reference", "cpu"])
def ops(request):
    return reference_ops() if request.param == "reference" else get_ops("cpu")


def read_text(kind, text):
    return kind.read(TokenReader(io.BytesIO(text.encode()), size=len(text)))


def assert_share(found, expected, count):
    """A share of ``count`` independent draws, within four standard deviations."""
    assert abs(found - expected) < FOUR_SIGMA * np.sqrt(expected * (1 - expected) / count) + 1e-12


# -- Kaldi's case -----------------------------------------------------------------


def components_until(data: bytes, names: list[str]) -> dict:
    """The components of these names, which come first in the model file."""
    data = b"\0B" + data[data.index(b"<NumComponents>"):]
    reader = TokenReader(io.BytesIO(data), size=len(data))
    reader.read_header()
    reader.expect("<NumComponents>")
    reader.integer()
    kinds = {f"<{kind.__name__}>": kind for kind in (AffineComponent, DropoutComponent, GeneralDropoutComponent)}
    found = {}
    for name in names:
        reader.expect("<ComponentName>")
        assert reader.token() == name
        start = reader.offset
        found[name] = kinds[reader.token()].read(reader)
        assert written(found[name], True) == data[start:reader.offset]
    return found


def test_kaldis_test_mode(ops):
    """The fourth component of the net, SpecAugment in test mode, is the identity."""
    folder = CASES / "dropout-test-mode"
    components = components_until((folder / "nnet.raw").read_bytes(), ["a", "d", "g"])
    matrices = read_ark(folder / "io.ark")
    value = np.ascontiguousarray(matrices["input.input"])
    values = [value]
    for component in components.values():
        value = np.zeros((len(value), component.output_dim), np.float32)
        component.propagate(ops, None, values[-1], value, component.new_memo(ops, len(value)))
        values.append(value)
    assert_close(value, matrices["output.output"], OUTPUT)
    deriv = matrices["output-deriv.output"]
    for component, x, y in zip(reversed(components.values()), values[-2::-1], values[:0:-1], strict=True):
        dx = np.zeros_like(x)
        component.backprop(ops, None, x, y, deriv, component.new_memo(ops, len(x)), None, dx)
        deriv = dx
    assert_close(deriv, matrices["input-deriv.input"], OUTPUT)
    text = (folder / "info.txt").read_text()
    for name in ("d", "g"):
        assert f"component name={name} type={components[name].info()}\n" in text


# -- DropoutComponent -----------------------------------------------------------------


@pytest.mark.parametrize("per_frame", [False, True])
def test_dropout(per_frame, ops):
    component, x = DropoutComponent(10, 0.3, per_frame), np.abs(normal(200, 10)) + 0.1
    x[:, 0] = 0.0
    y, dx, dy = np.empty_like(x), np.empty_like(x), normal(200, 10, seed=1)
    component.propagate(ops, None, x, y, None)
    kept = y[:, 1:] != 0
    np.testing.assert_array_equal(y[:, 1:], x[:, 1:] * kept)       # not scaled up
    if per_frame:
        assert (kept == kept[:, :1]).all()
    assert_share(kept.mean(), 0.7, 200 if per_frame else 1800)
    component.dropout_proportion = 0.9                             # no effect on the way back
    component.backprop(ops, None, x, y, dy, None, None, dx)
    np.testing.assert_array_equal(dx[:, 1:], dy[:, 1:] * kept)
    np.testing.assert_array_equal(dx[:, 0], dy[:, 0])              # a zero input hides the mask


def test_dropout_in_test_mode(ops):
    component, x, dy = DropoutComponent(6, 0.25, test_mode=True), normal(5, 6), normal(5, 6, seed=1)
    y, dx = np.empty_like(x), dy.copy()
    component.propagate(ops, None, x, y, None)
    component.backprop(ops, None, x, y, dx, None, None, dx)
    np.testing.assert_allclose(y, 0.75 * x, rtol=FLOAT32)
    np.testing.assert_allclose(dx, 0.75 * dy, rtol=FLOAT32)


@pytest.mark.parametrize("binary", [True, False])
def test_dropout_files(binary):
    component = DropoutComponent(6, 0.3, True, True)
    again = reread(component, binary)
    assert written(again, binary) == written(component, binary)
    assert again.info() == "DropoutComponent, dim=6, dropout-proportion=0.3, dropout-per-frame=true"
    assert int(again.properties) == 0x21C1


def test_older_dropout_files():
    component = read_text(DropoutComponent, "<Dim> 6 <DropoutProportion> 0.5 </DropoutComponent> ")
    assert (component.per_frame, component.test_mode) == (False, False)
    component = read_text(DropoutComponent, "<Dim> 6 <DropoutProportion> 0.5 <DropoutPerFrame> T </DropoutComponent> ")
    assert component.per_frame
    with pytest.raises(FormatError, match="expected </DropoutComponent>, found '<Dim>'"):
        read_text(DropoutComponent, "<Dim> 6 <DropoutProportion> 0.5 <Dim> ")


def test_dropout_config():
    component = from_config(DropoutComponent, "dim=6 dropout-proportion=0.3 dropout-per-frame=true test-mode=true")
    assert component.info() == "DropoutComponent, dim=6, dropout-proportion=0.3, dropout-per-frame=true"
    assert component.test_mode
    for text in ("dim=6", "dropout-proportion=0.5", "dim=6 dropout-proportion=1.5", "dim=6 dropout-proportion=-0.5"):
        with pytest.raises(ConfigError, match="Invalid initializer for layer of type DropoutComponent"):
            from_config(DropoutComponent, text)


# -- GeneralDropoutComponent -----------------------------------------------------------------


def rows(num_sequences, num_frames):
    return np.array([[n, t, 0] for t in range(-2, num_frames - 2) for n in range(num_sequences)], np.int32)


def run(component, ops, indexes, x):
    precomputed = component.precompute_indexes(indexes, indexes, True)
    memo, y, dy = component.new_memo(ops, len(x)), x.copy(), normal(*x.shape, seed=1)
    component.propagate(ops, precomputed, y, y, memo)
    dx = np.empty_like(dy)
    component.backprop(ops, precomputed, None, None, dy, memo, None, dx)
    return y / x, dx / dy


def test_masks_are_numbered_in_order_of_appearance():
    indexes = np.array([[1, 5, 0], [0, 5, 0], [1, 0, 0], [0, -1, 7], [1, 6, 0]], np.int32)
    found = GeneralDropoutComponent(6, 3).precompute_indexes(indexes, indexes, True)
    assert (found.num_mask_rows, found.indexes.tolist()) == (4, [0, 0, 1, 1, 0, 0, 1, 1, 0, 0])
    found = GeneralDropoutComponent(6, time_period=5).precompute_indexes(indexes, indexes, True)
    assert (found.num_mask_rows, found.indexes.tolist()) == (4, [0, 1, 2, 3, 0])
    assert found.indexes.dtype == np.int32


@pytest.mark.parametrize("period, block_dim", [(0, 6), (0, 3), (4, 6)])
def test_one_mask_for_a_stretch_of_time(period, block_dim, ops):
    component = GeneralDropoutComponent(6, block_dim, period, 0.25)
    forward, backward = run(component, ops, rows(40, 8), normal(320, 6))
    np.testing.assert_allclose(forward, backward, atol=FLOAT32)
    np.testing.assert_allclose(np.unique(np.round(forward, 5)), [0, 1.33333])
    masks = forward.reshape(8, 40, 6)                        # t from -2 to 5
    stretches = [slice(0, 8)] if period == 0 else [slice(0, 2), slice(2, 6), slice(6, 8)]
    for stretch in stretches:
        np.testing.assert_allclose(masks[stretch], np.broadcast_to(masks[stretch][:1], masks[stretch].shape), rtol=1e-5)
    np.testing.assert_allclose(forward[:, :block_dim], forward[:, -block_dim:], rtol=1e-5)
    assert_share((masks[0, :, :block_dim] > 0).mean(), 0.75, 40 * block_dim)


def test_continuous_dropout(ops):
    forward, backward = run(GeneralDropoutComponent(6, continuous=True, dropout_proportion=0.25), ops, rows(300, 1),
                            normal(300, 6))
    np.testing.assert_allclose(forward, backward, rtol=1e-4, atol=1e-5)
    assert 0.5 <= forward.min() < 0.52 and 1.48 < forward.max() <= 1.5


def test_specaugment(ops):
    component = GeneralDropoutComponent(20, specaugment_max_proportion=0.5, specaugment_max_regions=2)
    forward, backward = run(component, ops, rows(200, 1), normal(200, 20))
    np.testing.assert_allclose(forward, backward)
    assert set(np.unique(forward)) == {0.0, 1.0}
    zeros = (forward == 0).sum(axis=1)
    assert zeros.min() == 0 and zeros.max() == 10
    assert abs(zeros.mean() - 5) < FOUR_SIGMA * np.sqrt(10 / 200)     # 0..10, each as likely: variance 10


@pytest.mark.parametrize("settings", [{"test_mode": True}, {"dropout_proportion": 0.0}])
def test_identity(settings, ops):
    forward, backward = run(GeneralDropoutComponent(6, **settings), ops, rows(3, 2), normal(6, 6))
    np.testing.assert_array_equal(forward, 1)
    np.testing.assert_array_equal(backward, 1)


def test_everything_is_dropped(ops):
    forward, backward = run(GeneralDropoutComponent(6, dropout_proportion=1.0), ops, rows(3, 2), normal(6, 6))
    np.testing.assert_array_equal(forward, 0)
    np.testing.assert_array_equal(backward, 0)


def test_the_mask_is_allocated_once():
    ops, component = get_ops("cpu"), GeneralDropoutComponent(6)
    indexes = component.precompute_indexes(rows(3, 2), rows(3, 2), True)
    memo, x = component.new_memo(ops, 6), normal(6, 6)
    component.propagate(ops, indexes, x, x, memo)
    mask = memo.matrix
    component.propagate(ops, indexes, x, x, memo)
    assert memo.matrix is mask and mask.shape == (3, 6)


def full():
    return GeneralDropoutComponent(6, 3, 10, 0.25, 0.5, 2, False, True)


@pytest.mark.parametrize("binary", [True, False])
def test_general_dropout_files(binary):
    for component in (full(), GeneralDropoutComponent(6), GeneralDropoutComponent(6, continuous=True),
                      GeneralDropoutComponent(6, specaugment_max_proportion=0.5),
                      GeneralDropoutComponent(6, specaugment_max_proportion=0.5, specaugment_max_regions=40)):
        again = reread(component, binary)
        assert written(again, binary) == written(component, binary) and again.info() == component.info()
        assert again.test_mode == component.test_mode
    assert b"<SpecAugmentMaxRegions> 2 <TestMode> </GeneralDropoutComponent> " in written(full(), False)
    assert full().info() == ("GeneralDropoutComponent, dim=6, block-dim=3, dropout-proportion=0.25, "
                             "specaugment-max-proportion=0.5, specaugment-max-regions=2, time-period=10")


def test_general_dropout_flags():
    assert int(GeneralDropoutComponent(6).properties) == 0x3104
    assert full().has(Properties.INPUT_CONTIGUOUS) and full().has(Properties.OUTPUT_CONTIGUOUS)


@pytest.mark.parametrize("old, new", [
    ("<TimePeriod> 10", "<TimePeriod> -1"), ("<SpecAugmentMaxProportion> 0.5", "<SpecAugmentMaxProportion> 5"),
    ("<SpecAugmentMaxRegions> 2", "<SpecAugmentMaxRegions> 100000000"), ("<BlockDim> 3", "<BlockDim> 4"),
    ("</General", "</Special")])
def test_damaged_files(old, new):
    text = written(full(), False).decode()
    assert old in text
    with pytest.raises(FormatError):
        read_text(GeneralDropoutComponent, text.replace(old, new))


@pytest.mark.parametrize("binary", [True, False])
def test_files_of_precomputed_indexes(binary):
    indexes = GeneralDropoutComponent(6, 3).precompute_indexes(rows(3, 2), rows(3, 2), True)
    stream = io.BytesIO()
    indexes.write(TokenWriter(stream, binary))
    data = (b"\0B" if binary else b"") + stream.getvalue()
    reader = TokenReader(io.BytesIO(data), size=len(data))
    reader.read_header()
    again = GeneralDropoutComponentPrecomputedIndexes.read(reader)
    np.testing.assert_array_equal(again.indexes, indexes.indexes)
    assert again.num_mask_rows == indexes.num_mask_rows
    for text in ("<NumMaskRows> 2 <Indexes> [ 0 2 ] ", "<NumMaskRows> 2 <Indexes> [ -1 ] "):
        with pytest.raises(FormatError, match="between 0 and 1"):
            read_text(GeneralDropoutComponentPrecomputedIndexes, text + "</GeneralDropoutComponentPrecomputedIndexes> ")


def test_general_dropout_config():
    component = from_config(GeneralDropoutComponent, "dim=6 block-dim=3 time-period=10 dropout-proportion=0.25 "
                            "specaugment-max-proportion=0.5 specaugment-max-regions=2 test-mode=true")
    assert written(component, True) == written(full(), True)
    plain = from_config(GeneralDropoutComponent, "dim=6 continuous=true")
    assert plain.info() == "GeneralDropoutComponent, dim=6, block-dim=6, dropout-proportion=0.5, continuous=true"
    for text in ("", "dim=6 block-dim=4", "dim=6 time-period=-1", "dim=6 specaugment-max-proportion=2",
                 "dim=6 specaugment-max-proportion=0.5 continuous=true",
                 "dim=6 specaugment-max-proportion=0.5 specaugment-max-regions=0",
                 "dim=6 specaugment-max-proportion=0.5 specaugment-max-regions=1000000"):
        with pytest.raises(ConfigError, match="Invalid initializer for layer of type GeneralDropoutComponent"):
            from_config(GeneralDropoutComponent, text)
