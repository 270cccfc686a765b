"""nnet3py/training/array_trainer.py: steps on arrays are the trainer's steps on examples."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from runtime_cases import TDNN, TDNN_CONTEXT, parameters
from test_objectives import MEANS, SUM, check_same, half_square, mean_cross_entropy

import nnet3py
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.index import sequence_indexes
from nnet3py.network.nnet import Nnet
from nnet3py.training.loss_function import Loss
from nnet3py.training.options import TrainerOptions
from nnet3py.training.targets import as_supervision
from nnet3py.training.trainer import NnetTrainer

N, T, DIM = 3, 4, 4
RNG = np.random.default_rng(0)
FEATS = [RNG.standard_normal((N, T, 3)).astype(np.float32) for _ in range(6)]
CLASSES = [RNG.integers(-1, DIM, (N, T)) for _ in range(6)]

WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=4 learning-rate=0.05
component name=r type=RectifiedLinearComponent dim=4
component name=n type=BatchNormComponent dim=4
component name=d type=DropoutComponent dim=4 dropout-proportion=0.3
component name=b type=LinearComponent input-dim=4 output-dim=4 learning-rate=0.05 orthonormal-constraint=1.0
component name=l type=LogSoftmaxComponent dim=4
component-node name=a component=a input=Append(Offset(input, -1), Offset(input, 1), ReplaceIndex(ivector, t, 0))
component-node name=r component=r input=a
component-node name=n component=n input=r
component-node name=d component=d input=n
component-node name=b component=b input=d
component-node name=l component=l input=b
output-node name=output input=l
output-node name=shifted input=Offset(b, 2) objective=quadratic
"""
IVECTORS = RNG.standard_normal((N, 2)).astype(np.float32)


def example(feats: np.ndarray, classes: np.ndarray, context: tuple[int, int]) -> NnetExample:
    """The same as an example, with copies of the first and the last frame as context."""
    left, right = context
    padded = np.pad(feats, ((0, 0), context, (0, 0)), "edge")
    return NnetExample([
        NnetIo("input", sequence_indexes(N, np.arange(-left, T + right)), padded.reshape(-1, 3)),
        NnetIo("output", sequence_indexes(N, np.arange(T)), as_supervision(classes.ravel(), N * T, DIM))])


@pytest.mark.parametrize("options", [{}, {"momentum": 0.5, "srand": 3}, {"backstitch_training_scale": 0.3}])
@pytest.mark.parametrize("loss", [None, SUM])
def test_a_step_is_the_trainers(loss: Loss | None, options: dict) -> None:
    theirs, mine = Nnet.from_config(TDNN, seed=2), Nnet.from_config(TDNN, seed=2)
    expected = NnetTrainer(theirs, TrainerOptions(**options))
    trainer = nnet3py.Trainer(mine, loss=loss, **options)
    for feats, classes in zip(FEATS, CLASSES, strict=True):
        eg = example(feats, classes, TDNN_CONTEXT)
        expected.train(eg)
        value = trainer.step(feats, classes)
        totals = expected.objectives["output_backstitch" if "backstitch_training_scale" in options else "output"]
        frames = (classes >= 0).sum()
        assert totals.phase_weight > 0 and value == pytest.approx(
            value if totals.phase_minibatches > 1 else -totals.total_objective / (1 if loss else frames), rel=1e-5)
    check_same(theirs, mine)
    assert trainer.num_steps == 6 and trainer.nnet is mine
    assert repr(trainer).startswith("<Trainer: 6 steps, losses on average output ")


def test_a_mean_loss_and_a_learning_rate() -> None:
    theirs, mine = Nnet.from_config(TDNN, seed=2), Nnet.from_config(TDNN, seed=2)
    first, second = nnet3py.Trainer(theirs, learning_rate=0.02), nnet3py.Trainer(mine, loss=mean_cross_entropy)
    assert first.learning_rate == 0.02 and np.isnan(second.learning_rate)
    for number, (feats, classes) in enumerate(zip(FEATS, CLASSES, strict=True)):
        if number == 3:
            first.learning_rate = 0.004
        second.learning_rate = 0.02 if number < 3 else 0.004
        assert first.step(feats, classes) == pytest.approx(second.step(feats, classes), rel=1e-4)
    check_same(theirs, mine, MEANS)
    assert mine["a"].learning_rate == pytest.approx(0.004) and "learning rate 0.004" in repr(second)
    with pytest.raises(UsageError, match="learning_rate=0 must be above 0 .nnet3py.freeze"):
        second.learning_rate = 0


