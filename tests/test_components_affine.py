"""Affine and linear components: natural gradient, blocks, damaged files and config lines."""
from __future__ import annotations

import numpy as np
import pytest
from component_cases import CASES, from_config, normal, read_text, reread
from numpy_ops import NumpyOps
from paths import DATA

from nnet3py.cli.nnet.networks import am_copy
from nnet3py.components.affine import (
    AffineComponent,
    BlockAffineComponent,
    FixedAffineComponent,
    LinearComponent,
    NaturalGradientAffineComponent,
    NaturalGradientRepeatedAffineComponent,
    RepeatedAffineComponent,
)
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import UpdateSettings
from nnet3py.errors import ConfigError, FormatError, NumericError
from nnet3py.network.model_file import read_nnet


def make(kind: str):
    preconditioners = OnlineNaturalGradient(3, 4), OnlineNaturalGradient(2, 4)
    return {"affine": lambda: AffineComponent(normal(3, 4), normal(3)),
            "ng-affine": lambda: NaturalGradientAffineComponent(normal(3, 4), normal(3), *preconditioners, -1.0),
            "linear": lambda: LinearComponent(normal(3, 4), *preconditioners, 0.5, False)}[kind]()


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


HEAD = b"<LearningRate> 0.1 <LinearParams> [ 1 2\n 3 4 ] <BiasParams> [ 5 6 ] "


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


FLOAT32 = 1e-5     # sums of a few float32 products
SETTINGS = UpdateSettings(learning_rate=0.5, learning_rate_factor=2.0, max_change=0.75, l2_regularize=0.25)


# of 4 x 3 = 12 columns in, 4 x 2 = 8 out
MAKERS = {
    "repeated": lambda: RepeatedAffineComponent(normal(2, 3), normal(2), 4, SETTINGS),
    "ng-repeated": lambda: NaturalGradientRepeatedAffineComponent(normal(2, 3), normal(2), 4, SETTINGS),
    "block": lambda: BlockAffineComponent(normal(8, 3), normal(8), 4, SETTINGS),
}
kinds = pytest.mark.parametrize("kind", MAKERS)


def single_block(component, k: int) -> AffineComponent:
    """The map of block ``k`` alone."""
    rows = slice(2 * k, 2 * k + 2) if isinstance(component, BlockAffineComponent) else slice(0, 2)
    return AffineComponent(component.linear_params[rows].copy(), component.bias_params[rows].copy())


@kinds
def test_every_block_is_an_affine_map(kind, ops):
    """Output, input derivative and gradient are those of single blocks; a shared map has the gradients' sum."""
    component, x, dy = MAKERS[kind](), normal(5, 12), normal(5, 8, seed=1)
    y, dx, gradient = np.empty_like(dy), np.zeros_like(x), component.copy()
    gradient.set_as_gradient()
    gradient.scale(0.0)
    component.propagate(ops, None, x, y, None)
    component.backprop(ops, None, x, None, dy, None, gradient, dx)
    weights, bias = [], []
    for k in range(4):
        block, columns, rows = single_block(component, k), slice(3 * k, 3 * k + 3), slice(2 * k, 2 * k + 2)
        np.testing.assert_allclose(y[:, rows], x[:, columns] @ block.linear_params.T + block.bias_params, atol=FLOAT32)
        np.testing.assert_allclose(dx[:, columns], dy[:, rows] @ block.linear_params, atol=FLOAT32)
        weights.append(dy[:, rows].T @ x[:, columns])
        bias.append(dy[:, rows].sum(axis=0))
    join = np.concatenate if kind == "block" else sum
    np.testing.assert_allclose(gradient.linear_params, join(weights), atol=FLOAT32)
    np.testing.assert_allclose(gradient.bias_params, join(bias), atol=FLOAT32)


