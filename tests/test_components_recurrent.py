"""LstmNonlinearity: finite differences, statistics, self-repair, update, files and config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import FINITE_DIFFERENCE, in_float64, numeric_gradient, reread, written
from own_ops import reference_ops
from test_components_nonlinear import from_config, normal

from nnet3py.components.recurrent import LstmNonlinearityComponent
from nnet3py.components.updatable import UpdateSettings
from nnet3py.errors import ConfigError, FormatError
from nnet3py.io.tokens import TokenReader
from nnet3py.ops import get_ops

FLOAT32 = 3e-6
CONFIG = np.array([0.05, 0.05, 0.2, 0.05, 0.2] + [0.0] * 5, np.float32)       # without self-repair


@pytest.fixture(params=["reference", "cpu"])
def ops(request):
    return reference_ops() if request.param == "reference" else get_ops("cpu")


def make(cells=4, use_dropout=False, scale=0.0):
    config = CONFIG.copy()
    config[5:] = scale
    return LstmNonlinearityComponent(normal(3, cells), config, use_dropout)


def as_gradient(component):
    gradient = component.copy()
    gradient.set_as_gradient()
    gradient.scale(0.0)
    return gradient


def read_text(text):
    return LstmNonlinearityComponent.read(TokenReader(io.BytesIO(text.encode()), size=len(text)))


@pytest.mark.parametrize("use_dropout", [False, True])
def test_derivatives(use_dropout):
    ops, component = reference_ops(np.float64), in_float64(make(4, use_dropout))
    rng = np.random.default_rng(0)
    x, dy = rng.standard_normal((5, component.input_dim)), rng.standard_normal((5, 8))
    y, dx, update = np.empty((5, 8)), np.zeros_like(x), as_gradient(component)

    def objective():
        component.propagate(ops, None, x, y, None)
        return float((y * dy).sum())

    component.backprop(ops, None, x, None, dy, None, update, dx)
    expected = numeric_gradient(objective, x)
    np.testing.assert_allclose(dx[:, :20], expected[:, :20], rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE)
    assert not dx[:, 20:].any()                   # the masks' columns are not written
    np.testing.assert_allclose(update.params, numeric_gradient(objective, component.params), rtol=FINITE_DIFFERENCE,
                               atol=FINITE_DIFFERENCE)


@pytest.mark.parametrize("use_dropout", [False, True])
@pytest.mark.parametrize("cells", [1, 64, 70])
def test_cpu_against_reference(cells, use_dropout):
    component = make(cells, use_dropout, 1e-3)
    x, dy = normal(7, component.input_dim), normal(7, 2 * cells, seed=1)
    found = []
    for ops in (get_ops("cpu"), reference_ops()):
        y, dx, update = np.empty_like(dy), np.zeros_like(x), as_gradient(component)
        component.propagate(ops, None, x, y, None)
        component.backprop(ops, None, x, None, dy, None, update, dx)
        found.append([y, dx, update.params, update.value_sum, update.deriv_sum, update.self_repair_total, update.count])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_either_half_of_a_backward_pass_alone(ops):
    """In recurrences Kaldi asks for the input derivative first and for the update of all frames at the end."""
    component = make(scale=1e-3)
    x, dy = normal(7, 20), normal(7, 8, seed=1)
    both, dx = as_gradient(component), np.zeros_like(x)
    component.backprop(ops, None, x, None, dy, None, both, dx)
    alone, only = np.zeros_like(x), as_gradient(component)
    component.backprop(ops, None, x, None, dy, None, None, alone)
    before = x.copy()
    component.backprop(ops, None, x, None, dy, None, only, None)
    np.testing.assert_array_equal(alone, dx)
    np.testing.assert_array_equal(only.params, both.params)
    np.testing.assert_array_equal(x, before)
    component.backprop(ops, None, x, None, dy, None, None, None)


def test_statistics_go_to_the_updated_component(ops):
    component = make()
    x, dy, delta = normal(7, 20), normal(7, 8, seed=1), component.copy()
    component.backprop(ops, None, x, None, dy, None, delta, None)
    assert component.count[0] == 0 and delta.count[0] == 7
    g = np.tanh(x[:, 8:12].astype(float))
    np.testing.assert_allclose(delta.value_sum[2], g.sum(axis=0), atol=7 * FLOAT32)
    np.testing.assert_allclose(delta.deriv_sum[2], (1 - g * g).sum(axis=0), atol=7 * FLOAT32)
    # nothing is known yet, so every average derivative is below its threshold
    np.testing.assert_array_equal(delta.self_repair_total, [7 * 4] * 5)


def test_self_repair(ops):
    plain, component = make(), make(scale=1e-2)
    x, dy = normal(7, 20), normal(7, 8, seed=1)
    for c in (plain, component):
        c.count[0] = 9
        c.deriv_sum[:] = 10
        c.deriv_sum[2, 1] = 10 * 0.2 - 0.01          # tanh of c_part in cell 1: just below, with count + 1
        c.deriv_sum[2, 2] = 10 * 0.2 + 0.01
    expected, dx, delta = np.zeros_like(x), np.zeros_like(x), component.copy()
    plain.backprop(ops, None, x, None, dy, None, None, expected)
    component.backprop(ops, None, x, None, dy, None, delta, dx)
    expected[:, 9] -= 1e-2 * np.tanh(x[:, 9])
    np.testing.assert_allclose(dx, expected, atol=FLOAT32)
    assert (delta.self_repair_total - component.self_repair_total).tolist() == [0, 0, 7, 0, 0]


def test_update(ops):
    component = make()
    x, dy = normal(7, 20), normal(7, 8, seed=1)
    gradient, trained = as_gradient(component), component.copy()
    component.backprop(ops, None, x, None, dy, None, gradient, None)
    assert gradient.preconditioner.t == 0
    trained.learning_rate = 0.1
    trained.backprop(ops, None, x, None, dy, None, trained, None)
    change = trained.params - component.params
    assert trained.preconditioner.t == 1 and trained.preconditioner.rank == 3
    # natural gradient turns the gradient, but keeps its length
    np.testing.assert_allclose(np.linalg.norm(change), 0.1 * np.linalg.norm(gradient.params), rtol=1e-4)
    assert (change * gradient.params).sum() > 0
    trained.freeze_natural_gradient(True)
    assert trained.preconditioner.frozen


def with_statistics(**settings):
    component = make(**settings)
    rng = np.random.default_rng(0)
    component.value_sum[:], component.deriv_sum[:] = rng.random((5, 4)), rng.random((5, 4))
    component.self_repair_total[:], component.count[0] = rng.random(5), 2.5
    return component


def test_scaling_adding_and_zeroing():
    component, other = with_statistics(), with_statistics()
    component.scale(0.5)
    component.add(1.0, other)
    for name in ("params", *component.STATISTICS):
        np.testing.assert_allclose(getattr(component, name), 1.5 * getattr(other, name), rtol=1e-6)
    component.zero_stats()
    assert not component.count[0] and not component.value_sum.any() and component.params.any()
    other.params[0, 0] = np.nan
    other.scale(0.0)
    assert not other.params.any() and list(other.parameters()) == ["params"]
    assert other.num_parameters() == 12


@pytest.mark.parametrize("binary", [True, False])
def test_files(binary):
    for component in (make(), with_statistics(use_dropout=True, scale=1e-5)):
        again = reread(component, binary)
        assert written(again, binary) == written(component, binary)
        assert again.use_dropout == component.use_dropout
        np.testing.assert_allclose(again.deriv_sum, component.deriv_sum, rtol=1e-6)


def test_damaged_files():
    text = written(with_statistics(), False).decode()
    rows = text[text.index("<ValueAvg>"):text.index("<DerivAvg>")]
    for old, new, message in ((rows, "<ValueAvg>  [ 1 2 3 4 ]\n", "expected 5 rows of 4"),
                              ("<SelfRepairConfig>  [ 0.05 ", "<SelfRepairConfig>  [ ", "10 elements"),
                              ("<Count>", "<Dim>", "expected <Count>, found '<Dim>'"),
                              ("<LearningRate> 0.001 ", "", "expected <LearningRate>")):
        assert old in text
        with pytest.raises(FormatError, match=message):
            read_text(text.replace(old, new))


def test_information():
    component = with_statistics(use_dropout=True, scale=1e-5)
    info = component.info()
    assert info.startswith("LstmNonlinearityComponent, input-dim=23, output-dim=8, learning-rate=0.001, cell-dim=4, "
                           "use-dropout=true, w_ic-rms=")
    assert ", count=2.5, i_t_sigmoid={ self-repair-lower-threshold=0.05, self-repair-scale=1e-05, " in info
    assert info.endswith(" ] }") and info.count("self-repaired-proportion=") == 5
    assert make().info().endswith("m_t_tanh={ self-repair-lower-threshold=0.2, self-repair-scale=0 }")
    assert int(component.properties) == 0x43


def test_config():
    component = from_config(LstmNonlinearityComponent, "cell-dim=4 param-stddev=0 tanh-self-repair-threshold=0.3 "
                            "sigmoid-self-repair-threshold=0.125 self-repair-scale=0.0625 use-dropout=true "
                            "learning-rate=0.5 learning-rate-factor=0.25 max-change=2 l2-regularize=0.125")
    assert not component.params.any() and component.use_dropout
    np.testing.assert_allclose(component.self_repair_config, [0.125, 0.125, 0.3, 0.125, 0.3] + [0.0625] * 5)
    assert "learning-rate=0.5, l2-regularize=0.125, learning-rate-factor=0.25, max-change=2" in component.info()
    plain = from_config(LstmNonlinearityComponent, "cell-dim=4000")
    assert plain.params.std() == pytest.approx(1, rel=0.02) and not plain.use_dropout      # 12000 draws
    np.testing.assert_allclose(plain.self_repair_config[5:], 1e-5)
    assert UpdateSettings().learning_rate == plain.learning_rate
    for text in ("", "cell-dim=4 param-stddev=-1", "cell-dim=4 self-repair-scale=0.2",
                 "cell-dim=4 tanh-self-repair-threshold=1.5", "cell-dim=4 sigmoid-self-repair-threshold=0.3"):
        with pytest.raises(ConfigError, match="Invalid initializer for layer of type LstmNonlinearityComponent"):
            from_config(LstmNonlinearityComponent, text)
