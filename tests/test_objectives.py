"""nnet3py/training/objectives.py: kinds of supervision, losses in their place, and lines that recipes parse."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from runtime_cases import ROUNDING, TDNN, TDNN_CONTEXT, assert_close, class_example, dense_example, parameters, plain

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, to_dense
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.training.loss_function import Loss
from nnet3py.training.objectives import (
    Frames,
    LossTarget,
    ObjectiveStats,
    OutputObjectives,
    check_supervision,
    compute_objective,
)
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import NnetTrainer

ROWS, DIM = 7, 5
SPARSE = SparseMatrix.from_rows(
    [[(1, 1.0)], [(0, 0.25), (4, 0.75)], [], [(3, 2.0)], [(2, -0.5)], [(4, 1.0)], [(0, 0.125), (1, 0.5), (2, 0.25)]],
    DIM)


def kinds() -> dict[str, GeneralMatrix]:
    compressed = CompressedMatrix.compress(SPARSE.to_dense())
    return {"sparse": SPARSE, "dense": SPARSE.to_dense(), "double": SPARSE.to_dense().astype(np.float64),
            "compressed": compressed}


def output() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, DIM), dtype=np.float32)


@pytest.mark.parametrize("objective", ["linear", "quadratic"])
@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("with_deriv", [True, False])
def test_objectives(kind, with_deriv, objective):
    supervision = kinds()[kind]
    s, y = to_dense(supervision), output()
    deriv = np.full((ROWS, DIM), 9.0, dtype=np.float32) if with_deriv else None
    found = compute_objective(get_ops("cpu"), objective, supervision, y, deriv)
    weight, value, wanted = {
        "linear": (s.sum(dtype=np.float64), (y.astype(np.float64) * s).sum(), s),
        "quadratic": (ROWS, -0.5 * ((s - y).astype(np.float64) ** 2).sum(), s - y)}[objective]
    assert (found.weight, found.value) == pytest.approx((float(weight), float(value)), rel=ROUNDING)
    if deriv is not None:
        assert_close(deriv, wanted)
    np.testing.assert_array_equal(y, output())


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_the_derivative_is_that_of_the_value(kind):
    y, deriv = output(), np.empty((ROWS, DIM), dtype=np.float32)
    compute_objective(get_ops("cpu"), kind, SPARSE, y, deriv)
    step = np.zeros_like(y)
    for row, col in ((0, 1), (1, 4), (3, 0), (6, 2)):
        step[:] = 0
        step[row, col] = 0.5
        high, low = (compute_objective(get_ops("cpu"), kind, SPARSE, y + sign * step, None).value for sign in (1, -1))
        assert high - low == pytest.approx(deriv[row, col], abs=1e-5)    # a quadratic: exact but for rounding


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_bad_supervision_is_named(kind):
    dense = SPARSE.to_dense()
    dense[4, 2] = np.nan
    with pytest.raises(NumericError, match="the supervision has nan in row 4, column 2"):
        compute_objective(get_ops("cpu"), kind, dense, output(), None)
    sparse = SparseMatrix.from_rows([[(0, np.inf)]], DIM)
    with pytest.raises(NumericError, match="the supervision.* has inf"):
        compute_objective(get_ops("cpu"), kind, sparse, output()[:1], None)


def test_supervision_must_fit():
    for supervision in kinds().values():
        check_supervision("output", supervision, (ROWS, DIM))
        message = r"dimension \(num-classes\) mismatch for 'output': 6 \(nnet\) vs. 5 \(egs\)"
        with pytest.raises(ShapeError, match=message):
            check_supervision("output", supervision, (ROWS, 6))
        with pytest.raises(ShapeError, match="supervision of 'output' has 7 rows for 8 output frames"):
            check_supervision("output", supervision, (8, DIM))


MEANS = 1e-5        # of the largest parameter: derivatives divided by the number of frames, and multiplied again

TWO_OUTPUTS = """
input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=3 output-dim=4 learning-rate=0.02
component name=l type=LogSoftmaxComponent dim=4
component-node name=a component=a input=input
component-node name=l component=l input=a
output-node name=output input=l
output-node name=flat input=a objective=quadratic
"""


def cross_entropy(output: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
    """A sum over frames; the output is log-probabilities."""
    derivative = np.zeros_like(output)
    counts = target >= 0
    np.put_along_axis(derivative, np.maximum(target, 0)[:, :, None], -counts[:, :, None].astype(np.float32), axis=2)
    return float((derivative * output).sum(dtype=np.float64)), derivative


def mean_cross_entropy(output: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
    value, derivative = cross_entropy(output, target)
    count = (target >= 0).sum()
    return value / count, derivative / count


def half_square(output: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
    return 0.5 * float(((output - target) ** 2).sum(dtype=np.float64)), output - target


SUM = Loss(cross_entropy, reduction="sum")


def trained(nnet: Nnet, examples: list[NnetExample], loss=None, **options: object) -> NnetTrainer:
    trainer = NnetTrainer(nnet, TrainerOptions(**options), loss)     # type: ignore[arg-type]
    for example in examples:
        trainer.train(example)
    return trainer


def check_same(first: Nnet, second: Nnet, tolerance: float = 0.0) -> None:
    for name, value in parameters(first).items():
        np.testing.assert_allclose(parameters(second)[name], value, rtol=0, atol=tolerance * np.abs(value).max())


@pytest.mark.parametrize("options", [
    {}, {"momentum": 0.5}, {"max_param_change": 0.05}, {"l2_regularize_factor": 0.5},
    {"backstitch_training_scale": 0.3}])
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_it_trains_as_the_objective(kind: str, options: dict) -> None:
    """To the byte: limits, momentum, l2 and backstitch see the same derivatives."""
    if kind == "classes":
        config = TDNN.replace("learning-rate=0.1", "learning-rate=0.1 l2-regularize=0.01")
        loss, make = SUM, class_example
    else:
        config = TDNN.replace("output-node name=output input=l", "output-node name=output input=c objective=quadratic")
        loss, make = Loss(half_square, reduction="sum"), dense_example
    left, right = TDNN_CONTEXT
    examples = [make(4, 3, seed=seed, left=left, right=right) for seed in range(6)]
    theirs, mine = Nnet.from_config(config, seed=2), Nnet.from_config(config, seed=2)
    before = parameters(mine)
    expected, found = trained(theirs, examples, **options), trained(mine, examples, loss, **options)
    check_same(theirs, mine)
    assert any((before[name] != value).any() for name, value in parameters(mine).items())
    assert found.objectives.keys() == expected.objectives.keys()
    for name, stats in expected.objectives.items():
        assert found.objectives[name].total_weight == stats.total_weight
        assert found.objectives[name].total_objective == pytest.approx(stats.total_objective, rel=1e-5)


def test_a_mean_trains_as_a_sum() -> None:
    examples = [class_example(5, 3, seed=seed) for seed in range(6)]
    theirs, mine = (Nnet.from_config(TWO_OUTPUTS, seed=2) for _ in range(2))
    expected, found = trained(theirs, examples), trained(mine, examples, mean_cross_entropy)
    check_same(theirs, mine, MEANS)
    assert found.objectives["output"].average() == pytest.approx(expected.objectives["output"].average(), rel=1e-5)


def test_losses_of_torch() -> None:
    torch = pytest.importorskip("torch")
    examples = [class_example(5, 3, seed=seed) for seed in range(6)]
    theirs = Nnet.from_config(TWO_OUTPUTS, seed=2)
    trained(theirs, examples)
    for loss in (torch.nn.functional.nll_loss, torch.nn.NLLLoss(reduction="sum"),
                 Loss(lambda y, t: -y.gather(2, t[:, :, None]).mean(), tensors=True)):
        mine = Nnet.from_config(TWO_OUTPUTS, seed=2)
        trained(mine, examples, loss)
        check_same(theirs, mine, MEANS)


def test_several_outputs() -> None:
    """Each has its own loss, or its objective; a loss alone is that of all."""
    examples = []
    for seed in range(4):
        first, second = class_example(3, 2, seed=seed), dense_example(3, 2, seed=seed + 9)
        examples.append(NnetExample([*first.io, NnetIo("flat", second.io[1].indexes, second.io[1].features)]))
    theirs = Nnet.from_config(TWO_OUTPUTS, seed=2)
    trained(theirs, examples)
    flat = Loss(half_square, reduction="sum")
    for loss in ({"output": SUM}, {"flat": flat}, {"output": SUM, "flat": flat}):
        mine = Nnet.from_config(TWO_OUTPUTS, seed=2)
        trained(mine, examples, loss)
        check_same(theirs, mine)
    seen = set()

    def both(output: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
        seen.add(target.dtype)
        return (cross_entropy if target.dtype == np.int64 else half_square)(output, target)

    mine = Nnet.from_config(TWO_OUTPUTS, seed=2)
    trained(mine, examples, Loss(both, reduction="sum"))
    check_same(theirs, mine)
    assert seen == {np.dtype(np.int64), np.dtype(np.float32)}
    with pytest.raises(UsageError, match=r"a loss for 'outptu', which is no output .*did you mean 'output'"):
        OutputObjectives(mine, {"outptu": SUM})
    with pytest.raises(UsageError, match="loss=7 is a int"):
        OutputObjectives(mine, 7)        # type: ignore[arg-type]


def test_sequences_are_found_in_any_order_of_rows() -> None:
    """The examples of runtime_cases have all sequences of a time together; the loss sees sequences of frames."""
    example = class_example(3, 2)
    frames = Frames.of(example.io[1].indexes, "output")
    rows = np.arange(6)
    assert frames.sequences(rows).tolist() == [[0, 3], [1, 4], [2, 5]]
    np.testing.assert_array_equal(frames.rows(frames.sequences(rows)), rows)
    in_order = Frames.of(example.io[1].indexes[[0, 3, 1, 4, 2, 5]], "output")
    assert in_order.order is None and in_order.sequences(rows).tolist() == [[0, 1], [2, 3], [4, 5]]
    np.testing.assert_array_equal(in_order.rows(in_order.sequences(rows)), rows)
    with pytest.raises(ShapeError, match="the sequences of a minibatch have from 1 to 2 frames of 'output'"):
        Frames.of(example.io[1].indexes[:5], "output")


def test_frames_that_do_not_count_and_weights() -> None:
    """Derivatives are multiplied by weights, as in Kaldi; a frame without a class gets none, whatever the loss says."""
    example = class_example(3, 2)
    example.io[1].features = SparseMatrix.from_rows([[(1, 0.5)], [], [(2, 1.0)], [(0, 0.25)], [], [(3, 1.0)]], 4)
    theirs, mine = Nnet.from_config(TWO_OUTPUTS, seed=2), Nnet.from_config(TWO_OUTPUTS, seed=2)
    trained(theirs, [example])
    seen = []

    def careless(output: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
        seen.append(target)
        derivative = cross_entropy(output, np.maximum(target, 0))[1]      # also for frames of the class -1
        return 1.0, derivative / 4

    trainer = trained(mine, [example], careless)
    assert seen[0].tolist() == [[1, 0], [-1, -1], [2, 3]]
    check_same(theirs, mine, MEANS)
    assert trainer.objectives["output"].total_weight == 4 and trainer.objectives["output"].total_objective == -4.0
    empty = class_example(3, 2)
    empty.io[1].features = SparseMatrix.from_rows([[]] * 6, 4)
    before = parameters(mine)
    trainer.train(empty)                                                  # a mean over nothing is not asked for
    assert len(seen) == 1 and trainer.objectives["output"].total_weight == 4
    for name, value in parameters(mine).items():
        np.testing.assert_array_equal(value, before[name])


def test_classes_or_numbers() -> None:
    seen = []

    def loss(output: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
        seen.append(target)
        return 0.0, np.zeros_like(output)

    classes, several = class_example(3, 2), class_example(3, 2)
    several.io[1].features = SparseMatrix.from_rows([[(1, 0.5), (2, 0.5)]] * 6, 4)
    compressed = dense_example(3, 2)
    compressed.io[1].features = CompressedMatrix.compress(compressed.io[1].features)
    trained(plain(), [classes, classes], loss)
    trained(plain(), [several, classes], loss)
    trained(plain(), [classes, several], Loss(loss, classes=False))
    trained(plain(), [compressed], loss)
    assert [(target.dtype, target.shape) for target in seen[:2]] == [(np.int64, (3, 2))] * 2
    assert [(target.dtype, target.shape) for target in seen[2:]] == [(np.float32, (3, 2, 4))] * 5
    np.testing.assert_array_equal(seen[3].argmax(axis=2), seen[0])
    assert seen[2].sum() == 6.0
    with pytest.raises(UsageError, match="minibatch 1: the loss loss takes the targets of 'output' as classes, one for "
                                        "each frame; found up to 2 classes for a frame .nnet3py.Loss.loss, classes=F"):
        trained(plain(), [classes, several], loss)
    with pytest.raises(UsageError, match="as classes, one for each frame; found numbers"):
        trained(plain(), [compressed], Loss(loss, classes=True))


def test_what_is_wrong_is_said_with_the_minibatch() -> None:
    nnet, example = plain(), dense_example(3, 2)
    before = parameters(nnet)
    trainer = NnetTrainer(nnet, loss=lambda y, t: (float("nan"), y))
    with pytest.raises(NumericError, match="minibatch 0: the loss <lambda> of 'output' is nan"):
        trainer.train(example)
    for name, value in parameters(nnet).items():
        np.testing.assert_array_equal(value, before[name])
    example.io[1].features = example.io[1].features[:5]
    with pytest.raises(ShapeError, match="supervision of 'output' has 5 rows for 6 output frames"):
        NnetTrainer(plain(), loss=half_square).train(example)
    example = dense_example(3, 2)
    example.io[1].features[2, 1] = np.nan
    with pytest.raises(NumericError, match="minibatch 0: the supervision has nan in row 2, column 1"):
        NnetTrainer(plain(), loss=half_square).train(example)


def test_targets_of_another_width() -> None:
    """A loss need not compare the output with numbers of its dimension."""
    example = dense_example(3, 2)
    example.io[1].features = np.ones((6, 1), np.float32)
    trainer = trained(plain(), [example] * 2, lambda y, t: (float((y.mean(axis=2) - t[:, :, 0]).mean()),
                                                           np.full_like(y, 1 / y.size)))
    values = trainer.objectives["output"]
    assert values.total_weight == 12 and values.phase_minibatches == 2


def test_wanted_of_arrays() -> None:
    frames = Frames(2, 2)
    wanted = LossTarget.of_array(frames, np.array([[0, -1], [2, 3]]), 7.0)
    assert wanted.weights is not None and wanted.weights.tolist() == [1, 0, 1, 1] and wanted.num_frames == 7.0
    for other in (np.zeros((2, 2, 1), np.float32), np.zeros((2, 2, 1), int), ["anything"]):
        assert LossTarget.of_array(frames, other).weights is None


TOTAL = "[this line is to be parsed by a script:] log-prob-per-frame="


@pytest.mark.parametrize(("name", "interval", "minibatches", "messages"), [
    pytest.param("output", 3, [(minibatch, 8.0, -8.0 * (minibatch + 1)) for minibatch in range(7)], [
        "Average objective function for 'output' for minibatches 0-2 is -2 over 24 frames.",
        "Average objective function for 'output' for minibatches 3-5 is -5 over 24 frames.",
        "Overall average objective function for 'output' is -4 over 56 frames.", f"{TOTAL}-4"], id="whole phases"),
    # a minibatch with this output after three phases; Kaldi leaves out the closing quote
    pytest.param("out-2", 10, [(0, 2.0, -1.0), (7, 2.0, -1.0), (31, 2.0, -3.0), (32, 2.0, -3.0), (45, 1.0, 0.0)], [
        "Average objective function for 'out-2 using 2 minibatches in minibatch range 0-29 is -0.5 over 4 frames.",
        "Average objective function for 'out-2 using 2 minibatches in minibatch range 30-39 is -1.5 over 4 frames.",
        "Overall average objective function for 'out-2' is -0.888889 over 9 frames.", f"{TOTAL}-0.888889"], id="gaps"),
    # Kaldi reports the empty phase 0
    pytest.param("output", 5, [(12, 1.0, -1.0)], [
        "Average objective function for 'output using 0 minibatches in minibatch range 0-9 is nan over 0 frames.",
        "Overall average objective function for 'output' is -1 over 1 frames.", f"{TOTAL}-1"], id="later phase"),
    pytest.param("output", 100, [(0, 1000000.0, -1234567.0), (1, 500000.0, -765433.0)], [
        "Overall average objective function for 'output' is -1.33333 over 1.5e+06 frames.", f"{TOTAL}-1.33333"],
        id="large numbers"),
    pytest.param("output", 100, [(0, 0.0, 0.0)], [
        "Overall average objective function for 'output' is nan over 0 frames.", f"{TOTAL}nan"], id="no weight")])
def test_lines_of_the_log(caplog, name, interval, minibatches, messages):
    caplog.set_level(logging.INFO)
    stats = ObjectiveStats(name, interval)
    for minibatch, weight, objective in minibatches:
        stats.add(minibatch, weight, objective)
    stats.log_total()
    assert caplog.messages == messages
    places = [("PrintStatsForThisPhase", "nnet-training.cc", 278)] * (len(messages) - 2)
    assert [record.kaldi_place for record in caplog.records] == [
        *places, ("PrintTotalStats", "nnet-training.cc", 317), ("PrintTotalStats", "nnet-training.cc", 324)]
