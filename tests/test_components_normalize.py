"""Normalize and BatchNorm: in place, test mode, statistics, files and config lines."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from component_cases import from_config, normal, read_text, reread, written

from nnet3py.components.base import Properties
from nnet3py.components.normalize import BatchNormComponent, NormalizeComponent
from nnet3py.errors import ConfigError, FormatError, Nnet3Error

FLOAT32 = 2e-6


def test_normalize_dimensions():
    shapes = [(6, 6, False), (6, 3, False), (6, 6, True), (6, 2, True)]
    assert [NormalizeComponent(*shape[:2], 1.0, shape[2]).output_dim for shape in shapes] == [6, 6, 7, 9]


@pytest.mark.parametrize("block_dim", [6, 3])
def test_normalize_gives_the_target_rms(block_dim, ops):
    y = normal(5, 6)
    NormalizeComponent(6, block_dim, 0.5).propagate(ops, None, y, y, None)
    np.testing.assert_allclose(np.sqrt((y.reshape(-1, block_dim) ** 2).mean(axis=1)), 0.5, rtol=FLOAT32)


def test_normalize_appends_the_logarithm_of_the_rms(ops):
    component, x = NormalizeComponent(6, 3, 0.5, True), normal(5, 6)
    y = np.empty((5, 8), np.float32)
    component.propagate(ops, None, x, y, None)
    rms = np.sqrt((x.reshape(5, 2, 3) ** 2).mean(axis=2))
    np.testing.assert_allclose(y.reshape(5, 2, 4)[:, :, 3], np.log(rms), atol=FLOAT32)


def test_normalize_config():
    component = from_config(NormalizeComponent, "input-dim=6 block-dim=3 target-rms=0.5 add-log-stddev=true")
    assert component.info() == ("NormalizeComponent, input-dim=6, output-dim=8, target-rms=0.5, add-log-stddev=true, "
                                "block-dim=3")
    assert from_config(NormalizeComponent, "dim=6").target_rms == 1.0
    with pytest.raises(ConfigError, match="Unused values 'input-dim=6'"):
        from_config(NormalizeComponent, "dim=6 input-dim=6")


def test_batch_norm_gives_zero_mean_and_the_target_deviation(ops):
    component, x = BatchNormComponent(4, None, 1e-7, 0.7), 3 * normal(50, 4) + 1
    y, memo = np.empty_like(x), component.new_memo(ops, 50)
    component.propagate(ops, None, x, y, memo)
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(axis=0), 0.7, rtol=1e-5)


def test_batch_norm_stores_statistics_of_every_call(ops):
    component, x = BatchNormComponent(6, 3), normal(5, 6)
    memo, y = component.new_memo(ops, 5), np.empty((5, 6), np.float32)
    for _ in range(2):
        component.propagate(ops, None, x, y, memo)
        component.store_stats(ops, None, y, memo)
    blocks = x.reshape(-1, 3).astype(float)
    assert component.count[0] == 20
    np.testing.assert_allclose(component.sum, 2 * blocks.sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(component.sumsq, 2 * (blocks ** 2).sum(axis=0), rtol=1e-5)


def with_statistics(dim=4, block_dim=None):
    component = BatchNormComponent(dim, block_dim, 0.01, 0.7)
    component.count[0] = 10.0
    component.sum[:] = np.arange(1, component.block_dim + 1)
    component.sumsq[:] = 30.0
    return component


@pytest.mark.parametrize("block_dim", [4, 2])
def test_batch_norm_in_test_mode(block_dim, ops):
    component, x = with_statistics(4, block_dim), normal(5, 4)
    component.set_test_mode(True)
    y, dx = x.copy(), np.empty((5, 4), np.float32)
    component.propagate(ops, None, y, y, component.new_memo(ops, 5))
    mean = component.sum / 10
    scale = 0.7 / np.sqrt(3 - mean ** 2 + 0.01)
    tile = 4 // block_dim
    np.testing.assert_allclose(y, (x - np.tile(mean, tile)) * np.tile(scale, tile), atol=FLOAT32)
    component.backprop(ops, None, None, y, x, None, None, dx)
    np.testing.assert_allclose(dx, x * np.tile(scale, tile), atol=FLOAT32)


def test_batch_norm_flags_follow_the_mode():
    component = with_statistics()
    assert int(component.properties) == 0x1385
    component.set_test_mode(True)
    assert int(component.properties) == 0x185
    component.set_test_mode(False)
    assert component.test_scale is None and component.has(Properties.USES_MEMO)


def test_batch_norm_without_statistics(ops, caplog):
    component = BatchNormComponent(4)
    component.test_mode = True
    with pytest.raises(Nnet3Error, match="Test mode set in BatchNormComponent, but no stats."):
        component.propagate(ops, None, normal(2, 4), normal(2, 4), None)
    with caplog.at_level(logging.WARNING):
        component.set_test_mode(True, np.random.default_rng(1))
    assert "Creating random counts" in caplog.text
    assert component.count[0] == 1.0 and np.isfinite(component.test_scale).all() and component.sum.any()


def test_batch_norm_scaling_adding_and_zeroing():
    component, other = with_statistics(), with_statistics()
    component.set_test_mode(True)
    before = component.test_scale.copy()
    component.scale(0.5)
    np.testing.assert_array_equal(component.test_scale, before)     # not refreshed, as in Kaldi
    assert component.count[0] == 5.0
    component.add(2.0, other)
    assert component.count[0] == 25.0
    np.testing.assert_allclose(component.test_scale, before, rtol=FLOAT32)
    component.zero_stats()
    assert component.count[0] == 25.0               # ignored in test mode
    component.set_test_mode(False)
    component.zero_stats()
    assert component.count[0] == 0.0
    other.sum[0] = np.nan
    other.scale(0.0)
    assert not other.sum.any()


@pytest.mark.parametrize("binary", [True, False])
def test_batch_norm_files(binary):
    component = with_statistics()
    assert written(reread(component, binary), binary) == written(component, binary)
    component.set_test_mode(True)
    again = reread(component, binary)
    assert again.test_mode
    np.testing.assert_allclose(again.test_offset, component.test_offset, rtol=FLOAT32)
    assert again.info() == component.info() == (
        "BatchNormComponent, dim=4, block-dim=4, epsilon=0.01, target-rms=0.7, count=10, test-mode=true, "
        "data-mean=[ 0.10 0.20 0.30 0.40 ], data-stddev=[ 1.7 1.7 1.7 1.7 ]")
    fresh = BatchNormComponent(4, 2)
    assert written(reread(fresh, binary), binary) == written(fresh, binary)


def test_a_large_mean_survives_a_round_trip():
    component = with_statistics()
    component.sum[:], component.sumsq[:] = 1e4, 1e7 + 0.1
    for _ in range(3):
        again = reread(component)
        assert written(again, True) == written(component, True)
        component = again


def test_damaged_batch_norm_files():
    text = written(with_statistics(), False).decode()
    for old, new, message in (("<StatsMean>  [ 0.1 ", "<StatsMean>  [ ", "expected 4 elements"),
                              ("<BlockDim> 4", "<BlockDim> 3", "divides the dimension")):
        assert old in text
        with pytest.raises(FormatError, match=message):
            read_text(BatchNormComponent, text.replace(old, new))


def test_batch_norm_config():
    component = from_config(BatchNormComponent, "dim=6 block-dim=3 epsilon=0.5 target-rms=2 test-mode=true")
    assert (component.block_dim, component.epsilon, component.target_rms, component.test_mode) == (3, 0.5, 2.0, True)
    plain = from_config(BatchNormComponent, "dim=6")
    assert plain.info() == ("BatchNormComponent, dim=6, block-dim=6, epsilon=0.001, target-rms=1, count=0, "
                            "test-mode=false")
    with pytest.raises(ConfigError, match="BatchNormComponent must have 'dim' specified, and > 0"):
        from_config(BatchNormComponent, "block-dim=3")


def test_a_negative_variance_counts_as_none(ops):
    """As float32 differences may give it: in test mode of statistics, in training of columns that do not vary."""
    component = with_statistics()
    component.sumsq[:] = 0.0
    component.set_test_mode(True)
    np.testing.assert_allclose(component.test_scale, np.full(4, 0.7 / np.sqrt(0.01)), rtol=1e-6)
    x = np.repeat(1000 + 0.1 * np.arange(40, dtype=np.float32)[None], 30, axis=0)
    component, y = BatchNormComponent(40, None, 1e-3, 1.0), np.empty_like(x)
    component.propagate(ops, None, x, y, component.new_memo(ops, 30))
    assert np.isfinite(y).all()