def test_the_rows_of_the_gradient_are_preconditioned(ops):
    component, x, dy = MAKERS["ng-repeated"](), normal(5, 12), normal(5, 8, seed=1)
    twin, change = OnlineNaturalGradient(1, 4), component.copy()
    for _ in range(3):      # its state is kept from call to call
        rows, outer = np.c_[x.reshape(20, 3), np.ones(20, dtype=np.float32)], dy.reshape(20, 2)
        gradient = outer.T @ rows
        factor = twin.precondition(NumpyOps(), gradient)
        change.scale(0.0)
        component.backprop(ops, None, x, None, dy, None, change, None)
        ops.reset_scratch()
        np.testing.assert_allclose(change.linear_params, 0.5 * factor * gradient[:, :3], rtol=1e-4, atol=FLOAT32)
        np.testing.assert_allclose(change.bias_params, 0.5 * factor * gradient[:, 3], rtol=1e-4, atol=FLOAT32)
        x, dy = x[::-1].copy(), dy * 2
    assert change.preconditioner.t == 3


@pytest.mark.parametrize(("block_in", "rank"), [(1, 1), (2, 1), (7, 3), (80, 40), (200, 40)])
def test_rank_follows_from_the_block(block_in, rank):
    component = NaturalGradientRepeatedAffineComponent(normal(2, block_in), normal(2), 3)
    for preconditioner in (component.preconditioner, reread(component).preconditioner):
        assert (preconditioner.rank, preconditioner.update_period) == (rank, 4)
    component.freeze_natural_gradient(True)
    assert not component.preconditioner.frozen      # as in Kaldi


def test_what_is_not_finite_does_not_reach_the_parameters(ops):
    component = MAKERS["ng-repeated"]()
    before, x = component.vectorize(), normal(5, 12)
    x[2, 3] = np.nan
    component.backprop(ops, None, x, None, normal(5, 8), None, component, None)
    with pytest.raises(NumericError, match="natural gradient was given NaN"):
        component.preconditioner.check(ops)
    np.testing.assert_array_equal(component.vectorize(), before)


@pytest.mark.parametrize("kind", ["repeated", "ng-repeated"])
def test_as_block_affine(kind, ops):
    component, x = MAKERS[kind](), normal(5, 12)
    block = component.as_block_affine()
    assert type(block) is BlockAffineComponent and block.num_blocks == 4
    found, expected = np.empty((2, 5, 8), dtype=np.float32)
    component.propagate(ops, None, x, expected, None)
    block.propagate(ops, None, x, found, None)
    np.testing.assert_allclose(found, expected, atol=FLOAT32)
    assert UpdateSettings(**{name: getattr(block, name) for name in vars(SETTINGS)}) == SETTINGS
    block.scale(0.0)
    assert component.linear_params.all()      # nothing is shared


@pytest.mark.parametrize("case", ["repeated-affine", "natural-gradient-repeated-affine"])
def test_the_command_that_converts(case, tmp_path, capsys):
    source, raw, out = DATA / "network/am-priors.mdl", CASES / case / "nnet.raw", tmp_path / "out"
    options = [f"--set-raw-nnet={raw}", "--raw=true", str(source), str(out)]
    assert am_copy.execute(["--convert-repeated-to-block=true", *options]) == 0
    old, new = read_nnet(str(raw)), read_nnet(str(out))
    assert [type(c).__name__ for c in new.components] == ["AffineComponent", "BlockAffineComponent", "LinearComponent"]
    assert new.component("c").num_blocks == 4 and new.num_parameters() == 252
    np.testing.assert_array_equal(new.component("c").linear_params, np.tile(old.component("c").linear_params, (4, 1)))
    assert am_copy.execute(options) == 0
    assert out.read_bytes() == raw.read_bytes()
    capsys.readouterr()


def count_tag(kind) -> str:
    return "<NumBlocks>" if kind is BlockAffineComponent else "<NumRepeats>"


@pytest.mark.parametrize("kind", [RepeatedAffineComponent, NaturalGradientRepeatedAffineComponent,
                                  BlockAffineComponent])
