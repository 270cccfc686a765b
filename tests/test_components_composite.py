"""CompositeComponent: against its children one by one, pieces of rows, statistics, training, files and config lines."""
from __future__ import annotations

import math

import numpy as np
import pytest
from component_cases import Draws, from_config, normal, read_text, reread, written
from component_forms import as_gradient

from nnet3py.components.affine import AffineComponent, BlockAffineComponent
from nnet3py.components.base import Properties
from nnet3py.components.composite import CompositeComponent
from nnet3py.components.nonlinear import COUNT
from nnet3py.errors import ConfigError, FormatError
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import convert_repeated_to_block_affine, set_batchnorm_test_mode, set_learning_rate
from nnet3py.ops import get_ops, resources
from nnet3py.runtime.parameter_store import on_device
from nnet3py.training.max_change import MaxChangeStats, update_with_max_change

SAME = 1e-5             # of numbers of size 1 or so: float32 sums in another order
AFFINE = "type=AffineComponent input-dim=5 output-dim=4"
NATURAL = "type=NaturalGradientAffineComponent input-dim=4 output-dim=3"
RELU = "type=RectifiedLinearComponent dim=4"
EMPTY_GRID = "type=NoOpComponent dim=4"
REPEATED = "type=RepeatedAffineComponent input-dim=4 output-dim=6 num-repeats=2"
BATCHNORM = "type=BatchNormComponent dim=4"
LINEAR = "type=LinearComponent input-dim=4 output-dim=3"


def config(*children, rows=2):
    inside = " ".join(f"component{i}='{line}'" for i, line in enumerate(children, 1))
    return f"max-rows-process={rows} num-components={len(children)} {inside}"


def make(*children, rows=2):
    return from_config(CompositeComponent, config(*children, rows=rows))


def both_ways(ops, component, x, dy, update, dx=True):
    """Output and derivative at the input, which is added to zeros."""
    y, derivative = np.zeros_like(dy), np.zeros_like(x) if dx else None
    ops.reset_scratch()
    component.propagate(ops, None, x, y, None)
    ops.reset_scratch()
    component.backprop(ops, None, x, y, dy, None, update, derivative)
    return y, derivative


def matrices(component, rows=5):
    return normal(rows, component.input_dim), normal(rows, component.output_dim, seed=1)


def test_flags():
    """Of the last child whether the output is added to, needed or contiguous; of the first the same of the input."""
    always = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT
    assert make(EMPTY_GRID).properties == always
    assert make(AFFINE, RELU).properties == (always | Properties.UPDATABLE | Properties.BACKPROP_ADDS
                                             | Properties.BACKPROP_NEEDS_OUTPUT)
    assert make(RELU, LINEAR).properties == always | Properties.UPDATABLE | Properties.PROPAGATE_ADDS
    assert make(REPEATED).properties == (always | Properties.UPDATABLE | Properties.BACKPROP_ADDS
                                         | Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS)
    assert make(BATCHNORM).properties == always | Properties.BACKPROP_NEEDS_OUTPUT
    assert make("type=LogSoftmaxComponent dim=4").has(Properties.BACKPROP_NEEDS_OUTPUT)


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 100])
@pytest.mark.parametrize("children", [
    (AFFINE, RELU, NATURAL), (AFFINE, RELU, LINEAR), (AFFINE, EMPTY_GRID, RELU), (REPEATED,), (RELU, REPEATED),
    (AFFINE, "type=NormalizeComponent dim=4"), (RELU, EMPTY_GRID)])
def test_the_children_one_after_the_other(children, rows, ops):
    """With plain gradients nothing depends on the pieces, but for the order of sums."""
    component = make(*children, rows=rows)
    x, dy = matrices(component)
    gradient = as_gradient(component) if component.has(Properties.UPDATABLE) else None
    ops.random = Draws(integers=[1] * 20)
    y, dx = both_ways(ops, component, x, dy, gradient)
    parts, values = [child.copy() for child in component.children], [x]
    for child in parts:
        values.append(np.zeros((len(x), child.output_dim), np.float32))
        child.propagate(ops, None, values[-2], values[-1], None)
    np.testing.assert_allclose(y, values[-1], atol=SAME)
    for i in reversed(range(len(parts))):
        change = as_gradient(parts[i]) if parts[i].has(Properties.UPDATABLE) else None
        derivative = np.zeros_like(values[i])
        parts[i].backprop(ops, None, values[i], values[i + 1], dy, None, change, derivative)
        dy = derivative
        for name, value in change.parameters().items() if change else ():
            np.testing.assert_allclose(gradient.parameters()[f"{i}.{name}"], value, atol=SAME)
    np.testing.assert_allclose(dx, dy, atol=SAME)


