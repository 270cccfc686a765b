"""What trainable components share: settings, their file prefix and information, arithmetic on parameters."""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import written

from nnet3py.components.affine import AffineComponent
from nnet3py.components.updatable import UpdateSettings, default_rank_in, default_rank_out
from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader


def component(seed: int = 0, **settings) -> AffineComponent:
    rng = np.random.default_rng(seed)
    return AffineComponent(rng.standard_normal((3, 2), dtype=np.float32), rng.standard_normal(3, dtype=np.float32),
                           settings=UpdateSettings(**settings))


def test_only_settings_off_their_defaults_are_written_and_shown():
    plain = component()
    assert written(plain, False).startswith(b"<AffineComponent> <LearningRate> 0.001 <LinearParams> ")
    assert plain.info().startswith("AffineComponent, input-dim=2, output-dim=3, learning-rate=0.001, linear-params")
    full = component(learning_rate=0.5, learning_rate_factor=0.25, max_change=0.75, l2_regularize=0.01,
                     is_gradient=True)
    assert written(full, False).startswith(
        b"<AffineComponent> <LearningRateFactor> 0.25 <IsGradient> T <MaxChange> 0.75 <L2Regularize> 0.01 "
        b"<LearningRate> 0.5 <LinearParams> ")
    assert ("learning-rate=0.5, is-gradient=true, l2-regularize=0.01, learning-rate-factor=0.25, max-change=0.75, "
            "linear-params-rms") in full.info()


def test_the_opening_tag_may_still_be_there():
    reader = TokenReader(io.BytesIO(written(component(), False)))
    assert AffineComponent.read(reader).output_dim == 3


@pytest.mark.parametrize("text", [b"<MaxChange> 1 <LearningRateFactor> 2 <LearningRate> 1 ", b"<LinearParams> [ ]"])
def test_the_learning_rate_must_follow_in_kaldis_order(text):
    with pytest.raises(FormatError, match="expected <LearningRate>, found '<L"):
        AffineComponent.read(TokenReader(io.BytesIO(text)))


def test_learning_rates():
    c = component(learning_rate_factor=0.5)
    c.set_underlying_learning_rate(0.2)
    assert c.learning_rate == pytest.approx(0.1)
    c.set_as_gradient()
    assert (c.learning_rate, c.is_gradient) == (1.0, True)
    other = component()
    other.copy_settings(c)
    assert (other.learning_rate, other.learning_rate_factor, other.is_gradient) == (1.0, 0.5, True)


def test_scale_add_and_dot_product():
    a, b = component(1), component(2)
    expected = a.vectorize() + np.float32(-0.5) * b.vectorize()
    assert a.dot_product(b) == pytest.approx(float(a.vectorize().astype(np.float64) @ b.vectorize()))
    a.add(-0.5, b)
    np.testing.assert_array_equal(a.vectorize(), expected)
    a.linear_params[0, 0] = np.nan
    a.scale(0.0)
    assert not a.vectorize().any()


def test_vectors_are_matrix_by_rows_then_bias():
    c = component()
    np.testing.assert_array_equal(c.vectorize(), [*c.linear_params.ravel(), *c.bias_params])
    assert c.num_parameters() == c.vectorize().size == 9
    vector = np.arange(9, dtype=np.float32)
    c.unvectorize(vector)
    np.testing.assert_array_equal(c.linear_params, [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(c.vectorize(), vector)


def test_perturbation_has_the_size_asked_for():
    rng = np.random.default_rng(3)
    c = AffineComponent(np.zeros((100, 50), dtype=np.float32), np.zeros(100, dtype=np.float32))
    c.perturb(0.1, rng)
    assert c.vectorize().std() == pytest.approx(0.1, rel=0.05)   # 5100 draws
    assert c.bias_params.any()


def test_default_ranks_are_half_the_dimension_rounded_up():
    assert [default_rank_in(dim) for dim in (1, 2, 5, 39, 500)] == [1, 1, 3, 20, 20]
    assert [default_rank_out(dim) for dim in (1, 2, 5, 159, 500)] == [1, 1, 3, 80, 80]