def test_one_sequence_needs_no_axis() -> None:
    theirs, mine = Nnet.from_config(TDNN, seed=2), Nnet.from_config(TDNN, seed=2)
    first, second = nnet3py.Trainer(theirs), nnet3py.Trainer(mine)
    first.step(FEATS[0][:1], CLASSES[0][:1])
    second.step(FEATS[0][0], CLASSES[0][0])
    check_same(theirs, mine)
    assert second.forward(FEATS[0][0]).shape == (T, DIM)


def test_forward_and_backward_are_a_step() -> None:
    theirs, mine = Nnet.from_config(WITH_IVECTOR, seed=2), Nnet.from_config(WITH_IVECTOR, seed=2)
    options = TrainerOptions(momentum=0.3, srand=5)
    expected = nnet3py.Trainer(theirs, loss=mean_cross_entropy, options=options)
    trainer = nnet3py.Trainer(mine, options=options)
    for feats, classes in zip(FEATS, CLASSES, strict=True):
        value = expected.step(feats, classes, IVECTORS)
        output = trainer.forward(feats, IVECTORS)
        assert output.shape == (N, T, DIM)
        again, derivative = mean_cross_entropy(output, classes)
        assert again == pytest.approx(value, rel=1e-4)
        trainer.backward(derivative, num_frames=(classes >= 0).sum())
    check_same(theirs, mine, MEANS)
    assert trainer.num_steps == 6


def test_the_mean_is_over_all_frames_unless_it_is_said() -> None:
    networks = [Nnet.from_config(TDNN, seed=2) for _ in range(3)]
    derivative = RNG.standard_normal((N, T, DIM)).astype(np.float32)
    for network, factor, num_frames in zip(networks, (1, N * T, 1), (None, 1, N * T), strict=True):
        trainer = nnet3py.Trainer(network)
        trainer.forward(FEATS[0])
        trainer.backward(derivative * factor, num_frames=num_frames)
    check_same(networks[0], networks[1], MEANS)
    check_same(networks[0], networks[2])


def test_several_outputs_and_their_context() -> None:
    """Outputs that look at other frames are computed together; a missing derivative is 0."""
    targets = RNG.standard_normal((N, T, DIM)).astype(np.float32)
    networks = [Nnet.from_config(WITH_IVECTOR, seed=2) for _ in range(3)]
    half = Loss(half_square, reduction="sum")
    values = []
    for network, loss in zip(networks, (None, {"output": SUM}, {"output": SUM, "shifted": half}), strict=False):
        trainer = nnet3py.Trainer(network, loss=loss)
        values.append(trainer.step(FEATS[0], {"output": CLASSES[0], "shifted": targets}, IVECTORS))
    check_same(networks[0], networks[1])
    check_same(networks[0], networks[2])
    frames = (CLASSES[0] >= 0).sum()
    outputs = nnet3py.Trainer(Nnet.from_config(WITH_IVECTOR, seed=2)).forward(FEATS[0], IVECTORS, ["shifted", "output"])
    assert {name: value.shape for name, value in outputs.items()} == dict.fromkeys(("shifted", "output"), (N, T, DIM))
    cross, square = SUM(outputs["output"], CLASSES[0])[0], half(outputs["shifted"], targets)[0]
    assert values == pytest.approx([cross / frames + square / (N * T), cross + square / (N * T), cross + square],
                                   rel=1e-5)
    trainer = nnet3py.Trainer(Nnet.from_config(WITH_IVECTOR, seed=2), srand=1)
    other = nnet3py.Trainer(Nnet.from_config(WITH_IVECTOR, seed=2), srand=1)
    trainer.forward(FEATS[0], IVECTORS, ["shifted", "output"])
    trainer.backward({"shifted": targets})
    other.forward(FEATS[0], IVECTORS, ["shifted", "output"])
    other.backward({"shifted": targets, "output": np.zeros((N, T, DIM))})
    check_same(trainer.nnet, other.nnet)