def test_each_piece_is_a_minibatch(ops):
    """Natural gradient and statistics of a whole are those of its pieces, handed over one by one."""
    component = make(AFFINE, "type=SigmoidComponent dim=4", NATURAL, rows=2)
    x, dy = matrices(component)
    whole, pieces = component.copy(), component.copy()
    ops.random = Draws(integers=[1] * 6)
    y, dx = both_ways(ops, component, x, dy, whole)
    assert len(ops.random.asked) == 6       # two of the sigmoid in each of three pieces
    ops.random = Draws(integers=[1] * 6)
    for rows in (slice(0, 2), slice(2, 4), slice(4, 5)):
        part, derivative = both_ways(ops, component, x[rows], dy[rows], pieces)
        np.testing.assert_array_equal(part, y[rows])
        np.testing.assert_array_equal(derivative, dx[rows])
    assert written(whole, True) == written(pieces, True) != written(component, True)


def test_statistics_are_kept_in_the_backward_pass_only(ops):
    component = make(BATCHNORM, RELU, rows=3)
    x, dy = matrices(component)
    update = component.copy()
    ops.random = Draws(integers=[1] * 4)
    component.propagate(ops, None, x, np.empty_like(dy), None)
    component.store_stats(ops, x, dy, None)
    both_ways(ops, component, x, dy, None)
    assert component.children[0].count[0] == component.children[1].counters[COUNT] == 0
    both_ways(ops, component, x, dy, update)
    assert update.children[0].count[0] == 5 and update.children[1].counters[COUNT] == 5
    np.testing.assert_allclose(update.children[0].sum, x.sum(axis=0), atol=SAME)
    assert not component.children[0].count[0]


def test_batch_normalization_by_pieces(ops):
    """Its memo, made within the call, is the one that its own piece filled."""
    component = make(BATCHNORM, rows=3)
    child = component.children[0]
    x, dy = matrices(component)
    ops.random = Draws()
    y, dx = both_ways(ops, component, x, dy, None)
    for rows in (slice(0, 3), slice(3, 5)):
        memo, value = child.new_memo(ops, 3), np.empty_like(x[rows])
        child.propagate(ops, None, x[rows], value, memo)
        derivative = np.empty_like(value)
        child.backprop(ops, None, None, value, dy[rows], memo, None, derivative)
        np.testing.assert_array_equal(y[rows], value)
        np.testing.assert_array_equal(dx[rows], derivative)


def test_memory_is_that_of_one_piece_and_kept(monkeypatch):
    ops = get_ops("cpu")
    space = resources.Workspace()
    for name in ("scratch", "scratch_vector", "mark_scratch", "release_scratch", "reset_scratch"):
        monkeypatch.setattr(ops, name, getattr(space, name))
    component = make(AFFINE, BATCHNORM, NATURAL, rows=4)
    update = component.copy()
    x, dy = matrices(component, rows=4)
    both_ways(ops, component, x, dy, update)
    ops.reset_scratch()
    size = space._block.size
    monkeypatch.setattr(resources, "_aligned_block", None)      # an allocation would fail
    x, dy = matrices(component, rows=39)
    for _ in range(2):
        both_ways(ops, component, x, dy, update)
    ops.reset_scratch()
    assert space._block.size == size


def test_nothing_is_asked_of_a_child_that_has_nothing_to_give(ops):
    component = make(RELU, NATURAL)
    x, dy = matrices(component)
    update = component.copy()
    both_ways(ops, component, x, dy, None, dx=False)
    ops.random = Draws(integers=[1] * 3)    # one each for the values of three pieces, none for their derivatives
    both_ways(ops, component, x, dy, update, dx=False)
    assert not ops.random.integers
    assert not update.children[0].stored[2] and update.children[0].stored[0]


def test_parameters():
    component = make(AFFINE, RELU, NATURAL)
    assert list(component.parameters()) == ["0.linear_params", "0.bias_params", "2.linear_params", "2.bias_params"]
    assert component.parameters()["2.bias_params"] is component.children[2].bias_params
    assert component.num_parameters() == 24 + 15
    first, _, last = component.children
    assert component.dot_product(component) == pytest.approx(first.dot_product(first) + last.dot_product(last))
    np.testing.assert_array_equal(component.vectorize(), np.concatenate([first.vectorize(), last.vectorize()]))
    before = component.vectorize()
    component.perturb(0.5, np.random.default_rng(0))
    assert (component.vectorize() != before).all()


