"""Dropout and GeneralDropout: masks, proportions, files and config lines."""
from __future__ import annotations

import numpy as np
import pytest
from component_cases import CASES, from_config, info_lines, normal, read_components, read_text, reread, written
from runtime_cases import grid

from nnet3py.compiler import compile
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.dropout import (
    DropoutComponent,
    DropoutMaskComponent,
    GeneralDropoutComponent,
    GeneralDropoutComponentPrecomputedIndexes,
    SpecAugmentTimeMaskComponent,
    SpecAugmentTimeMaskComponentPrecomputedIndexes,
)
from nnet3py.errors import CompileError, ConfigError, FormatError, NumericError
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_dropout_test_mode
from nnet3py.ops import get_ops
from nnet3py.runtime.computer import Computer

FLOAT32 = 1e-6
FOUR_SIGMA = 4


def assert_share(found, expected, count):
    """Shares of ``count`` independent draws each, within four standard deviations."""
    assert (np.abs(found - expected) < FOUR_SIGMA * np.sqrt(expected * (1 - expected) / count) + 1e-12).all()


@pytest.mark.parametrize("per_frame", [False, True])
def test_dropout(per_frame, ops):
    component, x = DropoutComponent(10, 0.3, per_frame), np.abs(normal(200, 10)) + 0.1
    x[:, 0] = 0.0
    y, dx, dy = np.empty_like(x), np.empty_like(x), normal(200, 10, seed=1)
    component.propagate(ops, None, x, y, None)
    kept = y[:, 1:] != 0
    np.testing.assert_array_equal(y[:, 1:], x[:, 1:] * kept)       # not scaled up
    if per_frame:
        assert (kept == kept[:, :1]).all()
    assert_share(kept.mean(), 0.7, 200 if per_frame else 1800)
    component.dropout_proportion = 0.9                             # no effect on the way back
    component.backprop(ops, None, x, y, dy, None, None, dx)
    np.testing.assert_array_equal(dx[:, 1:], dy[:, 1:] * kept)
    np.testing.assert_array_equal(dx[:, 0], dy[:, 0])              # a zero input hides the mask


def test_dropout_in_test_mode(ops):
    component, x, dy = DropoutComponent(6, 0.25, test_mode=True), normal(5, 6), normal(5, 6, seed=1)
    y, dx = np.empty_like(x), dy.copy()
    component.propagate(ops, None, x, y, None)
    component.backprop(ops, None, x, y, dx, None, None, dx)
    np.testing.assert_allclose(y, 0.75 * x, rtol=FLOAT32)
    np.testing.assert_allclose(dx, 0.75 * dy, rtol=FLOAT32)


def test_dropout_config():
    component = from_config(DropoutComponent, "dim=6 dropout-proportion=0.3 dropout-per-frame=true test-mode=true")
    assert component.info() == "DropoutComponent, dim=6, dropout-proportion=0.3, dropout-per-frame=true"
    assert component.test_mode


def rows(num_sequences, num_frames):
    return np.array([[n, t, 0] for t in range(-2, num_frames - 2) for n in range(num_sequences)], np.int32)


def run(component, ops, indexes, x):
    precomputed = component.precompute_indexes(indexes, indexes, True)
    memo, y, dy = component.new_memo(ops, len(x)), x.copy(), normal(*x.shape, seed=1)
    component.propagate(ops, precomputed, y, y, memo)
    dx = np.empty_like(dy)
    component.backprop(ops, precomputed, None, None, dy, memo, None, dx)
    return y / x, dx / dy


def test_masks_are_numbered_in_order_of_appearance():
    indexes = np.array([[1, 5, 0], [0, 5, 0], [1, 0, 0], [0, -1, 7], [1, 6, 0]], np.int32)
    found = GeneralDropoutComponent(6, 3).precompute_indexes(indexes, indexes, True)
    assert (found.num_mask_rows, found.indexes.tolist()) == (4, [0, 0, 1, 1, 0, 0, 1, 1, 0, 0])
    found = GeneralDropoutComponent(6, time_period=5).precompute_indexes(indexes, indexes, True)
    assert (found.num_mask_rows, found.indexes.tolist()) == (4, [0, 1, 2, 3, 0])
    assert found.indexes.dtype == np.int32


