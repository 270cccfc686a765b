"""GRU nonlinearities: Kaldi's cases, statistics, self-repair, update, files and config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from case_with_stats import CaseWithStats, check_gradient, check_update
from component_cases import CASES, assert_same_info, info_lines, read_components, reread, written
from own_ops import reference_ops
from test_components_nonlinear import Draws, from_config, normal

from nnet3py.components.gru import GruNonlinearityComponent, OutputGruNonlinearityComponent
from nnet3py.components.nonlinear import COUNT, NUM_REPAIRED
from nnet3py.errors import ConfigError, FormatError
from nnet3py.io.tokens import TokenReader
from nnet3py.ops import get_ops

FLOAT32 = 1e-5          # float32 sums of a few terms
KINDS = (GruNonlinearityComponent, OutputGruNonlinearityComponent)
# case -> what Kaldi drew for its gradient: statistics are stored if it is at most 0.5. For the update it stored always.
DRAWN = {"gru-nonlinearity": 0.4, "gru-nonlinearity-full": 0.6, "output-gru-nonlinearity": 0.6}
STORES, SKIPS = [0.4], [0.6]


@pytest.fixture(params=["reference", "cpu"])
def ops(request, monkeypatch):
    ops = reference_ops() if request.param == "reference" else get_ops("cpu")
    monkeypatch.setattr(ops, "random", ops.random)      # tests choose what is drawn
    return ops


def make(kind, text="cell-dim=4"):
    return from_config(kind, text)


def as_gradient(component):
    gradient = component.copy()
    gradient.set_as_gradient()
    gradient.scale(0.0)
    return gradient


def backward(ops, component, uniforms, update, want_dx=True, rows=7):
    """A backward pass on fixed matrices; returns the input, the output and the derivative at the input."""
    x, dy = normal(rows, component.input_dim), normal(rows, component.output_dim, seed=1)
    y, dx = np.empty_like(dy), np.zeros_like(x) if want_dx else None
    ops.random = Draws(uniforms=uniforms)
    component.propagate(ops, None, x, y, None)
    component.backprop(ops, None, x, y, dy, None, update, dx)
    assert not ops.random.uniforms          # one is drawn for each update, and none without
    return x, y, dx


# -- Kaldi's cases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWN)
def test_kaldis_outputs_gradients_and_statistics(name, ops):
    ops.random = Draws(uniforms=[DRAWN[name]])
    check_gradient(CaseWithStats(name, ops))


@pytest.mark.parametrize("name", DRAWN)
def test_kaldis_updates(name, ops):
    ops.random = Draws(uniforms=STORES)
    check_update(CaseWithStats(name, ops))


@pytest.mark.parametrize("name", DRAWN)
def test_kaldis_files_are_written_back_alike(name):
    for path in [*(CASES / name).glob("*.raw"), CASES / name / "nnet.txt"]:
        binary = path.suffix == ".raw"
        for key, (component, data) in read_components(path).items():
            assert written(component, binary) == data, f"{path} {key}"
            assert written(reread(component, binary), binary) == data, f"{path} {key}"


@pytest.mark.parametrize("name", DRAWN)
def test_kaldis_information(name):
    components = read_components(CASES / name / "nnet.raw")
    for key, expected in info_lines(name).items():
        assert_same_info(components[key][0].info(), expected)


# -- computation -------------------------------------------------------------------------------------------------------


def test_flags_and_dimensions():
    for kind in KINDS:
        assert int(make(kind).properties) == 0xE3
    dims = [(c.input_dim, c.output_dim) for c in (
        make(KINDS[0]), make(KINDS[0], "cell-dim=4 recurrent-dim=3"), make(KINDS[1]))]
    assert dims == [(16, 8), (18, 8), (12, 8)]


def test_values(ops):
    component = make(KINDS[0], "cell-dim=3 recurrent-dim=2")
    x, y, _ = backward(ops, component, [], None)
    z, r, hpart, c_prev, s_prev = np.split(x.astype(float), [3, 5, 8, 11], axis=1)
    h = np.tanh(hpart + (r * s_prev) @ component.w_h.T)
    np.testing.assert_allclose(y, np.hstack([h, (1 - z) * h + z * c_prev]), atol=FLOAT32)
    component = make(KINDS[1], "cell-dim=3")
    x, y, _ = backward(ops, component, [], None)
    z, hpart, c_prev = np.split(x.astype(float), 3, axis=1)
    h = np.tanh(hpart + component.w_h * c_prev)
    np.testing.assert_allclose(y, np.hstack([h, (1 - z) * h + z * c_prev]), atol=FLOAT32)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_added(kind, ops):
    component = make(kind)
    x, dy = normal(7, component.input_dim), normal(7, 8, seed=1)
    y, dx, more = np.empty_like(dy), np.zeros_like(x), normal(7, component.input_dim, seed=2)
    before = more.copy()
    component.propagate(ops, None, x, y, None)
    for derivative in (dx, more):
        component.backprop(ops, None, x, y, dy, None, None, derivative)
    np.testing.assert_allclose(more - before, dx, atol=FLOAT32)
    component.backprop(ops, None, x, y, dy, None, None, None)        # asks for nothing


@pytest.mark.parametrize("text", ["cell-dim=4", "cell-dim=4 recurrent-dim=3"])
def test_the_two_halves_of_a_backward_pass(text, ops):
    """In recurrences Kaldi asks for the input derivative first and for the update of all frames at the end."""
    component = make(KINDS[0], text)
    both, only = as_gradient(component), as_gradient(component)
    _, _, dx = backward(ops, component, SKIPS, both)
    _, _, alone = backward(ops, component, [], None)
    backward(ops, component, SKIPS, only, want_dx=False)
    np.testing.assert_array_equal(alone, dx)
    np.testing.assert_array_equal(only.w_h, both.w_h)


# -- statistics and self-repair ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_go_to_the_updated_component(kind, ops):
    component = make(kind)
    delta = component.copy()
    _, y, _ = backward(ops, component, STORES, delta)
    h = y[:, :4].astype(float)
    assert not component.counters.any() and delta.counters[COUNT] == 7
    np.testing.assert_allclose(delta.value_sum, h.sum(axis=0), atol=FLOAT32)
    np.testing.assert_allclose(delta.deriv_sum, (1 - h * h).sum(axis=0), atol=FLOAT32)
    backward(ops, component, SKIPS, delta)
    assert delta.counters[COUNT] == 7


@pytest.mark.parametrize("kind", KINDS)
def test_self_repair_looks_at_the_updated_component(kind, ops):
    """The statistics of this minibatch count, and those of the network that propagates do not."""
    component = make(kind, "cell-dim=4 self-repair-scale=0.25 self-repair-threshold=0.9")
    component.counters[COUNT], component.deriv_sum[...] = 1, 0.0
    update = as_gradient(component)
    update.counters[COUNT] = 1000
    update.deriv_sum[...] = 0.0, 1000.0, 0.0, 1000.0
    plain, without = as_gradient(component), make(kind, "cell-dim=4")
    without.w_h[...] = component.w_h
    x, y, expected = backward(ops, without, SKIPS, plain)
    _, _, dx = backward(ops, component, STORES, update)
    pull = 0.5 * y[:, :4] * [1, 0, 1, 0]                 # twice the scale: half of the passes repair
    place = {16: 8, 12: 4}[component.input_dim]          # of hpart's columns
    np.testing.assert_allclose(expected[:, place:place + 4] - dx[:, place:place + 4], pull, atol=FLOAT32)
    assert update.counters[NUM_REPAIRED] == 2 and update.counters[COUNT] == 1007
    assert np.abs(update.w_h - plain.w_h).max() > 0.01   # the parameters' gradient is repaired too


def test_cells_are_counted_without_a_scale(ops):
    component = make(KINDS[1], "cell-dim=4 self-repair-scale=0 self-repair-threshold=1.5")
    delta = as_gradient(component)
    backward(ops, component, STORES, delta)
    assert delta.counters[NUM_REPAIRED] == 4


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_natural_gradient(kind, ops):
    """The first step of every preconditioner is close to the plain gradient and as large; later ones turn it."""
    component = make(kind, "cell-dim=4 learning-rate=0.5")
    plain, delta = as_gradient(component), component.copy()
    backward(ops, component, SKIPS, plain)
    backward(ops, component, SKIPS, delta)
    step, gradient = (delta.w_h - component.w_h) / 0.5, plain.w_h
    cosine = np.vdot(step, gradient) / np.sqrt(np.vdot(step, step) * np.vdot(gradient, gradient))
    assert 0.5 < cosine < 0.9999
    assert all(not p.frozen for p in delta.preconditioners())
    delta.freeze_natural_gradient(True)
    assert all(p.frozen for p in delta.preconditioners())


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_and_adding(kind, ops):
    component = make(kind)
    backward(ops, component, STORES, component)
    twice = component.copy()
    twice.scale(0.5)
    twice.add(1.5, component)
    for name in ("w_h", "value_sum", "deriv_sum", "counters"):
        np.testing.assert_allclose(getattr(twice, name), 2 * getattr(component, name), rtol=FLOAT32)
    assert component.num_parameters() == component.w_h.size
    component.zero_stats()
    assert component.w_h.any() and not component.counters.any() and not component.deriv_sum.any()


# -- files and config lines --------------------------------------------------------------------------------------------


def trained(kind, text="cell-dim=3"):
    component = make(kind, text)
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


def read_text(kind, text):
    return kind.read(TokenReader(io.BytesIO(text.encode()), size=len(text)))


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
def test_damaged_files(kind, before, after):
    text = written(trained(kind), False).decode()
    assert before in text
    head, _, tail = text.rpartition(before)
    with pytest.raises(FormatError):
        read_text(kind, head + after + tail)


def test_config():
    settings = ("self-repair-threshold=0.5 self-repair-scale=0.125 alpha=2 update-period=3 learning-rate=0.5 "
                "learning-rate-factor=0.25 max-change=2 l2-regularize=0.125")
    info = make(KINDS[0], f"cell-dim=4 recurrent-dim=2 rank-in=5 rank-out=6 param-stddev=0 {settings}").info()
    assert info == ("GruNonlinearityComponent, input-dim=16, output-dim=8, learning-rate=0.5, l2-regularize=0.125, "
                    "learning-rate-factor=0.25, max-change=2, cell-dim=4, recurrent-dim=2, w_h-rms=0, "
                    "self-repair-threshold=0.5, self-repair-scale=0.125, alpha=2, rank-in=5, rank-out=6, "
                    "update-period=3")
    info = make(KINDS[1], f"cell-dim=4 rank=5 param-stddev=0 param-mean=0.5 {settings}").info()
    assert info.endswith("cell-dim=4, w_h-rms=0.5, self-repair-threshold=0.5, self-repair-scale=0.125, alpha=2, "
                         "rank=5, update-period=3")
    assert make(KINDS[0], "cell-dim=4 recurrent-dim=-3").recurrent_dim == 4


def test_spread_of_initial_parameters():
    assert make(KINDS[0], "cell-dim=400 recurrent-dim=25").w_h.std() == pytest.approx(1 / 20, rel=0.03)   # 10^4 draws
    assert make(KINDS[1], "cell-dim=10000 param-mean=2").w_h.std() == pytest.approx(1, rel=0.03)


BAD = ("", "cell-dim=0", "cell-dim=4 self-repair-threshold=-1", "cell-dim=4 self-repair-scale=-1",
       "cell-dim=4 param-stddev=-1", "cell-dim=4 update-period=0", "cell-dim=4 alpha=-1")
BAD_OF = {KINDS[0]: [*BAD, "cell-dim=4 recurrent-dim=0", "cell-dim=4 recurrent-dim=5", "cell-dim=4 rank-in=0"],
          KINDS[1]: [*BAD, "cell-dim=4 rank=0"]}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind in KINDS for text in BAD_OF[kind]])
def test_bad_config_lines(kind, text):
    with pytest.raises(ConfigError, match=f"Invalid initializer for layer of type {kind.__name__}"):
        make(kind, text)
    with pytest.raises(ConfigError, match="rank-inn"):
        make(kind, "cell-dim=4 rank-inn=3")
