"""LstmNonlinearity: statistics, self-repair, update, files and config lines."""
from __future__ import annotations

import numpy as np
import pytest
from component_cases import Draws, from_config, normal, read_text, reread, written
from component_forms import as_gradient
from numpy_ops import NumpyOps

from nnet3py.components.nonlinear import COUNT, NUM_REPAIRED
from nnet3py.components.recurrent import (
    GruNonlinearityComponent,
    LstmNonlinearityComponent,
    OutputGruNonlinearityComponent,
)
from nnet3py.components.updatable import UpdateSettings
from nnet3py.errors import FormatError
from nnet3py.ops import get_ops

FLOAT32 = 3e-6
CONFIG = np.array([0.05, 0.05, 0.2, 0.05, 0.2] + [0.0] * 5, np.float32)       # without self-repair


def make(cells=4, use_dropout=False, scale=0.0):
    config = CONFIG.copy()
    config[5:] = scale
    return LstmNonlinearityComponent(normal(3, cells), config, use_dropout)


@pytest.mark.parametrize("use_dropout", [False, True])
@pytest.mark.parametrize("cells", [1, 64, 70])
def test_cpu_against_reference(cells, use_dropout):
    component = make(cells, use_dropout, 1e-3)
    x, dy = normal(7, component.input_dim), normal(7, 2 * cells, seed=1)
    found = []
    for ops in (get_ops("cpu"), NumpyOps()):
        y, dx, update = np.empty_like(dy), np.zeros_like(x), as_gradient(component)
        component.propagate(ops, None, x, y, None)
        component.backprop(ops, None, x, None, dy, None, update, dx)
        found.append([y, dx, update.params, update.value_sum, update.deriv_sum, update.self_repair_total, update.count])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


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


def test_damaged_files():
    text = written(with_statistics(), False).decode()
    rows = text[text.index("<ValueAvg>"):text.index("<DerivAvg>")]
    for old, new, message in ((rows, "<ValueAvg>  [ 1 2 3 4 ]\n", "expected 5 rows of 4"),
                              ("<SelfRepairConfig>  [ 0.05 ", "<SelfRepairConfig>  [ ", "10 elements"),
                              ("<Count>", "<Dim>", "expected <Count>, found '<Dim>'"),
                              ("<LearningRate> 0.001 ", "", "expected <LearningRate>")):
        assert old in text
        with pytest.raises(FormatError, match=message):
            read_text(LstmNonlinearityComponent, text.replace(old, new))


def test_information():
    component = with_statistics(use_dropout=True, scale=1e-5)
    info = component.info()
    assert info.startswith("LstmNonlinearityComponent, input-dim=23, output-dim=8, learning-rate=0.001, cell-dim=4, "
                           "use-dropout=true, w_ic-rms=")
    assert ", count=2.5, i_t_sigmoid={ self-repair-lower-threshold=0.05, self-repair-scale=1e-05, " in info
    assert info.endswith(" ] }") and info.count("self-repaired-proportion=") == 5
    assert make().info().endswith("m_t_tanh={ self-repair-lower-threshold=0.2, self-repair-scale=0 }")


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


GRU_FLOAT32 = 1e-5          # float32 sums of a few terms
KINDS = (GruNonlinearityComponent, OutputGruNonlinearityComponent)
STORES, SKIPS = [0.4], [0.6]


def gru_make(kind, text="cell-dim=4"):
    return from_config(kind, text)


def backward(ops, component, uniforms, update, want_dx=True, rows=7):
    """A backward pass on fixed matrices; returns the input, the output and the derivative at the input."""
    x, dy = normal(rows, component.input_dim), normal(rows, component.output_dim, seed=1)
    y, dx = np.empty_like(dy), np.zeros_like(x) if want_dx else None
    ops.random = Draws(uniforms=uniforms)
    component.propagate(ops, None, x, y, None)
    component.backprop(ops, None, x, y, dy, None, update, dx)
    assert not ops.random.uniforms          # one is drawn for each update, and none without
    return x, y, dx


def test_dimensions():
    dims = [(c.input_dim, c.output_dim) for c in (
        gru_make(KINDS[0]), gru_make(KINDS[0], "cell-dim=4 recurrent-dim=3"), gru_make(KINDS[1]))]
    assert dims == [(16, 8), (18, 8), (12, 8)]