def test_subsampling_and_frames_that_are_given() -> None:
    left, right = TDNN_CONTEXT
    nnet = Nnet.from_config(TDNN, seed=2)
    long = RNG.standard_normal((N, 9 + left + right, 3)).astype(np.float32)
    thirds = nnet3py.Trainer(nnet.copy(), frame_subsampling_factor=3).forward(long[:, left:left + 7])
    every = nnet3py.Trainer(nnet.copy()).forward(long[:, left:left + 7])
    np.testing.assert_allclose(thirds, every[:, ::3], atol=1e-6)
    given = nnet3py.Trainer(nnet.copy(), padding=False)
    whole = nnet3py.Trainer(nnet.copy()).forward(long)
    np.testing.assert_allclose(given.forward(long), whole[:, left:-right], atol=1e-6)
    given_thirds = nnet3py.Trainer(nnet.copy(), padding=False, frame_subsampling_factor=3)
    np.testing.assert_allclose(given_thirds.forward(long), whole[:, left:-right:3], atol=1e-6)
    np.testing.assert_allclose(given_thirds.forward(long[:, :-2]), whole[:, left:-right:3], atol=1e-6)
    assert given_thirds.step(long, np.zeros((N, 3), int)) > 0
    with pytest.raises(ShapeError, match="expected more than 8 frames, .* 5 before and 3 after, found 8 .padding=Tr"):
        given.forward(long[:, :8])
    with pytest.raises(ShapeError, match=r"targets of 3 sequences of 9 frames, found \(3, 17\) .padding=True makes 17"):
        given.step(long, np.zeros((N, 17), int))
    with pytest.raises(ShapeError, match=r"of 17 frames, found \(3, 9\) .padding=False makes 9 frames of 17"):
        nnet3py.Trainer(nnet).step(long, np.zeros((N, 9), int))


def test_tensors_and_other_float_types() -> None:
    torch = pytest.importorskip("torch")
    networks = [Nnet.from_config(TDNN, seed=2) for _ in range(4)]
    for network, dtype in zip(networks, (None, torch.float32, torch.float64, torch.float32), strict=True):
        trainer = nnet3py.Trainer(network, loss=torch.nn.NLLLoss())
        for feats, classes in zip(FEATS, CLASSES, strict=True):
            if dtype is None:
                trainer.step(feats.astype(np.float64), classes)
            elif network is networks[3]:
                output = torch.from_numpy(trainer.forward(torch.tensor(feats))).requires_grad_()
                loss = torch.nn.functional.nll_loss(output.flatten(0, 1), torch.tensor(classes).flatten(),
                                                    ignore_index=-1)
                loss.backward()
                trainer.backward(output.grad, num_frames=(classes >= 0).sum())
            else:
                trainer.step(torch.tensor(feats, dtype=dtype, requires_grad=True), torch.tensor(classes))
    for network in networks[1:]:
        check_same(networks[0], network, MEANS)


def test_components_frozen_meanwhile_stay() -> None:
    nnet = Nnet.from_config(WITH_IVECTOR, seed=2)
    trainer = nnet3py.Trainer(nnet, loss=mean_cross_entropy, momentum=0.5)
    trainer.step(FEATS[0], CLASSES[0], IVECTORS)
    nnet3py.freeze(nnet, "a")
    before = parameters(nnet)
    trainer.learning_rate = 0.02
    for _ in range(5):
        trainer.step(FEATS[0], CLASSES[0], IVECTORS)
        trainer.forward(FEATS[1], IVECTORS)
        trainer.backward(np.ones((N, T, DIM)))
    assert {name for name, value in parameters(nnet).items() if (value != before[name]).any()} == {"b.params"}


def test_a_with_statement_logs_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nnet3py.training")
    with nnet3py.Trainer(Nnet.from_config(TDNN), loss=lambda y, t: (2.0, np.zeros_like(y))) as trainer:
        assert trainer.step(FEATS[0], CLASSES[0]) == 2.0
    frames = (CLASSES[0] >= 0).sum()
    assert f"Overall average objective function for 'output' is -2 over {frames} frames." in caplog.messages
    caplog.clear()
    with pytest.raises(ZeroDivisionError), nnet3py.Trainer(Nnet.from_config(TDNN)):
        raise ZeroDivisionError
    assert not caplog.messages
    nnet = Nnet.from_config(TDNN)
    assert nnet3py.Trainer(nnet).finish() is nnet


def test_what_a_loss_takes_is_passed_on() -> None:
    class Words:
        pass

    words, seen = Words(), []

    def loss(output: np.ndarray, target: object) -> tuple[float, np.ndarray]:
        seen.append((output.shape, target))
        return 1.0, np.zeros_like(output)

    trainer = nnet3py.Trainer(Nnet.from_config(TDNN), loss=loss)
    trainer.step(FEATS[0], words, num_frames=5)
    assert seen == [((N, T, DIM), words)]
    trainer = nnet3py.Trainer(Nnet.from_config(TDNN), loss=Loss(loss, classes=False))
    trainer.step(FEATS[0], CLASSES[0])
    assert seen[1][1].shape == (N, T, DIM) and seen[1][1].sum() == (CLASSES[0] >= 0).sum()
    trainer = nnet3py.Trainer(Nnet.from_config(TDNN), loss=loss)
    trainer.step(FEATS[0], np.full((N, T), 99))                  # classes that are none of the output's
    trainer.step(FEATS[0], np.ones((N, T, 7)))
    assert seen[2][1][0, 0] == 99 and seen[3][1].shape == (N, T, 7) and seen[3][1].dtype == np.float32


