"""Affine and linear components: against Kaldi's cases, finite differences, file forms and config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import (
    CASES,
    TRAINED_CASES,
    DrivenCase,
    assert_same_info,
    check_derivatives,
    in_float64,
    info_lines,
    read_components,
    reread,
    written,
)
from numpy_ops import NumpyOps

from nnet3py.components.affine import (
    AffineComponent,
    FixedAffineComponent,
    LinearComponent,
    NaturalGradientAffineComponent,
)
from nnet3py.components.base import Properties
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import UpdateSettings
from nnet3py.config_line import ConfigLine
from nnet3py.errors import ConfigError, FormatError
from nnet3py.io.tokens import TokenReader

OUTPUT = 2e-6       # float32 sums of about 20 terms in another order, of the largest absolute value
GRADIENT = 2e-6
UPDATE = 3e-4       # of the change
ROUNDING = 3e-7     # of the parameter: Kaldi adds a derivative to it row by row, and rounds it by 6e-8 each time


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def make(kind: str, **settings):
    preconditioners = OnlineNaturalGradient(3, 4), OnlineNaturalGradient(2, 4)
    made = {"affine": lambda: AffineComponent(normal(3, 4), normal(3)),
            "ng-affine": lambda: NaturalGradientAffineComponent(normal(3, 4), normal(3), *preconditioners, -1.0),
            "linear": lambda: LinearComponent(normal(3, 4), *preconditioners, 0.5, False),
            "fixed": lambda: FixedAffineComponent(normal(3, 4), normal(3))}[kind]()
    return made


KINDS = ("affine", "ng-affine", "linear", "fixed")


# -- Kaldi's cases (they cover the components of elementwise.py and tdnn.py too) -------------------------------------


@pytest.fixture(params=["numpy", "cpu"])
def ops(request):
    if request.param == "numpy":
        return NumpyOps()
    from nnet3py.ops import get_ops
    return get_ops("cpu")


@pytest.mark.parametrize("name", TRAINED_CASES)
def test_kaldis_outputs_and_gradients(name, ops):
    case = DrivenCase(name, ops)
    expected = case.io["output.output"]
    np.testing.assert_allclose(case.propagate(), expected, rtol=0, atol=OUTPUT * np.abs(expected).max())
    gradient = {key: component.copy() for key, component in case.nnet.items()}
    for component in gradient.values():
        component.set_as_gradient()
        component.scale(0.0)
    case.backprop(gradient)
    for key, parameters in case.expected("gradient.raw").items():
        assert gradient[key].parameters().keys() == parameters.keys()
        for name_, want in parameters.items():
            np.testing.assert_allclose(gradient[key].parameters()[name_], want, rtol=0,
                                       atol=GRADIENT * np.abs(want).max(), err_msg=f"{key}.{name_}")


@pytest.mark.parametrize("name", TRAINED_CASES)
def test_kaldis_updates_with_natural_gradient(name, ops):
    case = DrivenCase(name, ops)
    before = case.expected("nnet.raw")
    case.propagate()
    case.backprop(case.nnet)
    for key, parameters in case.expected("updated.raw").items():
        for name_, want in parameters.items():
            change = np.abs(want - before[key][name_]).max()
            np.testing.assert_allclose(case.nnet[key].parameters()[name_], want, rtol=ROUNDING, atol=UPDATE * change,
                                       err_msg=f"{key}.{name_}")


@pytest.mark.parametrize("name", TRAINED_CASES)
def test_kaldis_files_are_written_back_alike(name):
    for binary in (True, False):
        for key, (component, data) in read_components(CASES / name / f"nnet.{'raw' if binary else 'txt'}").items():
            assert written(component, binary) == data, key
            assert written(reread(component, binary), binary) == data, key


@pytest.mark.parametrize("name", TRAINED_CASES)
def test_kaldis_information(name):
    components = read_components(CASES / name / "nnet.raw")
    for key, expected in info_lines(name).items():
        assert_same_info(components[key][0].info(), expected)


# -- each component --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives(kind):
    component = make(kind)
    if kind == "fixed":
        component.linear_params = component.linear_params.astype(np.float64)
    else:
        component = in_float64(component)
    check_derivatives(NumpyOps(np.float64), component, 5, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_adds_and_what_sets(kind):
    ops, component = NumpyOps(), make(kind)
    x, dy = normal(5, 4), normal(5, 3)
    y = np.ones((5, 3), dtype=np.float32)
    component.propagate(ops, None, x, y, None)
    plain = np.zeros((5, 3), dtype=np.float32)
    component.propagate(ops, None, x, plain, None)
    np.testing.assert_allclose(y - plain, float(component.has(Properties.PROPAGATE_ADDS)), atol=1e-6)   # float32
    dx, zero = np.ones((5, 4), dtype=np.float32), np.zeros((5, 4), dtype=np.float32)
    component.backprop(ops, None, x, None, dy, None, None, dx)
    component.backprop(ops, None, x, None, dy, None, None, zero)
    assert component.has(Properties.BACKPROP_ADDS)
    np.testing.assert_allclose(dx - zero, 1.0, atol=1e-6)


def test_flags():
    assert [int(make(kind).properties) for kind in KINDS] == [0x63, 0x63, 0x6B, 0x21]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("binary", [True, False])
def test_files(kind, binary):
    component = make(kind)
    again = reread(component, binary)
    assert written(again, binary) == written(component, binary)
    assert again.info() == component.info() or not binary


def test_a_gradient_is_updated_plainly():
    for kind in ("ng-affine", "linear"):
        component, ops = make(kind), NumpyOps()
        x, dy = normal(6, 4), normal(6, 3)
        component.set_as_gradient()
        weights = next(iter(component.parameters().values()))
        before = weights.copy()
        component.backprop(ops, None, x, None, dy, None, component, None)
        np.testing.assert_allclose(weights - before, dy.T @ x, atol=1e-5)   # float32
        assert component.preconditioners()[0].t == 0


def test_freezing_reaches_both_preconditioners():
    for kind in ("ng-affine", "linear"):
        component = make(kind)
        component.freeze_natural_gradient(True)
        assert [p.frozen for p in component.preconditioners()] == [True, True]
        component.freeze_natural_gradient(False)
        assert not any(p.frozen for p in component.preconditioners())


def test_singular_values_are_shown_when_verbose():
    for kind, name in (("affine", "linear-params"), ("linear", "params")):
        assert f"{name}-singular-values" in make(kind).info(verbose=2)
        assert f"{name}-singular-values" not in make(kind).info(verbose=1)


# -- older and damaged files -----------------------------------------------------------------------------------------

HEAD = b"<LearningRate> 0.1 <LinearParams> [ 1 2\n 3 4 ] <BiasParams> [ 5 6 ] "


def read_text(kind, text: bytes):
    return kind.read(TokenReader(io.BytesIO(text), size=len(text)))


def test_older_affine_files():
    component = read_text(AffineComponent, HEAD + b"<IsGradient> T <OrthonormalConstraint> -1 </AffineComponent> ")
    assert component.is_gradient and component.orthonormal_constraint == -1.0


def test_older_natural_gradient_affine_files():
    text = HEAD + (b"<RankIn> 20 <RankOut> 80 <UpdatePeriod> 4 <NumSamplesHistory> 2000 <Alpha> 4 "
                   b"<MaxChangePerSample> 0.075 <IsGradient> F <UpdateCount> 1 <ActiveScalingCount> 2 "
                   b"<MaxChangeScaleStats> 3 <NaturalGradientAffineComponent> ")
    component = read_text(NaturalGradientAffineComponent, text)
    assert (component.preconditioner_in.rank, component.preconditioner_out.rank) == (20, 80)
    assert not component.is_gradient


@pytest.mark.parametrize("text, message", [
    (HEAD.replace(b"[ 5 6 ]", b"[ 5 6 7 ]") + b"</AffineComponent> ", "the bias has 3 elements, the matrix 2 rows"),
    (HEAD + b"</LinearComponent> ", "</AffineComponent>")])
def test_damaged_affine_files(text, message):
    with pytest.raises(FormatError, match=message):
        read_text(AffineComponent, text)


@pytest.mark.parametrize("settings", [b"<RankIn> 0 <RankOut> 80 <UpdatePeriod> 4 <NumSamplesHistory> 2000 <Alpha> 4 ",
                                      b"<RankIn> 1 <RankOut> 80 <UpdatePeriod> 0 <NumSamplesHistory> 2000 <Alpha> 4 ",
                                      b"<RankIn> 1 <RankOut> 80 <UpdatePeriod> 1 <NumSamplesHistory> -1 <Alpha> 4 "])
def test_impossible_preconditioners_in_files(settings):
    with pytest.raises(FormatError, match="expected rank and period above 0"):
        read_text(NaturalGradientAffineComponent, HEAD + settings + b"</NaturalGradientAffineComponent> ")


def test_settings_of_a_copy_are_its_own():
    component = AffineComponent(normal(2, 2), normal(2), settings=UpdateSettings(learning_rate=0.5))
    other = component.copy()
    other.learning_rate, other.linear_params[...] = 0.1, 0
    assert component.learning_rate == 0.5 and component.linear_params.any()


# -- config lines ----------------------------------------------------------------------------------------------------


def from_config(kind, text: str, seed: int = 0):
    """The component, and that every key was used."""
    line = ConfigLine(text)
    component = kind.from_config(line, np.random.default_rng(seed))
    line.check_all_used()
    return component


def test_default_ranks_and_spread():
    component = from_config(NaturalGradientAffineComponent, "input-dim=400 output-dim=300 bias-mean=5 bias-stddev=0")
    assert component.linear_params.shape == (300, 400) and component.linear_params.dtype == np.float32
    assert component.linear_params.std() == pytest.approx(1 / 20, rel=0.02)   # 120000 draws
    assert (component.bias_params == 5).all()
    inner, outer = component.preconditioners()
    assert (inner.rank, outer.rank, inner.update_period, inner.num_samples_history, inner.alpha) == (20, 80, 4, 2000, 4)
    small = from_config(LinearComponent, "input-dim=6 output-dim=5 rank-in=-3")
    assert [p.rank for p in small.preconditioners()] == [3, 3]


def test_every_key_of_a_natural_gradient_layer():
    common = ("input-dim=6 output-dim=5 learning-rate=0.5 learning-rate-factor=0.25 max-change=2 l2-regularize=0.125 "
              "param-stddev=0 num-samples-history=1000 alpha=2 rank-in=3 rank-out=2 update-period=7 "
              "orthonormal-constraint=-1 ")
    for kind, more in ((NaturalGradientAffineComponent, "bias-stddev=0 bias-mean=0"),
                       (LinearComponent, "use-natural-gradient=false")):
        info = from_config(kind, common + more).info()
        for text in ("learning-rate=0.5, l2-regularize=0.125, learning-rate-factor=0.25, max-change=2",
                     "rank-in=3, rank-out=2, num-samples-history=1000, update-period=7, alpha=2",
                     "orthonormal-constraint=-1"):
            assert text in info
        assert not from_config(kind, common + more).vectorize().any()


def test_matrix_from_a_file(tmp_path):
    path = tmp_path / "m"
    path.write_text(" [\n 1 2 3\n 4 5 6 ]\n")
    for kind in (AffineComponent, NaturalGradientAffineComponent, FixedAffineComponent):
        component = from_config(kind, f"matrix={path}")
        np.testing.assert_array_equal(component.linear_params, [[1, 2], [4, 5]])
        np.testing.assert_array_equal(component.bias_params, [3, 6])
        assert component.linear_params.flags.c_contiguous and component.linear_params.flags.writeable
    linear = from_config(LinearComponent, f"matrix={path} input-dim=3 output-dim=2")
    np.testing.assert_array_equal(linear.params, [[1, 2, 3], [4, 5, 6]])
    for text in ("input-dim=3", "output-dim=3"):
        with pytest.raises(ConfigError, match="the matrix is 2 x 3, expected"):
            from_config(AffineComponent, f"matrix={path} {text}")
    with pytest.raises(ConfigError, match="Unused values 'param-stddev=1'"):
        from_config(AffineComponent, f"matrix={path} param-stddev=1")


@pytest.mark.parametrize("kind, text, message", [
    (AffineComponent, "input-dim=3", "input-dim and output-dim must be given"),
    (AffineComponent, "input-dim=3 output-dim=-1", "Bad initializer input-dim=3 output-dim=-1"),
    (AffineComponent, "input-dim=3 output-dim=2 bias-mean=1", "Unused values 'bias-mean=1'"),
    (AffineComponent, "input-dim=3 output-dim=2 param-stddev=-1", "param-stddev must not be negative"),
    (AffineComponent, "input-dim=3 output-dim=2 bias-stddev=-1", "bias-stddev must not be negative"),
    (AffineComponent, "input-dim=3 output-dim=2 learning-rate=-1", "must not be negative"),
    (AffineComponent, "input-dim=3 output-dim=2 max-change=nan", "max-change must be a number"),
    (LinearComponent, "input-dim=3 output-dim=2 rank-in=0", "natural gradient with rank 0"),
    (NaturalGradientAffineComponent, "input-dim=3 output-dim=2 update-period=0", "update-period 0"),
    (NaturalGradientAffineComponent, "input-dim=3 output-dim=2 num-samples-history=1e6", "a history of samples"),
    (FixedAffineComponent, "input-dim=0 output-dim=2", "must be given and above 0")])
def test_impossible_config_lines(kind, text, message):
    with pytest.raises(ConfigError, match=message):
        from_config(kind, text)


def test_the_same_seed_makes_the_same_component():
    text = "input-dim=3 output-dim=2"
    for kind in (AffineComponent, LinearComponent):
        one, two, other = (from_config(kind, text, seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one.vectorize(), two.vectorize())
        assert (one.vectorize() != other.vectorize()).all()


def test_the_orthonormal_constraint_of_an_affine_component():
    component = from_config(AffineComponent, "input-dim=3 output-dim=2 orthonormal-constraint=-1")
    assert component.orthonormal_constraint == -1.0 and "orthonormal-constraint=-1" in component.info()
    assert component.copy().orthonormal_constraint == -1.0
    assert from_config(AffineComponent, "input-dim=3 output-dim=2").orthonormal_constraint == 0.0
