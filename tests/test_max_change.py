"""nnet3py/training/max_change.py against the rule written out for one vector per component."""
from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_cases import parameters

from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime.parameter_store import on_device
from nnet3py.training.max_change import MaxChangeStats, update_with_max_change

ROUNDING = 1e-5       # of a norm or of a change: float32 parameters

CONFIG = """
input-node name=input dim=2
component name=a type=AffineComponent input-dim=2 output-dim=3 max-change={0}
component name=t type=TanhComponent dim=3
component name=b type=LinearComponent input-dim=3 output-dim=2 max-change={1} use-natural-gradient=false
component name=c type=PerElementScaleComponent dim=2 max-change={2}
component-node name=a component=a input=input
component-node name=t component=t input=a
component-node name=b component=b input=t
component-node name=c component=c input=b
output-node name=output input=c
"""


def networks(limits: tuple[float, float, float] = (0.0, 0.0, 0.0), sizes=(1.0, 1.0, 1.0)) -> tuple[Nnet, Nnet]:
    """A network, and a change of it of which each component has a given norm."""
    nnet = Nnet.from_config(CONFIG.format(*limits), seed=1)
    delta, rng = nnet.copy(), np.random.default_rng(0)
    for name, size in zip("abc", sizes, strict=True):
        values = delta.component(name).parameters().values()
        for value in values:
            value[...] = rng.standard_normal(value.shape)
        norm = math.sqrt(sum(float(np.vdot(value, value)) for value in values))
        for value in values:
            value *= size / norm
    return nnet, delta


def update(nnet: Nnet, delta: Nnet, max_param_change: float, max_change_scale: float, scale: float,
           stats: MaxChangeStats, of_components: bool = True, momentum: float = 1.0) -> bool:
    """Change a network on the CPU; whether the change was applied."""
    ops = get_ops("cpu")
    return update_with_max_change(on_device(nnet, ops), on_device(delta, ops), max_param_change, max_change_scale,
                                  scale, momentum, stats, of_components)()


def expected_change(delta: Nnet, limits, global_limit: float, max_change_scale: float, scale: float) -> dict:
    """The rule of Kaldi, a component at a time, in double precision."""
    squares = {name: sum(float(np.vdot(v.astype(float), v)) for v in delta.component(name).parameters().values())
               for name in "abc"}
    factors = {}
    for name, limit in zip("abc", limits, strict=True):
        size = math.sqrt(squares[name]) * abs(scale)
        factors[name] = limit * max_change_scale / size if limit and size > limit * max_change_scale else 1.0
    total = abs(scale) * math.sqrt(sum(factors[n] ** 2 * squares[n] for n in "abc"))
    overall = 1.0
    if global_limit and total > global_limit * max_change_scale:
        overall = global_limit * max_change_scale / total
    return {f"{name}.{key}": scale * factors[name] * overall * value.astype(float)
            for name in "abc" for key, value in delta.component(name).parameters().items()}


def size_of_change(nnet: Nnet, before: dict) -> float:
    """The norm of what the parameters have changed by."""
    return math.sqrt(sum(float(((parameters(nnet)[k] - v).astype(float) ** 2).sum()) for k, v in before.items()))


sizes = st.tuples(*[st.floats(0.01, 10.0)] * 3)


@settings(max_examples=60)
@given(st.tuples(*[st.sampled_from([0.0, 0.5, 2.0])] * 3), sizes, st.sampled_from([0.0, 0.3, 2.0, 100.0]),
       st.sampled_from([1.0, 0.3, 1.3]), st.sampled_from([1.0, 0.1, -0.3, 1.3]))
def test_against_the_rule(limits, norms, global_limit, max_change_scale, scale):
    nnet, delta = networks(limits, norms)
    before, change = parameters(nnet), parameters(delta)
    assert update(nnet, delta, global_limit, max_change_scale, scale, MaxChangeStats())
    for name, wanted in expected_change(delta, limits, global_limit, max_change_scale, scale).items():
        np.testing.assert_allclose(parameters(nnet)[name] - before[name].astype(float), wanted,
                                   atol=ROUNDING * max(np.abs(wanted).max(), 1.0))
    for name, value in parameters(delta).items():
        np.testing.assert_array_equal(value, change[name])


def test_momentum_is_what_remains_of_a_change_of_trained_components():
    nnet, delta = networks()
    change = parameters(delta)
    assert update(nnet, delta, 0.0, 1.0, 1.0, MaxChangeStats(), momentum=0.25)
    for name, value in parameters(delta).items():
        np.testing.assert_array_equal(value, change[name] * np.float32(0.25))