def zero_loss(output: np.ndarray, target: object) -> tuple[float, np.ndarray]:
    return 0.0, np.zeros_like(output)


@pytest.mark.parametrize(("code", "error", "message"), [
    ("Trainer(nnet, momentun=0.5)", UsageError, "a trainer has no option 'momentun' .did you mean 'momentum'"),
    ("Trainer(nnet, momentum=-1)", UsageError, "momentum=-1: expected 0 or more"),
    ("Trainer(nnet, loss={'x': zero_loss})", UsageError, "a loss for 'x', which is no output .*its outputs are output"),
    ("Trainer(nnet, frame_subsampling_factor=0).forward(x)", UsageError, "frame_subsampling_factor=0 must be 1 or"),
    ("trainer.step(x[:, :, :2], c)", ShapeError, r"expected features \(sequences, frames, 3\) or .*found \(3, 4, 2\)"),
    ("trainer.step(x[0, 0], c)", ShapeError, r"expected features .*found \(3,\)"),
    ("trainer.step(x[:, :0], c)", ShapeError, r"expected features .*found \(3, 0, 3\)"),
    ("trainer.step(x, c[:, :2])", ShapeError, r"expected targets of 3 sequences of 4 frames, found \(3, 2\)"),
    ("trainer.step(x, c, np.ones((3, 2)))", ShapeError, r"expected no i-vectors, found \(3, 2\)"),
    ("trainer.step(x, c + 9)", ShapeError, "the targets of 'output': .* the output has the classes 0 to 3"),
    ("trainer.step(x, {'outptu': c})", UsageError, "the network has no output 'outptu' .did you mean 'output'"),
    ("trainer.step(x, {})", UsageError, "expected the name of an output or several, found none"),
    ("trainer.step(x * np.nan, c)", NumericError, "input 'input' has nan"),
    ("trainer.step(x, x[:, :, [0, 0, 0, 0]] * np.nan)", NumericError, "the targets of 'output' has nan"),
    ("Trainer(nnet, loss=lambda y, t: 1.0).step(x, c)", UsageError, "minibatch 0: the loss <lambda> of 'output' ret"),
    ("trainer.backward(x)", UsageError, "there are none .call forward before each backward"),
    ("(trainer.forward(x), trainer.step(x, c), trainer.backward(x))", UsageError, "call forward before"),
    ("(trainer.forward(x), trainer.backward(x))", ShapeError, r"to be float \(3, 4, 4\), found \(3, 4, 3\)"),
    ("(trainer.forward(x[0]), trainer.backward(x))", ShapeError, r"to be float \(4, 4\), found \(3, 4, 3\)"),
    ("(trainer.forward(x, outputs=['output']), trainer.backward(x))", UsageError, "the names output, found ndarray"),
    ("(trainer.forward(x, outputs=['output']), trainer.backward({'x': 1}))", UsageError, "names output, found x"),
    ("(trainer.forward(x), trainer.backward(np.full((3, 4, 4), np.inf)))", NumericError, "derivative of 'output' has"),
    ("Trainer(nnet, backstitch_training_scale=0.3).forward(x)", UsageError, "backstitch computes outputs twice")])
def test_what_is_refused(code: str, error: type, message: str) -> None:
    nnet = Nnet.from_config(TDNN, seed=2)
    before = parameters(nnet)
    names = {"nnet": nnet, "trainer": nnet3py.Trainer(nnet), "Trainer": nnet3py.Trainer, "x": FEATS[0],
             "c": CLASSES[0], "np": np, "zero_loss": zero_loss}
    with pytest.raises(error, match=message) as raised:
        eval(code, names)
    assert "\n" not in str(raised.value)
    if "step(x, c), trainer" not in code:
        for name, value in parameters(nnet).items():
            np.testing.assert_array_equal(before[name], value)


def test_classes_want_log_probabilities_without_a_loss() -> None:
    nnet = Nnet.from_config(TDNN.replace("output-node name=output input=l", "output-node name=output input=c"))
    with pytest.raises(UsageError, match="expected a log-softmax at its end, .*nnet3py.train.…, loss="):
        nnet3py.Trainer(nnet).step(FEATS[0], CLASSES[0])
    torch = pytest.importorskip("torch")
    trainer = nnet3py.Trainer(nnet, loss=torch.nn.CrossEntropyLoss())
    values = [trainer.step(FEATS[0], CLASSES[0]) for _ in range(30)]
    assert values[-1] < values[0]