def test_learning_rates():
    component = make(f"{AFFINE} learning-rate-factor=0.5", RELU, NATURAL)
    component.learning_rate_factor = 0.25
    component.set_underlying_learning_rate(2.0)
    assert (component.learning_rate, component.children[0].learning_rate, component.children[2].learning_rate
            ) == (0.5, 0.25, 0.5)
    component.set_as_gradient()
    for part in (component, component.children[0], component.children[2]):
        assert part.is_gradient and part.learning_rate == 1.0


def test_freezing_reaches_the_children():
    component = make(AFFINE, RELU, NATURAL)
    preconditioners = component.preconditioners()
    assert len(preconditioners) == 2
    component.freeze_natural_gradient(True)
    assert all(p.frozen for p in component.children[2].preconditioners())
    component.freeze_natural_gradient(False)
    assert not any(p.frozen for p in preconditioners)


NETWORK = """
input-node name=input dim=5
component name=c type=CompositeComponent {}
component-node name=c component=c input=input
output-node name=output input=c
"""


def network(*children):
    return Nnet.from_config(NETWORK.format(config(*children)))


def test_limits_see_one_component():
    """The children's own max-change has no effect: the whole's limits the norm of all children's changes."""
    nnet = network(f"{AFFINE} max-change=0.001", RELU, f"{NATURAL} max-change=0.001")
    for limit, expected in ((0.0, 1.0), (0.5, 0.5)):
        delta, before = nnet.copy(), nnet.components[0].vectorize()
        change = delta.components[0]
        change.max_change = limit
        change.unvectorize(before / np.float32(np.linalg.norm(before)))
        stats = MaxChangeStats()
        ops = get_ops("cpu")
        assert update_with_max_change(on_device(nnet, ops), on_device(delta, ops), 0.0, 1.0, 1.0, 0.0, stats)()
        assert np.linalg.norm(nnet.components[0].vectorize() - before) == pytest.approx(expected, rel=SAME)
        assert stats.num_per_component == ({"c": 1} if limit else {})


def test_operations_on_whole_networks():
    nnet = network(AFFINE, BATCHNORM, LINEAR)
    set_batchnorm_test_mode(nnet, True)                 # reaches no children, as in Kaldi
    assert not nnet.components[0].children[1].test_mode
    set_learning_rate(nnet, 0.125)
    assert nnet.components[0].children[2].learning_rate == 0.125
    assert math.isclose(nnet.dot_product(nnet), nnet.components[0].dot_product(nnet.components[0]))
    gradient = nnet.as_gradient().components[0]
    assert gradient.children[0].is_gradient and not gradient.vectorize().any()


def test_repeated_becomes_block_affine(ops):
    nnet = network(AFFINE, REPEATED, "type=TanhComponent dim=6")
    before = nnet.components[0]
    before.learning_rate = 0.75
    version = nnet.version
    convert_repeated_to_block_affine(nnet)
    after = nnet.components[0]
    assert [type(child) for child in after.children][:2] == [AffineComponent, BlockAffineComponent]
    assert nnet.version > version and after.learning_rate == 0.75 and after.max_rows_process == 2
    x, dy = matrices(before)
    ops.random = Draws()
    for one, other in zip(*(both_ways(ops, c, x, dy, None) for c in (before, after)), strict=True):
        np.testing.assert_allclose(one, other, atol=SAME)


def body(*children, rows=2):
    """The text of a composite in a file, after the opening tag."""
    return written(make(*children, rows=rows), False).decode().partition("> ")[2]


def test_prefixes_of_files():
    """As Kaldi reads it, the learning rate may be missing; what Kaldi writes but cannot read is read too."""
    text = body(AFFINE, RELU)
    rest = text[text.index("<MaxRowsProcess>"):]
    assert text == f"<LearningRate> 0.001 {rest}"
    for prefix, rate in (("", 0.001), ("<CompositeComponent> ", 0.001), ("<LearningRate> 0.5 ", 0.5)):
        component = read_text(CompositeComponent, prefix + rest)
        assert component.learning_rate == pytest.approx(rate) and len(component.children) == 2
    prefix = "<LearningRateFactor> 0.5 <IsGradient> T <MaxChange> 0.75 <L2Regularize> 0.25 <LearningRate> 0.5 "
    component = read_text(CompositeComponent, prefix + rest)
    assert (component.learning_rate_factor, component.is_gradient) == (0.5, True)
    assert (component.max_change, component.l2_regularize) == (0.75, 0.25)
    assert written(component, False).decode() == f"<CompositeComponent> {prefix}{rest}"


@pytest.mark.parametrize("rows", [-1, 0, 7])
def test_the_number_of_rows_is_kept(rows):
    assert reread(make(AFFINE, rows=rows)).max_rows_process == rows