def test_values(ops):
    component = gru_make(KINDS[0], "cell-dim=3 recurrent-dim=2")
    x, y, _ = backward(ops, component, [], None)
    z, r, hpart, c_prev, s_prev = np.split(x.astype(float), [3, 5, 8, 11], axis=1)
    h = np.tanh(hpart + (r * s_prev) @ component.w_h.T)
    np.testing.assert_allclose(y, np.hstack([h, (1 - z) * h + z * c_prev]), atol=GRU_FLOAT32)
    component = gru_make(KINDS[1], "cell-dim=3")
    x, y, _ = backward(ops, component, [], None)
    z, hpart, c_prev = np.split(x.astype(float), 3, axis=1)
    h = np.tanh(hpart + component.w_h * c_prev)
    np.testing.assert_allclose(y, np.hstack([h, (1 - z) * h + z * c_prev]), atol=GRU_FLOAT32)


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_go_to_the_updated_component_of_gru(kind, ops):
    component = gru_make(kind)
    delta = component.copy()
    _, y, _ = backward(ops, component, STORES, delta)
    h = y[:, :4].astype(float)
    assert not component.counters.any() and delta.counters[COUNT] == 7
    np.testing.assert_allclose(delta.value_sum, h.sum(axis=0), atol=GRU_FLOAT32)
    np.testing.assert_allclose(delta.deriv_sum, (1 - h * h).sum(axis=0), atol=GRU_FLOAT32)
    backward(ops, component, SKIPS, delta)
    assert delta.counters[COUNT] == 7


@pytest.mark.parametrize("kind", KINDS)
def test_self_repair_looks_at_the_updated_component(kind, ops):
    """The statistics of this minibatch count, and those of the network that propagates do not."""
    component = gru_make(kind, "cell-dim=4 self-repair-scale=0.25 self-repair-threshold=0.9")
    component.counters[COUNT], component.deriv_sum[...] = 1, 0.0
    update = as_gradient(component)
    update.counters[COUNT] = 1000
    update.deriv_sum[...] = 0.0, 1000.0, 0.0, 1000.0
    plain, without = as_gradient(component), gru_make(kind, "cell-dim=4")
    without.w_h[...] = component.w_h
    x, y, expected = backward(ops, without, SKIPS, plain)
    _, _, dx = backward(ops, component, STORES, update)
    pull = 0.5 * y[:, :4] * [1, 0, 1, 0]                 # twice the scale: half of the passes repair
    place = {16: 8, 12: 4}[component.input_dim]          # of hpart's columns
    np.testing.assert_allclose(expected[:, place:place + 4] - dx[:, place:place + 4], pull, atol=GRU_FLOAT32)
    assert update.counters[NUM_REPAIRED] == 2 and update.counters[COUNT] == 1007
    assert np.abs(update.w_h - plain.w_h).max() > 0.01   # the parameters' gradient is repaired too


def test_cells_are_counted_without_a_scale(ops):
    component = gru_make(KINDS[1], "cell-dim=4 self-repair-scale=0 self-repair-threshold=1.5")
    delta = as_gradient(component)
    backward(ops, component, STORES, delta)
    assert delta.counters[NUM_REPAIRED] == 4


@pytest.mark.parametrize("kind", KINDS)
def test_natural_gradient(kind, ops):
    """The first step of every preconditioner is close to the plain gradient and as large; later ones turn it."""
    component = gru_make(kind, "cell-dim=4 learning-rate=0.5")
    plain, delta = as_gradient(component), component.copy()
    backward(ops, component, SKIPS, plain)
    backward(ops, component, SKIPS, delta)
    step, gradient = (delta.w_h - component.w_h) / 0.5, plain.w_h
    cosine = np.vdot(step, gradient) / np.sqrt(np.vdot(step, step) * np.vdot(gradient, gradient))
    assert 0.5 < cosine < 0.9999
    assert all(not p.frozen for p in delta.preconditioners())
    delta.freeze_natural_gradient(True)
    assert all(p.frozen for p in delta.preconditioners())


