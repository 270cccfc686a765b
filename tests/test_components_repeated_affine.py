"""Affine maps of blocks: against one block at a time, natural gradient, file forms, conversion, config lines.

Kaldi's cases are in test_components_affine.py, with those of the other trained components.
"""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import CASES, check_derivatives, in_float64, reread, written
from numpy_ops import NumpyOps
from paths import DATA

from nnet3py.cli.nnet.copy import am_copy
from nnet3py.components.affine import AffineComponent
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.repeated_affine import (
    BlockAffineComponent,
    NaturalGradientRepeatedAffineComponent,
    RepeatedAffineComponent,
)
from nnet3py.components.updatable import UpdateSettings
from nnet3py.config_line import ConfigLine
from nnet3py.errors import ConfigError, FormatError, NumericError
from nnet3py.io.tokens import TokenReader
from nnet3py.network.model_file import read_nnet
from nnet3py.ops import get_ops

FLOAT32 = 1e-5     # sums of a few float32 products
SETTINGS = UpdateSettings(learning_rate=0.5, learning_rate_factor=2.0, max_change=0.75, l2_regularize=0.25)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


# of 4 x 3 = 12 columns in, 4 x 2 = 8 out
MAKERS = {
    "repeated": lambda: RepeatedAffineComponent(normal(2, 3), normal(2), 4, SETTINGS),
    "ng-repeated": lambda: NaturalGradientRepeatedAffineComponent(normal(2, 3), normal(2), 4, SETTINGS),
    "block": lambda: BlockAffineComponent(normal(8, 3), normal(8), 4, SETTINGS),
}
kinds = pytest.mark.parametrize("kind", MAKERS)


@pytest.fixture(params=["numpy", "cpu"])
def ops(request):
    return NumpyOps() if request.param == "numpy" else get_ops("cpu")


def single_block(component, k: int) -> AffineComponent:
    """The map of block ``k`` alone."""
    rows = slice(2 * k, 2 * k + 2) if isinstance(component, BlockAffineComponent) else slice(0, 2)
    return AffineComponent(component.linear_params[rows].copy(), component.bias_params[rows].copy())


# -- computing ---------------------------------------------------------------------------------------------------------


@kinds
def test_derivatives(kind):
    check_derivatives(NumpyOps(np.float64), in_float64(MAKERS[kind]()), 5, 5)


def test_flags():
    assert [int(make().properties) for make in MAKERS.values()] == [0xC63, 0xC63, 0x63]


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


# -- conversion --------------------------------------------------------------------------------------------------------


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


# -- files -------------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("binary", [True, False])
def test_files(kind, binary):
    component = MAKERS[kind]()
    again = reread(component, binary)
    assert written(again, binary) == written(component, binary)
    assert (again.input_dim, again.output_dim, again.max_change) == (12, 8, 0.75)


def read_text(kind, text: str):
    data = (f"{text} </{kind.__name__}> ").encode()
    return kind.read(TokenReader(io.BytesIO(data), size=len(data)))


def count_tag(kind) -> str:
    return "<NumBlocks>" if kind is BlockAffineComponent else "<NumRepeats>"


@pytest.mark.parametrize("kind", [RepeatedAffineComponent, NaturalGradientRepeatedAffineComponent,
                                  BlockAffineComponent])
def test_older_files(kind):
    fields = f"{count_tag(kind)} 2 <LinearParams> [ 1 2 3\n 4 5 6 ] <BiasParams> [ 7 8 ]"
    old = read_text(kind, f"<LearningRate> 0.1 {fields} <IsGradient> T")
    assert old.is_gradient and old.linear_params.tolist() == [[1, 2, 3], [4, 5, 6]] and old.bias_params[1] == 8
    assert not read_text(kind, f"<LearningRate> 0.1 {fields} <IsGradient> F").is_gradient
    assert read_text(kind, f"<{kind.__name__}> <IsGradient> T <LearningRate> 0.1 {fields}").is_gradient


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
        read_text(kind, f"<LearningRate> 0.1 {count_tag(kind)} {count} <LinearParams> {matrix} <BiasParams> {bias}")


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
        read_text(kind, text)


# -- config lines ------------------------------------------------------------------------------------------------------


def from_config(kind, text: str):
    line = ConfigLine(text)
    component = kind.from_config(line, np.random.default_rng(0))
    line.check_all_used()
    return component


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
    made = from_config(kind, f"input-dim=40 output-dim=2000 {count} param-stddev=0.5 bias-mean=3 bias-stddev=0.25 "
                             "learning-rate=0.1 learning-rate-factor=0.5 max-change=2 l2-regularize=0.01")
    assert made.linear_params.std() == pytest.approx(0.5, rel=0.05)
    assert made.bias_params.mean() == pytest.approx(3, abs=0.05)
    assert made.bias_params.std() == pytest.approx(0.25, rel=0.1)
    assert (made.learning_rate, made.learning_rate_factor, made.max_change) == pytest.approx((0.1, 0.5, 2))


@pytest.mark.parametrize("kind", [RepeatedAffineComponent, NaturalGradientRepeatedAffineComponent,
                                  BlockAffineComponent])
@pytest.mark.parametrize("text", [
    "input-dim=6 output-dim=4", "input-dim=6 {}=2", "output-dim=4 {}=2", "input-dim=6 output-dim=4 {}=0",
    "input-dim=6 output-dim=4 {}=-2", "input-dim=6 output-dim=4 {}=3", "input-dim=6 output-dim=4 {}=4",
    "input-dim=0 output-dim=4 {}=2", "input-dim=6 output-dim=4 {}=2 param-stddev=-1",
    "input-dim=6 output-dim=4 {}=2 bias-stddev=-1", "input-dim=6 output-dim=4 {}=2 max-change=-1"])
def test_impossible_config_lines(kind, text):
    text = text.format("num-blocks" if kind is BlockAffineComponent else "num-repeats")
    with pytest.raises(ConfigError, match=f"Bad initializer {text}"):
        from_config(kind, text)


def test_there_is_no_orthonormal_constraint():
    with pytest.raises(ConfigError, match="Unused values 'orthonormal-constraint=1'"):
        from_config(BlockAffineComponent, "input-dim=6 output-dim=4 num-blocks=2 orthonormal-constraint=1")