@pytest.mark.parametrize(("before", "after", "message"), [
    ("<MaxRowsProcess>", "<MaxRows>", "expected <MaxRowsProcess>, found '<MaxRows>'"),
    ("<MaxRowsProcess> 2", "<MaxRowsProcess> two", "two"),
    ("<NumComponents> 2", "<NumComponents> 0", "between 1 and 100000 components inside, found 0"),
    ("<NumComponents> 2", "<NumComponents> -2", "found -2"),
    ("<NumComponents> 2", "<NumComponents> 100001", "found 100001"),
    ("<NumComponents> 2", "<NumComponents> 1", "expected </CompositeComponent>, found '<RectifiedLinearComponent>'"),
    ("<NumComponents> 2", "<NumComponents> 3", "unknown component type </CompositeComponent>"),
    ("<AffineComponent>", "<AfineComponent>", "unknown component type <AfineComponent>"),
    ("<AffineComponent>", "AffineComponent", "expected the opening tag of a component"),
    ("<AffineComponent>", "<CompositeComponent>", "cannot stand inside another"),
    ("<Dim> 4", "<Dim> 5", "component 2 takes 5 columns, the one before it gives 4"),
    ("</CompositeComponent>", "</Composite>", "expected </CompositeComponent>"),
    ("</CompositeComponent>", "", "end of the file")])
def test_damaged_files(before, after, message):
    text = body(AFFINE, RELU)
    assert before in text
    with pytest.raises(FormatError, match=message):
        read_text(CompositeComponent, text.replace(before, after, 1))


def test_children_in_files_that_do_not_fit():
    dropout = "<DropoutComponent> <Dim> 4 <DropoutProportion> 0.5 </DropoutComponent> "
    text = body(AFFINE, RELU).replace("<NumComponents> 2 ", f"<NumComponents> 3 {dropout}")
    with pytest.raises(FormatError, match="component 1 is a DropoutComponent; those inside .* simple and not random"):
        read_text(CompositeComponent, text)
    text = body(RELU).replace("<NumComponents> 1", "<NumComponents> 2")
    other = body("type=TanhComponent dim=3")
    child = other[other.index("<TanhComponent>"):]
    with pytest.raises(FormatError, match="component 2 takes 3 columns, the one before it gives 4"):
        read_text(CompositeComponent, text.replace("</CompositeComponent>", child))


def test_config():
    component = from_config(CompositeComponent, f'num-components=2 component2="{RELU}" component1="{AFFINE}"')
    assert component.max_rows_process == 4096 and [type(c).__name__ for c in component.children] == [
        "AffineComponent", "RectifiedLinearComponent"]
    assert (component.input_dim, component.output_dim) == (5, 4)


@pytest.mark.parametrize(("text", "message"), [
    ("", "num-components is required"),
    ("num-components=0", "num-components is required"),
    ("num-components=2000000000", "component1 is missing"),
    (f"num-components=2 component1='{AFFINE}'", "component2 is missing"),
    (f"num-components=1 component1='{AFFINE}' component2='{RELU}'", "Unused values 'component2="),
    (f"num-components=1 component1='{AFFINE}' learning-rate=0.1", "Unused values 'learning-rate=0.1'"),
    (f"num-components=1 component1='{AFFINE}' max-change=0.1", "Unused values 'max-change=0.1'"),
    (f"num-components=1 component1='{AFFINE} dims=5'", "Unused values 'dims=5'"),
    ("num-components=1 component1='type=GruNonlinearityComponent cell-dim=2 rank-inn=3'", "Unused values 'rank-inn=3'"),
    (f"num-components=1 component1='component {AFFINE}'", "'component' at its begin should be a pair"),
    ("num-components=1 component1='dim=5'", "Expected type="),
    ("num-components=1 component1='type=NoOp dim=5'", "Unknown component-type 'NoOp'"),
    ("num-components=1 component1='type=CompositeComponent num-components=1'", "cannot stand inside another"),
    ("num-components=1 component1='type=DropoutComponent dim=4 dropout-proportion=0.5'", "simple and not random"),
    ("num-components=1 component1='type=TdnnComponent input-dim=4 output-dim=4 time-offsets=0'", "must be simple"),
    (f"num-components=2 component1='{RELU}' component2='{AFFINE}'",
     "component 2 takes 5 columns, the one before it gives 4"),
    (f"num-components=1 max-rows-process=few component1='{AFFINE}'", "a 32-bit integer")])
def test_impossible_config_lines(text, message):
    with pytest.raises(ConfigError) as caught:
        from_config(CompositeComponent, text)
    assert message in str(caught.value)