def trained(kind, text="cell-dim=3"):
    component = gru_make(kind, text)
    component.value_sum[...], component.deriv_sum[...] = [1.5, -2.0, 0.5], [0.25, 1.0, 2.0]
    component.counters[COUNT], component.counters[NUM_REPAIRED] = 4, 5
    return component


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_in_files(kind):
    component = trained(kind)
    text = written(component, False).decode()
    assert "<ValueAvg>  [ 0.375 -0.5 0.125 ]" in text and "<SelfRepairTotal> 5 <Count> 4 " in text
    again = reread(component)
    np.testing.assert_array_equal(again.value_sum, component.value_sum)
    np.testing.assert_array_equal(again.counters, component.counters)
    assert ", count=4, self-repaired-proportion=0.416667, value-avg=[ 0.38 -0.50 0.12 ], deriv-avg=[" in again.info()


DAMAGE = [("<CellDim> 3", "<CellDim> 4"), ("<CellDim> 3", "<CellDim> 0"), ("<CellDim> 3", "<CellDim> 99999999"),
          ("<w_h>", "<w_hh>"), ("<LearningRate>", "<LearningRat>"), ("<ValueAvg>  [ 0.375", "<ValueAvg>  ["),
          ("<DerivAvg>  [", "<DerivAvg>  [ 1 1"), ("<SelfRepairTotal> 5", "<SelfRepairTotal>"),
          ("<Count> 4", "<Count> four"), ("<UpdatePeriod> ", "<UpdatePeriod> -"), ("<Alpha> ", "<Alpha> -"),
          ("<SelfRepairScale>", "<Scale>"), ("NonlinearityComponent> ", "Component> ")]
DAMAGE_OF = {
    KINDS[0]: [*DAMAGE, ("<RecurrentDim> 3", "<RecurrentDim> 2"), ("<RecurrentDim> 3", "<RecurrentDim> -1"),
               ("<RankInOut> 20", "<RankInOut> 0"), ("<RankInOut> 20", "<RankInOut> twenty"), ("<RankInOut>", "<Rank>"),
               ("<CellDim> 3 <RecurrentDim> 3 <w_h>", "<CellDim> 1 <RecurrentDim> 3 <w_h>  [ 1 2 3 ]")],
    KINDS[1]: [*DAMAGE, ("<Rank> 8", "<Rank> 0"), ("<Rank>", "<RankInOut>")],
}


@pytest.mark.parametrize(("kind", "before", "after"), [(kind, *pair) for kind in KINDS for pair in DAMAGE_OF[kind]])
def test_damaged_files_of_gru(kind, before, after):
    text = written(trained(kind), False).decode()
    assert before in text
    head, _, tail = text.rpartition(before)
    with pytest.raises(FormatError):
        read_text(kind, head + after + tail)


def test_config_of_gru():
    settings = ("self-repair-threshold=0.5 self-repair-scale=0.125 alpha=2 update-period=3 learning-rate=0.5 "
                "learning-rate-factor=0.25 max-change=2 l2-regularize=0.125")
    info = gru_make(KINDS[0], f"cell-dim=4 recurrent-dim=2 rank-in=5 rank-out=6 param-stddev=0 {settings}").info()
    assert info == ("GruNonlinearityComponent, input-dim=16, output-dim=8, learning-rate=0.5, l2-regularize=0.125, "
                    "learning-rate-factor=0.25, max-change=2, cell-dim=4, recurrent-dim=2, w_h-rms=0, "
                    "self-repair-threshold=0.5, self-repair-scale=0.125, alpha=2, rank-in=5, rank-out=6, "
                    "update-period=3")
    info = gru_make(KINDS[1], f"cell-dim=4 rank=5 param-stddev=0 param-mean=0.5 {settings}").info()
    assert info.endswith("cell-dim=4, w_h-rms=0.5, self-repair-threshold=0.5, self-repair-scale=0.125, alpha=2, "
                         "rank=5, update-period=3")
    assert gru_make(KINDS[0], "cell-dim=4 recurrent-dim=-3").recurrent_dim == 4


def test_spread_of_initial_parameters():
    assert gru_make(KINDS[0], "cell-dim=400 recurrent-dim=25").w_h.std() == pytest.approx(1 / 20, rel=0.03)
    assert gru_make(KINDS[1], "cell-dim=10000 param-mean=2").w_h.std() == pytest.approx(1, rel=0.03)