@pytest.mark.parametrize("period, block_dim", [(0, 6), (0, 3), (4, 6)])
def test_one_mask_for_a_stretch_of_time(period, block_dim, ops):
    component = GeneralDropoutComponent(6, block_dim, period, 0.25)
    forward, backward = run(component, ops, rows(40, 8), normal(320, 6))
    np.testing.assert_allclose(forward, backward, atol=FLOAT32)
    np.testing.assert_allclose(np.unique(np.round(forward, 5)), [0, 1.33333])
    masks = forward.reshape(8, 40, 6)                        # t from -2 to 5
    stretches = [slice(0, 8)] if period == 0 else [slice(0, 2), slice(2, 6), slice(6, 8)]
    for stretch in stretches:
        np.testing.assert_allclose(masks[stretch], np.broadcast_to(masks[stretch][:1], masks[stretch].shape), rtol=1e-5)
    np.testing.assert_allclose(forward[:, :block_dim], forward[:, -block_dim:], rtol=1e-5)
    assert_share((masks[0, :, :block_dim] > 0).mean(), 0.75, 40 * block_dim)


def test_continuous_dropout(ops):
    forward, backward = run(GeneralDropoutComponent(6, continuous=True, dropout_proportion=0.25), ops, rows(300, 1),
                            normal(300, 6))
    np.testing.assert_allclose(forward, backward, rtol=1e-4, atol=1e-5)
    assert 0.5 <= forward.min() < 0.52 and 1.48 < forward.max() <= 1.5


def test_specaugment(ops):
    component = GeneralDropoutComponent(20, specaugment_max_proportion=0.5, specaugment_max_regions=2)
    forward, backward = run(component, ops, rows(200, 1), normal(200, 20))
    np.testing.assert_allclose(forward, backward)
    assert set(np.unique(forward)) == {0.0, 1.0}
    zeros = (forward == 0).sum(axis=1)
    assert zeros.min() == 0 and zeros.max() == 10
    assert abs(zeros.mean() - 5) < FOUR_SIGMA * np.sqrt(10 / 200)     # 0..10, each as likely: variance 10


@pytest.mark.parametrize("settings, kept", [
    ({"test_mode": True}, 1), ({"dropout_proportion": 0.0}, 1), ({"dropout_proportion": 1.0}, 0)])
def test_everything_is_kept_or_dropped(settings, kept, ops):
    forward, backward = run(GeneralDropoutComponent(6, **settings), ops, rows(3, 2), normal(6, 6))
    assert (forward == kept).all() and (backward == kept).all()


def test_the_mask_is_allocated_once():
    ops, component = get_ops("cpu"), GeneralDropoutComponent(6)
    indexes = component.precompute_indexes(rows(3, 2), rows(3, 2), True)
    memo, x = component.new_memo(ops, 6), normal(6, 6)
    component.propagate(ops, indexes, x, x, memo)
    mask = memo.matrix
    component.propagate(ops, indexes, x, x, memo)
    assert memo.matrix is mask and mask.shape == (3, 6)


def full():
    return GeneralDropoutComponent(6, 3, 10, 0.25, 0.5, 2, False, True)


def test_general_dropout_files():
    assert written(reread(full()), True) == written(full(), True)
    assert b"<SpecAugmentMaxRegions> 2 <TestMode> </GeneralDropoutComponent> " in written(full(), False)
    assert full().info() == ("GeneralDropoutComponent, dim=6, block-dim=3, dropout-proportion=0.25, "
                             "specaugment-max-proportion=0.5, specaugment-max-regions=2, time-period=10")


@pytest.mark.parametrize("old, new", [
    ("<TimePeriod> 10", "<TimePeriod> -1"), ("<SpecAugmentMaxProportion> 0.5", "<SpecAugmentMaxProportion> 5"),
    ("<SpecAugmentMaxRegions> 2", "<SpecAugmentMaxRegions> 100000000"), ("<BlockDim> 3", "<BlockDim> 4"),
    ("</General", "</Special")])
def test_damaged_files(old, new):
    text = written(full(), False).decode()
    assert old in text
    with pytest.raises(FormatError):
        read_text(GeneralDropoutComponent, text.replace(old, new))


@pytest.mark.parametrize("text", ["<NumMaskRows> 2 <Indexes> [ 0 2 ] ", "<NumMaskRows> 2 <Indexes> [ -1 ] "])
def test_damaged_masks_of_rows(text):
    with pytest.raises(FormatError, match="between 0 and 1"):
        read_text(GeneralDropoutComponentPrecomputedIndexes, text + "</GeneralDropoutComponentPrecomputedIndexes> ")