def test_lines_and_counts(caplog):
    caplog.set_level(logging.INFO)
    stats = MaxChangeStats()
    nnet, delta = networks((0.5, 1.0, 3.0), (1.0, 4.0, 2.0))
    update(nnet, delta, 0.0, 1.0, 1.0, stats)
    assert caplog.messages == ["Per-component max-change active on 2 / 3 Updatable Components. "
                               "(Smallest factor=0.25 on b with max-change=1). "]
    caplog.clear()
    update(nnet, delta, 1.0, 1.0, 0.25, stats)       # norms 0.25, 1, 0.5
    total = math.sqrt(0.25 ** 2 + 1.0 + 0.5 ** 2)
    assert caplog.messages == [f"Global max-change factor was {1 / total:.6g} with max-change=1."]
    caplog.clear()
    update(nnet, delta, 1.5, 1.0, 1.0, stats)        # cut to 0.5, 1, 2
    total = math.sqrt(0.5 ** 2 + 1.0 + 2.0 ** 2)
    assert caplog.messages == [
        "Per-component max-change active on 2 / 3 Updatable Components. (Smallest factor=0.25 on b with max-change=1). "
        f"Global max-change factor was {1.5 / total:.6g} with max-change=1.5."]
    caplog.clear()
    update(nnet, delta, 100.0, 1.0, 0.01, stats)
    assert caplog.messages == []
    assert stats.lines(nnet.component_names) == [
        "For a, per-component max-change was enforced 50 % of the time.",
        "For b, per-component max-change was enforced 50 % of the time.",
        "The global max-change was enforced 50 % of the time."]


def test_lines_name_the_component_s_own_limit(caplog):
    """Not the limit times backstitch's factor."""
    caplog.set_level(logging.INFO)
    nnet, delta = networks((0.5, 0.0, 0.0), (2.0, 0.0, 0.0))
    update(nnet, delta, 0.0, 0.5, 1.0, MaxChangeStats())
    assert len(caplog.messages) == 1 and "(Smallest factor=0.125 on a with max-change=0.5). " in caplog.messages[0]


def test_lines_where_only_the_whole_is_limited(caplog):
    """Kaldi's programs of discriminative training know no limits of components."""
    caplog.set_level(logging.INFO)
    stats = MaxChangeStats()
    for limit in (5.0, 2.0):
        nnet, delta = networks((0.5, 0.5, 0.5), (1.0, 2.0, 2.0))        # of norm 3
        before = parameters(nnet)
        assert update(nnet, delta, limit, 1.0, 1.0, stats, of_components=False)
        assert size_of_change(nnet, before) == pytest.approx(min(limit, 3.0), rel=ROUNDING)
    assert caplog.messages == ["Parameter change too big: 3 > --max-param-change=2, scaling by 0.666667"]
    assert (stats.num_minibatches, stats.num_global, stats.num_per_component) == (2, 1, {})


def test_no_line_before_anything_happened():
    assert MaxChangeStats().lines(["a"]) == []


@pytest.mark.parametrize("value", [np.inf, -np.inf, 3e38])
def test_infinite_change_is_refused(value, caplog):
    nnet, delta = networks()
    delta.component("b").parameters()["params"][0, 0] = value
    before, stats = parameters(nnet), MaxChangeStats()
    with np.errstate(over="ignore"):
        applied = update(nnet, delta, 2.0, 1.0, 1.0, stats)
    if math.isfinite(value) and applied:      # the square may be summed in double precision
        assert size_of_change(nnet, before) == pytest.approx(2.0, rel=1e-4)
        return
    assert not applied and "Infinite parameter change, will not apply." in caplog.messages
    assert not delta.component("b").parameters()["params"].any(), "nothing of it remains as momentum"
    for name, old in before.items():
        np.testing.assert_array_equal(parameters(nnet)[name], old)
    assert stats.num_minibatches == 1 and stats.num_global == 0


def test_nothing_to_train():
    nnet = Nnet.from_config("input-node name=input dim=2\ncomponent name=t type=TanhComponent dim=2\n"
                            "component-node name=t component=t input=input\noutput-node name=output input=t\n")
    stats = MaxChangeStats()
    assert update(nnet, nnet.copy(), 2.0, 1.0, 1.0, stats)
    assert stats == MaxChangeStats(1, 0, {})
