"""nnet3py/training/loss_function.py: functions of arrays and of tensors, and what is said of wrong ones."""
from __future__ import annotations

import functools
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.training.loss_function import Loss

OUTPUT = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
CLASSES = np.array([[0, 3, -1], [2, 2, 1]])
ROUNDING = 1e-6          # of float32 sums of a few terms


def half_square(output: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
    return 0.5 * float(((output - target) ** 2).sum()), output - target


def test_a_function_of_arrays() -> None:
    loss = Loss(half_square, reduction="sum")
    assert repr(loss) == "<Loss half_square: of arrays, a sum over frames>" and not loss.tensors
    target = np.ones((2, 3, 4), np.float32)
    value, derivative = loss(OUTPUT.copy(), target)
    assert value == pytest.approx(0.5 * float(((OUTPUT - 1) ** 2).sum()))
    np.testing.assert_array_equal(derivative, OUTPUT - 1)
    assert loss(OUTPUT.copy(), target, with_derivative=False) == (value, None)
    assert Loss(functools.partial(half_square)).name == "half_square" and Loss(half_square).reduction == "mean"


@pytest.mark.parametrize(("function", "error", "message"), [
    (lambda y, t: 3.0, UsageError, r"the loss <lambda> of 'output' returned float, expected \(value, derivative\)"),
    (lambda y, t: (1.0, y, t), UsageError, "returned a tuple of 3, expected"),
    (lambda y, t: ("low", y), UsageError, "has a value of type str, expected a number"),
    (lambda y, t: (None, y), UsageError, "has a value of type NoneType, expected a number"),
    (lambda y, t: (y, y), ShapeError, r"has a value of shape \(2, 3, 4\), expected one number .*reduction='sum'"),
    (lambda y, t: (1.0, None), UsageError, "returned a derivative of type NoneType"),
    (lambda y, t: (1.0, y[0]), ShapeError, r"derivative of shape \(3, 4\), expected the output's shape \(2, 3, 4\)"),
    (lambda y, t: (float("nan"), y), NumericError, "the loss <lambda> of 'output' is nan .*try a lower learning rate"),
    (lambda y, t: (float("inf"), y), NumericError, "is inf"),
    (lambda y, t: (1.0, y * np.nan), NumericError, "the derivative of the loss <lambda> of 'output' has nan in row 0")])
def test_wrong_functions_of_arrays(function, error: type, message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        Loss(function)(OUTPUT.copy(), CLASSES, where="'output'")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("arguments", "message"), [
    ((3,), "loss=3 is a int, expected a function"), (("mse",), "loss='mse' is a str, expected a function"),
    ((Loss,), r"the loss is the class Loss, expected an object of it .loss=Loss\(…\)"),
    ((half_square, "none"), "the loss half_square has the reduction 'none', expected 'mean' or 'sum'")])
def test_what_is_no_loss(arguments: tuple, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Loss(arguments[0], reduction=arguments[1] if len(arguments) > 1 else None)


def test_errors_of_the_function_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """But where it may have wanted tensors, the message says how it gets them."""
    def wrong(output: np.ndarray, target: np.ndarray) -> object:
        return output.no_such_method()

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(AttributeError, match="no_such_method"):
        Loss(wrong)(OUTPUT.copy(), CLASSES)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())      # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"failed with numpy arrays: AttributeError: .*Loss\(wrong, tensors=True\)"):
        Loss(wrong)(OUTPUT.copy(), CLASSES)


def test_a_function_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    target = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)

    def half_square_of_tensors(output, wanted):
        assert output.shape == (2, 3, 4) and wanted.dtype == torch.float32
        return 0.5 * ((output - wanted) ** 2).sum()

    loss = Loss(half_square_of_tensors, tensors=True)
    value, derivative = loss(OUTPUT.copy(), target)
    expected, wanted = half_square(OUTPUT, target)
    assert value == pytest.approx(expected, rel=ROUNDING)
    np.testing.assert_allclose(derivative, wanted, rtol=ROUNDING)
    assert loss(OUTPUT.copy(), target, with_derivative=False) == (value, None)

    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, output, wanted):
            return (self.scale * half_square_of_tensors(output, wanted)).reshape(1)

    module = Own()
    assert Loss(module).tensors and not Loss(module).takes_rows and Loss(module).name == "Own"
    np.testing.assert_allclose(Loss(module)(OUTPUT.copy(), target)[1], wanted, rtol=ROUNDING)
    assert module.scale.grad.item() == pytest.approx(expected, rel=ROUNDING)      # a loss may learn, too