def test_general_dropout_config():
    component = from_config(GeneralDropoutComponent, "dim=6 block-dim=3 time-period=10 dropout-proportion=0.25 "
                            "specaugment-max-proportion=0.5 specaugment-max-regions=2 test-mode=true")
    assert written(component, True) == written(full(), True)
    plain = from_config(GeneralDropoutComponent, "dim=6 continuous=true")
    assert plain.info() == "GeneralDropoutComponent, dim=6, block-dim=6, dropout-proportion=0.5, continuous=true"


ROWS = 2000


def mask(component, ops, rows: int = ROWS, seed: int = 1) -> np.ndarray:
    ops.random.begin_minibatch(seed, 0)
    ops.reset_scratch()
    y = np.full((rows, component.output_dim), np.nan, np.float32)
    component.propagate(ops, None, np.zeros((0, component.input_dim), np.float32), y, None)
    return y


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("proportion", [0.2, 0.7])
def test_zeros_and_ones(dim, proportion, ops):
    y = mask(DropoutMaskComponent(dim, proportion), ops)
    assert set(np.unique(y)) == {0.0, 1.0}                            # not scaled up
    assert_share(y.mean(axis=0), 1 - proportion, ROWS)
    if dim in (2, 3):
        both = y[:, 0] * y[:, 1], (1 - y[:, 0]) * (1 - y[:, 1])       # kept, dropped
        if proportion < 0.5:
            assert not both[1].any()
            assert_share(both[0].mean(), 1 - 2 * proportion, ROWS)
        else:
            assert not both[0].any()
    if dim == 3:
        assert_share((y[:, 0] * y[:, 2]).mean(), (1 - proportion) ** 2, ROWS)    # the third is on its own
    if dim == 5:
        assert_share((y[:, 0] * y[:, 1]).mean(), (1 - proportion) ** 2, ROWS)


def test_continuous_masks(ops):
    y = mask(DropoutMaskComponent(3, 0.25, continuous=True), ops)
    assert 0.5 <= y.min() < 0.51 and 1.49 < y.max() <= 1.5
    assert np.abs(y.mean(axis=0) - 1).max() < FOUR_SIGMA * np.sqrt(1 / 12 / ROWS)
    assert np.abs(np.corrcoef(y.T) - np.eye(3)).max() < FOUR_SIGMA / np.sqrt(ROWS)


@pytest.mark.parametrize("settings, expected", [
    ({"dropout_proportion": 0.0}, 1.0), ({"dropout_proportion": 0.0, "continuous": True}, 1.0),
    ({"dropout_proportion": 0.25, "test_mode": True}, 0.75), ({"dropout_proportion": 1.0, "test_mode": True}, 0.0),
    ({"dropout_proportion": 0.25, "test_mode": True, "continuous": True}, 1.0), ({"dropout_proportion": 1.0}, 0.0)])
def test_constant_masks(settings, expected, ops):
    np.testing.assert_array_equal(mask(DropoutMaskComponent(3, **settings), ops, 7), expected)


def test_the_seed_makes_the_mask(ops):
    component = DropoutMaskComponent(3, 0.4)
    first = mask(component, ops)
    np.testing.assert_array_equal(mask(component, ops), first)
    assert (mask(component, ops, seed=2) != first).any()


@pytest.mark.parametrize("proportion", [-0.5, 1.5, float("nan")])
def test_an_impossible_proportion(proportion, ops):
    with pytest.raises(NumericError, match="dropout proportion"):
        mask(DropoutMaskComponent(3, proportion), ops)


LSTM = """
input-node name=input dim=3
component name=gates type=AffineComponent input-dim=5 output-dim=8 learning-rate=0.1
component name=mask type=DropoutMaskComponent output-dim=3 dropout-proportion=0.3
component name=cell type=LstmNonlinearityComponent cell-dim=2 use-dropout=true learning-rate=0.1
component-node name=mask component=mask input=mask
component-node name=gates component=gates input=Append(input, IfDefined(Offset(m, -1)))
component-node name=cell component=cell input=Append(gates, IfDefined(Offset(c, -1)), mask)
dim-range-node name=c input-node=cell dim-offset=0 dim=2
dim-range-node name=m input-node=cell dim-offset=2 dim=2
output-node name=output input=m
output-node name=output-mask input=mask
"""


