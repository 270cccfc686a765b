"""SpecAugmentTimeMaskComponent: stretches of its masks, Kaldi's test-mode case, indexes, files and config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import CASES, info_lines, read_components, reread, written
from own_ops import reference_ops
from runtime_cases import grid
from test_components_nonlinear import from_config, normal

from nnet3py.compiler import compile
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.specaugment import (
    SpecAugmentTimeMaskComponent,
    SpecAugmentTimeMaskComponentPrecomputedIndexes,
)
from nnet3py.errors import CompileError, ConfigError, FormatError, NumericError
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_dropout_test_mode
from nnet3py.ops import get_ops
from nnet3py.runtime.computer import Computer

FOUR_SIGMA = 4


@pytest.fixture(params=["reference", "cpu"])
def ops(request):
    return reference_ops() if request.param == "reference" else get_ops("cpu")


def read_text(kind, text):
    return kind.read(TokenReader(io.BytesIO(text.encode()), size=len(text)))


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


# -- masks -------------------------------------------------------------------------------------------------------------


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
def test_identity(settings, ops):
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
    with pytest.raises(NumericError, match="no stretch of kept frames"):
        masks(component, ops, 2, 3)
    component.test_mode = True
    assert masks(component, ops, 2, 3).all()


# -- indexes -----------------------------------------------------------------------------------------------------------


def test_rows_of_each_sequence():
    rows = np.array([[2, 5, 0], [0, 5, 0], [2, -1, 0], [0, -7, 1], [2, 6, 0], [2, 5, 1]], np.int32)
    found = SpecAugmentTimeMaskComponent(2).precompute_indexes(rows, rows, False)
    assert found.rows.tolist() == [3, 1, 2, 0, 5, 4] and found.starts.tolist() == [0, 2, 6]
    assert found.rows.dtype == found.starts.dtype == np.int32
    with pytest.raises(CompileError, match="same ones"):
        SpecAugmentTimeMaskComponent(2).precompute_indexes(rows[::-1], rows, False)


@pytest.mark.parametrize("binary", [True, False])
def test_files_of_precomputed_indexes(binary):
    rows = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0]], np.int32)
    indexes = SpecAugmentTimeMaskComponent(2).precompute_indexes(rows, rows, False)
    stream = io.BytesIO()
    indexes.write(TokenWriter(stream, binary))
    if not binary:
        assert stream.getvalue().decode().split() == (
            "<SpecAugmentTimeMaskComponentPrecomputedIndexes> <Indexes> 2 [ 1 ] [ 0 2 ] "
            "</SpecAugmentTimeMaskComponentPrecomputedIndexes>").split()
    data = (b"\0B" if binary else b"") + stream.getvalue()
    reader = TokenReader(io.BytesIO(data), size=len(data))
    reader.read_header()
    again = SpecAugmentTimeMaskComponentPrecomputedIndexes.read(reader)
    for name, value in vars(indexes).items():
        np.testing.assert_array_equal(getattr(again, name), value)
        assert getattr(again, name).dtype == np.int32


@pytest.mark.parametrize("text", ["1 [ 0 2 ]", "2 [ 0 1 ] [ 1 ]", "1 [ -1 0 ]", "-1", "2000000000 [ 0 ]", "2 [ 0 ]"])
def test_damaged_precomputed_indexes(text):
    with pytest.raises(FormatError):
        read_text(SpecAugmentTimeMaskComponentPrecomputedIndexes,
                  f"<Indexes> {text} </SpecAugmentTimeMaskComponentPrecomputedIndexes> ")


# -- networks ----------------------------------------------------------------------------------------------------------


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


# -- files and config lines --------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("test_mode", [True, False])
def test_files(binary, test_mode):
    component = SpecAugmentTimeMaskComponent(3, 0.25, 7, test_mode)
    again = reread(component, binary)
    assert vars(again) == vars(component) and written(again, binary) == written(component, binary)


TEXT = ("<SpecAugmentTimeMaskComponent> <Dim> 3 <ZeroedProportion> 0.25 <TimeMaskMaxFrames> 7 <TestMode> "
        "</SpecAugmentTimeMaskComponent> ")


def test_text():
    assert written(SpecAugmentTimeMaskComponent(3, 0.25, 7, True), False).decode() == TEXT
    assert vars(read_text(SpecAugmentTimeMaskComponent, TEXT.partition(" ")[2])) == vars(
        SpecAugmentTimeMaskComponent(3, 0.25, 7, True))


@pytest.mark.parametrize("old, new", [
    ("<Dim> 3", "<Dim> 0"), ("0.25", "x"), ("<TestMode> ", "<TestMode> T "), ("</Spec", "</Spoc"),
    ("<TimeMaskMaxFrames> 7", "<TimeMaskMaxFrames> 7.5"), ("<ZeroedProportion>", "<Zeroed>")])
def test_damaged_files(old, new):
    assert old in TEXT
    with pytest.raises(FormatError):
        read_text(SpecAugmentTimeMaskComponent, TEXT.replace(old, new))


def test_config():
    component = from_config(SpecAugmentTimeMaskComponent, "dim=3")
    assert vars(component) == vars(SpecAugmentTimeMaskComponent(3, 0.25, 10))
    assert component.info() == "SpecAugmentTimeMaskComponent, dim=3, zeroed-proportion=0.25, time-mask-max-frames=10"
    assert int(component.properties) == 0x3104
    assert from_config(SpecAugmentTimeMaskComponent, "dim=3 zeroed-proportion=0").zeroed_proportion == 0.0


@pytest.mark.parametrize("text", ["", "dim=0", "dim=3 time-mask-max-frames=1", "dim=3 zeroed-proportion=1",
                                  "dim=3 zeroed-proportion=0.95", "dim=3 zeroed-proportion=-0.1"])
def test_bad_config_lines(text):
    with pytest.raises(ConfigError, match="Invalid initializer for layer of type SpecAugmentTimeMaskComponent"):
        from_config(SpecAugmentTimeMaskComponent, text)


def test_test_mode_is_no_key():
    with pytest.raises(ConfigError, match="test-mode"):
        from_config(SpecAugmentTimeMaskComponent, "dim=3 test-mode=true")