def test_losses_of_torch_get_rows() -> None:
    """Those of frames that count, so that classes are looked for where torch looks for them."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    log_probs = OUTPUT - np.log(np.exp(OUTPUT).sum(axis=2, keepdims=True))
    counts = CLASSES >= 0
    expected = -log_probs[counts, CLASSES[counts]]
    onehot = np.zeros_like(OUTPUT)
    onehot[counts, CLASSES[counts]] = 1
    gradient = np.where(counts[:, :, None], np.exp(log_probs) - onehot, 0)
    for function, reduction in ((torch.nn.CrossEntropyLoss(), "mean"), (functional.cross_entropy, "mean"),
                                (torch.nn.CrossEntropyLoss(reduction="sum"), "sum"),
                                (functools.partial(functional.cross_entropy, reduction="sum"), "sum")):
        loss = Loss(function)
        assert loss.takes_rows and loss.reduction == reduction
        value, derivative = loss(OUTPUT.copy(), CLASSES)
        divisor = counts.sum() if reduction == "mean" else 1
        assert value == pytest.approx(expected.sum() / divisor, rel=1e-5)
        np.testing.assert_allclose(derivative, gradient / divisor, atol=1e-6)
    assert Loss(torch.nn.KLDivLoss(reduction="batchmean")).reduction == "mean"
    value, _ = Loss(torch.nn.MSELoss())(OUTPUT.copy(), np.zeros((2, 3, 4), np.float32))
    assert value == pytest.approx(float((OUTPUT ** 2).mean()), rel=1e-5)


def test_wrong_functions_of_tensors() -> None:
    torch = pytest.importorskip("torch")

    def call(function, **settings: object) -> None:
        Loss(function, **settings)(OUTPUT.copy(), CLASSES, where="'output'")        # type: ignore[arg-type]

    with pytest.raises(UsageError, match=r"returned a tuple of 2, expected a tensor of one number.*tensors=False"):
        call(lambda y, t: (y.sum(), y), tensors=True)
    with pytest.raises(UsageError, match=r"does not depend on the output, .*leave out detach"):
        call(lambda y, t: y.detach().sum(), tensors=True)
    with pytest.raises(ShapeError, match=r"has a value of shape \(2, 3, 4\), expected one number"):
        call(lambda y, t: y, tensors=True)
    with pytest.raises(UsageError, match="the reduction 'none'"):
        call(torch.nn.MSELoss(reduction="none"))
    with pytest.raises(NumericError, match="of 'output' is nan"):
        call(lambda y, t: (y * float("nan")).sum(), tensors=True)
    with pytest.raises(UsageError, match=r"failed with numpy arrays: .*Loss\(<lambda>, tensors=True\)"):
        call(lambda y, t: y.log_softmax(-1).mean())
    with pytest.raises(UsageError, match=r"returned a tensor of shape \(\), .*Loss\(<lambda>, tensors=True\)"):
        call(lambda y, t: torch.tensor(1.0))


def test_other_targets_pass_through() -> None:
    seen = []

    def loss(output: np.ndarray, target: object) -> tuple[float, np.ndarray]:
        seen.append(target)
        return 0.0, np.zeros_like(output)

    Loss(loss)(OUTPUT.copy(), ["anything"])
    assert seen == [["anything"]]