def lstm_pass(nnet: Nnet, seed: int, optimize: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Output, masks and input derivative of two sequences of four frames."""
    request = ComputationRequest(
        [IoSpecification("input", grid(2, range(4)), True)],
        [IoSpecification("output", grid(2, range(4)), True), IoSpecification("output-mask", grid(2, range(4)), False)],
        True, False)
    ops = get_ops("cpu")
    ops.random.begin_minibatch(seed, 0)
    computer = Computer(compile(nnet, request, optimize=optimize), nnet, update=nnet.as_gradient(), ops=ops)
    computer.accept_input("input", np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32))
    computer.run()
    output, masks = computer.output("output").copy(), computer.output("output-mask").copy()
    computer.accept_input("output", np.ones((8, 2), np.float32))
    computer.run()
    return output, masks, computer.output("input").copy()


def test_a_node_that_names_itself_as_input():
    """As Kaldi's scripts write it: there is no input, but a component node must have one."""
    nnet = Nnet.from_config(LSTM, seed=1)
    output, masks, deriv = lstm_pass(nnet, 1)
    assert masks.shape == (8, 3) and set(np.unique(masks)) == {0.0, 1.0} and np.isfinite(deriv).all()
    for found, expected in zip(lstm_pass(nnet, 1, optimize=False)[:2], (output, masks), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (lstm_pass(nnet, 2)[1] != masks).any()
    set_dropout_test_mode(nnet, True)
    np.testing.assert_array_equal(lstm_pass(nnet, 1)[1], np.float32(1) - np.float32(0.3))


TEXT = ("<SpecAugmentTimeMaskComponent> <Dim> 3 <ZeroedProportion> 0.25 <TimeMaskMaxFrames> 7 <TestMode> "
        "</SpecAugmentTimeMaskComponent> ")


@pytest.mark.parametrize("component, text", [
    (DropoutMaskComponent(3, 0.25, True, True), "<DropoutMaskComponent> <OutputDim> 3 <DropoutProportion> 0.25 "
                                                "<TestMode> T <Continuous> </DropoutMaskComponent> "),
    (SpecAugmentTimeMaskComponent(3, 0.25, 7, True), TEXT)])
def test_text(component, text):
    assert written(component, False).decode() == text
    for given in (text, text.partition(" ")[2]):      # the opening tag may be read already
        assert vars(read_text(type(component), given)) == vars(component)


@pytest.mark.parametrize("text", [
    "<OutputDim> 0 <DropoutProportion> 0.25 </DropoutMaskComponent> ", "<OutputDim> 3 <DropoutProportion> x ",
    "<OutputDim> 3 <DropoutProportion> 0.25 <TestMode> </DropoutMaskComponent> ",
    "<OutputDim> 3 <DropoutProportion> 0.25 <Continuous> T </DropoutMaskComponent> ",
    "<OutputDim> 3 <DropoutProportion> 0.25 <Continuous> <TestMode> T </DropoutMaskComponent> ",
    "<OutputDim> 3 <DropoutProportion> 0.25 ", "<Dim> 3 <DropoutProportion> 0.25 </DropoutMaskComponent> "])
def test_damaged_files_of_masks(text):
    with pytest.raises(FormatError):
        read_text(DropoutMaskComponent, text)


def test_config():
    component = from_config(DropoutMaskComponent, "output-dim=3")
    assert vars(component) == vars(DropoutMaskComponent(3, 0.5))
    assert component.info() == "DropoutMaskComponent, output-dim=3, dropout-proportion=0.5"
    component = from_config(DropoutMaskComponent, "output-dim=3 dropout-proportion=0.1 continuous=true test-mode=true")
    assert vars(component) == vars(DropoutMaskComponent(3, 0.1, True, True))
    assert component.info() == "DropoutMaskComponent, output-dim=3, dropout-proportion=0.1, continuous=true"
    assert component.input_dim == component.output_dim == 3


def masks(component, ops, num_sequences: int, num_frames: int, seed: int = 1) -> np.ndarray:
    """The mask (sequences, frames), found forwards; the way back must have the same."""
    rows = grid(num_sequences, range(-3, num_frames - 3))
    indexes = component.precompute_indexes(rows, rows, True)
    ops.random.begin_minibatch(seed, 0)
    ops.reset_scratch()
    memo, x, dy = component.new_memo(ops, len(rows)), normal(len(rows), component.dim), normal(len(rows), component.dim)
    y, dx = x.copy(), np.empty_like(dy)
    component.propagate(ops, indexes, y, y, memo)
    component.backprop(ops, indexes, None, None, dy, memo, None, dx)
    np.testing.assert_array_equal(y, dx)                        # x and dy are the same numbers
    factors = y / x
    np.testing.assert_array_equal(factors, np.broadcast_to(factors[:, :1], factors.shape))
    assert set(np.unique(factors)) <= {0.0, 1.0}
    return factors[:, 0].reshape(num_frames, num_sequences).T


def runs(mask: np.ndarray, value: float) -> list[int]:
    """Lengths of the stretches of ``value`` in each row, but for the last one, which the end may have cut."""
    found = []
    for sequence in mask:
        starts = np.concatenate([[0], np.flatnonzero(np.diff(sequence)) + 1])
        found += [int(length) for start, length in zip(starts[:-1], np.diff(starts), strict=True)
                  if sequence[start] == value]
    return found


def assert_uniform(lengths: list[int], longest: int) -> None:
    """Each length from 1 to the longest as often as any other, within four standard deviations."""
    counts = np.bincount(lengths, minlength=longest + 1)
    assert len(counts) == longest + 1 and counts[0] == 0
    share = 1 / longest
    assert np.abs(counts[1:] / len(lengths) - share).max() < FOUR_SIGMA * np.sqrt(share * (1 - share) / len(lengths))


@pytest.mark.parametrize("proportion, zeroed, kept", [(0.25, 4, 12), (0.5, 3, 3), (0.4, 5, 7)])
def test_stretches(proportion, zeroed, kept, ops):
    mask = masks(SpecAugmentTimeMaskComponent(2, proportion, zeroed), ops, 60, 400)
    assert_uniform(runs(mask, 0.0), zeroed)
    assert_uniform(runs(mask, 1.0), kept)
    expected = (1 + zeroed) / (2 + zeroed + kept)
    assert abs((mask == 0).mean() - expected) < 0.02


def test_how_sequences_begin(ops):
    """With kept frames with the probability of zeroed ones: Kaldi's way."""
    first = masks(SpecAugmentTimeMaskComponent(1, 0.2), ops, 2000, 1)[:, 0]
    assert abs(first.mean() - 0.2) < FOUR_SIGMA * np.sqrt(0.2 * 0.8 / 2000)


def test_sequences_have_masks_of_their_own(ops):
    component = SpecAugmentTimeMaskComponent(2, 0.5, 3)
    mask = masks(component, ops, 10, 50)
    assert len(np.unique(mask, axis=0)) == 10
    np.testing.assert_array_equal(masks(component, ops, 10, 50), mask)
    assert (masks(component, ops, 10, 50, seed=2) != mask).any()


@pytest.mark.parametrize("settings", [{"test_mode": True}, {"zeroed_proportion": 0.0}])
def test_identity_of_specaugment(settings, ops):
    component = SpecAugmentTimeMaskComponent(3, **settings)
    assert masks(component, ops, 4, 9).all()
    x, y = normal(4, 3), np.zeros((4, 3), np.float32)
    component.propagate(ops, None, x, y, None)
    np.testing.assert_array_equal(y, x)
    component.backprop(ops, None, None, None, 2 * x, None, None, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_a_tiny_proportion_zeroes_hardly_anything(ops):
    mask = masks(SpecAugmentTimeMaskComponent(1, 1e-12, 2), ops, 100, 40)
    assert (mask[:, 2:] == 1).all() and (mask[:, 0] == 0).all()       # sequences begin with zeros


@pytest.mark.parametrize("proportion, frames", [(0.95, 10), (1.0, 10), (-0.5, 10), (float("nan"), 10), (0.25, 0)])
def test_impossible_settings_of_a_file(proportion, frames, ops):
    """Kaldi reads them and fails when it draws a mask; in test mode they do no harm."""
    component = reread(SpecAugmentTimeMaskComponent(2, proportion, frames))
    with pytest.raises(NumericError, match="leaves no frame between two masks"):
        masks(component, ops, 2, 3)
    component.test_mode = True
    assert masks(component, ops, 2, 3).all()


def test_rows_of_each_sequence():
    rows = np.array([[2, 5, 0], [0, 5, 0], [2, -1, 0], [0, -7, 1], [2, 6, 0], [2, 5, 1]], np.int32)
    found = SpecAugmentTimeMaskComponent(2).precompute_indexes(rows, rows, False)
    assert found.rows.tolist() == [3, 1, 2, 0, 5, 4] and found.starts.tolist() == [0, 2, 6]
    assert found.rows.dtype == found.starts.dtype == np.int32
    with pytest.raises(CompileError, match="needs the same rows"):
        SpecAugmentTimeMaskComponent(2).precompute_indexes(rows[::-1], rows, False)


@pytest.mark.parametrize("text", ["1 [ 0 2 ]", "2 [ 0 1 ] [ 1 ]", "1 [ -1 0 ]", "-1", "2000000000 [ 0 ]", "2 [ 0 ]"])
def test_damaged_precomputed_indexes(text):
    with pytest.raises(FormatError):
        read_text(SpecAugmentTimeMaskComponentPrecomputedIndexes,
                  f"<Indexes> {text} </SpecAugmentTimeMaskComponentPrecomputedIndexes> ")


@pytest.mark.parametrize("deriv", [False, True])
@pytest.mark.parametrize("optimize", [False, True])
def test_in_a_network(optimize, deriv):
    """With and without a backward pass, in place or not."""
    nnet = Nnet.from_config("""
input-node name=input dim=3
component name=mask type=SpecAugmentTimeMaskComponent dim=3 zeroed-proportion=0.5 time-mask-max-frames=2
component-node name=mask component=mask input=input
output-node name=output input=mask""", seed=1)
    rows, x = grid(5, range(20)), normal(100, 3)
    request = ComputationRequest([IoSpecification("input", rows, deriv)], [IoSpecification("output", rows, deriv)],
                                 False, False)
    computer = Computer(compile(nnet, request, optimize=optimize), nnet)
    computer.accept_input("input", x)
    computer.run()
    mask = computer.output("output") / x
    assert set(np.unique(mask)) == {0.0, 1.0} and (mask == mask[:, :1]).all()
    if deriv:
        computer.accept_input("output", np.ones_like(x))
        computer.run()
        np.testing.assert_array_equal(computer.output("input"), mask)
    set_dropout_test_mode(nnet, True)
    computer = Computer(compile(nnet, request, optimize=optimize), nnet)
    computer.accept_input("input", x)
    computer.run()
    np.testing.assert_array_equal(computer.output("output"), x)


@pytest.mark.parametrize("form", ["nnet.raw", "nnet.txt"])
def test_kaldis_file(form):
    component, data = read_components(CASES / "dropout-test-mode" / form)["s"]
    assert written(component, form == "nnet.raw").strip() == data.strip()
    assert component.info() == info_lines("dropout-test-mode")["s"]
    assert component.test_mode and component.time_mask_max_frames == 5
    line = "dim=12 zeroed-proportion=0.25 time-mask-max-frames=5"        # of the case's config
    made = from_config(SpecAugmentTimeMaskComponent, line)
    made.test_mode = True
    assert vars(made) == vars(component)


@pytest.mark.parametrize("old, new", [
    ("<Dim> 3", "<Dim> 0"), ("0.25", "x"), ("<TestMode> ", "<TestMode> T "), ("</Spec", "</Spoc"),
    ("<TimeMaskMaxFrames> 7", "<TimeMaskMaxFrames> 7.5"), ("<ZeroedProportion>", "<Zeroed>")])
def test_damaged_files_of_specaugment(old, new):
    assert old in TEXT
    with pytest.raises(FormatError):
        read_text(SpecAugmentTimeMaskComponent, TEXT.replace(old, new))


def test_config_of_specaugment():
    component = from_config(SpecAugmentTimeMaskComponent, "dim=3")
    assert vars(component) == vars(SpecAugmentTimeMaskComponent(3, 0.25, 10))
    assert component.info() == "SpecAugmentTimeMaskComponent, dim=3, zeroed-proportion=0.25, time-mask-max-frames=10"
    assert from_config(SpecAugmentTimeMaskComponent, "dim=3 zeroed-proportion=0").zeroed_proportion == 0.0


def test_test_mode_is_no_key():
    with pytest.raises(ConfigError, match="test-mode"):
        from_config(SpecAugmentTimeMaskComponent, "dim=3 test-mode=true")