@pytest.mark.parametrize(("count", "matrix", "bias", "message"), [
    ("0", "[ 1 2\n 3 4 ]", "[ 1 2 ]", "expected a dimension between 1"),
    ("-2", "[ 1 2\n 3 4 ]", "[ 1 2 ]", "found -2"),
    ("2000000000", "[ 1 2\n 3 4 ]", "[ 1 2 ]", "found 2000000000"),
    ("2", "[ 1 2\n 3 4 ]", "[ 1 ]", "the bias has 1 elements, the matrix 2 rows"),
    ("2", "[ ]", "[ ]", "the matrix after <LinearParams> is empty"),
    ("2", "[ 1 2\n 3 ]", "[ 1 2 ]", "expected rows of 2 numbers"),
    ("x", "[ 1 2\n 3 4 ]", "[ 1 2 ]", "expected an integer"),
    ("2", "[ 1 2\n 3 4 ]", "[ 1 2 ] <Alpha> 4", "expected </")])
def test_damaged_files(kind, count, matrix, bias, message):
    with pytest.raises(FormatError, match=message):
        read_text(kind, f"<LearningRate> 0.1 {count_tag(kind)} {count} <LinearParams> {matrix} <BiasParams> {bias} "
                        f"</{kind.__name__}> ")


@pytest.mark.parametrize(("kind", "text", "message"), [
    (RepeatedAffineComponent, "<NumRepeats> 2", "expected <LearningRate>, found"),
    (RepeatedAffineComponent, "<LearningRate> 1 <NumBlocks> 2", "<NumRepeats>"),
    (BlockAffineComponent, "<LearningRate> 1 <NumRepeats> 2", "<NumBlocks>"),
    (BlockAffineComponent, "<LearningRate> 1 <NumBlocks> 2 <LinearParams> [ 1\n 2\n 3 ] <BiasParams> [ 1 2 3 ]",
     "the matrix has 3 rows, expected a multiple of the 2 blocks"),
    (RepeatedAffineComponent, "<LearningRate> 1 <NumRepeats> 16000000 <LinearParams> [ 1 2 ] <BiasParams> [ 1 ]",
     "16000000 repeats of a matrix of 1 x 2 make more than")])
def test_damaged_fields_of_one_type(kind, text, message):
    with pytest.raises(FormatError, match=message):
        read_text(kind, f"{text} </{kind.__name__}> ")


def test_defaults():
    repeated = from_config(RepeatedAffineComponent, "input-dim=400 output-dim=200 num-repeats=2")
    assert repeated.linear_params.shape == (100, 200) and not repeated.bias_params.any()
    assert repeated.linear_params.std() == pytest.approx(200 ** -0.5, rel=0.03)
    assert repeated.bias_params.shape == (100,) and repeated.learning_rate == 0.001
    block = from_config(BlockAffineComponent, "input-dim=400 output-dim=4000 num-blocks=2")
    assert block.linear_params.shape == (4000, 200) and block.bias_params.shape == (4000,)
    assert block.linear_params.std() == pytest.approx(200 ** -0.5, rel=0.03)
    assert block.bias_params.std() == pytest.approx(1.0, rel=0.05)
    assert abs(block.bias_params.mean()) < 0.1


@pytest.mark.parametrize(("kind", "count"), [
    (RepeatedAffineComponent, "num-repeats=2"), (NaturalGradientRepeatedAffineComponent, "num-repeats=2"),
    (BlockAffineComponent, "num-blocks=2")])
def test_keys(kind, count):
    made = from_config(kind, f"input-dim=40 output-dim=2000 {count} param-stddev=0.5 bias-mean=3 "
                              "bias-stddev=0.25 learning-rate=0.1 learning-rate-factor=0.5 max-change=2 "
                              "l2-regularize=0.01")
    assert made.linear_params.std() == pytest.approx(0.5, rel=0.05)
    assert made.bias_params.mean() == pytest.approx(3, abs=0.05)
    assert made.bias_params.std() == pytest.approx(0.25, rel=0.1)
    assert (made.learning_rate, made.learning_rate_factor, made.max_change) == pytest.approx((0.1, 0.5, 2))


def test_there_is_no_orthonormal_constraint():
    with pytest.raises(ConfigError, match="Unused values 'orthonormal-constraint=1'"):
        from_config(BlockAffineComponent, "input-dim=6 output-dim=4 num-blocks=2 orthonormal-constraint=1")
