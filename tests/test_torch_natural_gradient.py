"""nnet3py/torch/natural_gradient.py: the steps of Kaldi's trainer, in torch."""
from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from chain_graphs import chain_example, random_graph

pytest.importorskip("torch", reason="the extra torch")

import torch

from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import constrain_matrix
from nnet3py.ops import get_ops
from nnet3py.torch import ChainLoss, NaturalGradient, orthonormal_constraint_
from nnet3py.training.chain_trainer import ChainTrainer
from nnet3py.training.options import ChainOptions, TrainerOptions

SAME = 1e-5           # after several steps in float32, whose sums are in another order
EXACT = 1e-6
PDFS, DIM, RATE, LEAKY, STEPS, SEQUENCES, FRAMES = 6, 5, 0.02, 0.1, 14, 3, 8

LINEAR = f"type=NaturalGradientAffineComponent input-dim={DIM} output-dim={PDFS}"
TDNN = f"type=TdnnComponent time-offsets=-1,0,1 input-dim={DIM} output-dim={PDFS}"


@pytest.fixture(scope="module")
def graph() -> DenominatorGraph:
    return DenominatorGraph(random_graph(np.random.default_rng(1), 6, PDFS), PDFS)


def network(component: str) -> Nnet:
    return Nnet.from_config(f"""input-node name=input dim={DIM}
component name=a {component} learning-rate={RATE} max-change=0.06
component-node name=a component=a input=input
output-node name=output input=a objective=linear""", seed=1)


class Convolution(torch.nn.Module):
    """Of frames that are the second axis."""

    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(DIM, PDFS, 3, **settings)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


def parameters(layer: torch.nn.Module) -> list[np.ndarray]:
    """Of Kaldi's shape."""
    weight = layer.weight.detach()
    return [(weight.permute(0, 2, 1).reshape(PDFS, -1) if weight.ndim == 3 else weight).numpy().copy(),
            layer.bias.detach().numpy().copy()]


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("max_change", [0.0, 0.03])
@pytest.mark.parametrize("is_tdnn", [False, True])
def test_steps_are_the_trainers(graph: DenominatorGraph, is_tdnn: bool, max_change: float, momentum: float) -> None:
    """More steps than those in which an estimate is always updated; each layer's limit is reached in some."""
    nnet, context = network(TDNN if is_tdnn else LINEAR), int(is_tdnn)
    module = Convolution() if is_tdnn else torch.nn.Linear(DIM, PDFS)
    layer = module.conv if is_tdnn else module
    own = nnet["a"].parameters()
    with torch.no_grad():
        weight = torch.from_numpy(own["linear_params"].copy())
        layer.weight.copy_(weight.reshape(PDFS, 3, DIM).permute(0, 2, 1) if is_tdnn else weight)
        layer.bias.copy_(torch.from_numpy(own["bias_params"].copy()))
    before = parameters(layer)
    trainer = ChainTrainer(nnet, lambda name: graph, TrainerOptions(max_param_change=max_change, momentum=momentum),
                           ChainOptions(leaky_hmm_coefficient=LEAKY))
    loss = ChainLoss(graph, PDFS, LEAKY)
    optimizer = NaturalGradient(module, RATE, momentum=momentum, max_change=max_change, max_change_per_layer=0.06)
    for seed in range(STEPS):
        eg = chain_example(np.random.default_rng(seed), SEQUENCES, FRAMES, PDFS, DIM, context, 1)
        trainer.train(eg)
        optimizer.zero_grad()
        loss(module(torch.from_numpy(eg.inputs[0].features.reshape(SEQUENCES, -1, DIM))), eg.outputs[0]).backward()
        optimizer.step(num_frames=loss.sums.weight)
    own = nnet["a"].parameters()
    for value, wanted, start in zip(parameters(layer), (own["linear_params"], own["bias_params"]), before, strict=True):
        assert np.abs(wanted - start).max() > 100 * SAME
        np.testing.assert_allclose(value, wanted, atol=SAME)
    assert 0 < trainer.max_change_stats.num_per_component["a"] + trainer.max_change_stats.num_global


def steps(make: Callable[[], torch.nn.Module], x: torch.Tensor, y: torch.Tensor, count: int = 3,
          **settings: float) -> torch.nn.Module:
    torch.manual_seed(0)
    module = make()
    optimizer = NaturalGradient(module, 0.5, **settings)
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(x), y).backward()
        optimizer.step()
    return module


@pytest.mark.parametrize("settings", [{"padding": 1}, {"padding": "same"}, {"dilation": 2}, {"stride": 2},
                                      {"stride": 3, "padding": 2, "dilation": 2}, {"padding": "valid"},
                                      {"padding": "same", "dilation": 3}, {"bias": False}])
def test_convolutions(settings: dict) -> None:
    """Their rows: without preconditioning, these would give the derivative of torch."""
    from nnet3py.torch.natural_gradient import _conv_rows

    torch.manual_seed(0)
    conv, x = torch.nn.Conv1d(DIM, PDFS, 3, **settings), torch.randn(2, DIM, 12)
    output = conv(x)
    deriv = torch.randn_like(output)
    output.backward(deriv)
    rows, derivs = _conv_rows(conv, x, deriv)
    product = derivs.reshape(-1, PDFS).T @ rows.reshape(-1, 3 * DIM)
    assert torch.allclose(product.reshape(PDFS, 3, DIM).permute(0, 2, 1), conv.weight.grad, atol=SAME)
    alone = _conv_rows(conv, x[0], deriv[0])
    assert torch.equal(alone[0], rows[:1]) and torch.equal(alone[1], derivs[:1])
    changed = steps(lambda: torch.nn.Conv1d(DIM, PDFS, 3, **settings), x, torch.zeros_like(output))
    assert changed(x).square().sum() < output.square().sum()


def test_other_layers_have_plain_derivatives() -> None:
    """Batch normalization, convolutions in groups, and a layer whose bias is fixed."""
    def fixed() -> torch.nn.Module:
        layer = torch.nn.Linear(DIM, DIM)
        layer.bias.requires_grad_(False)
        return layer

    x, y = torch.randn(9, DIM, 7), torch.randn(9, DIM, 7)
    for make in (lambda: torch.nn.BatchNorm1d(DIM), lambda: torch.nn.Conv1d(DIM, DIM, 3, padding=1, groups=DIM),
                 lambda: torch.nn.Conv1d(DIM, DIM, 3, padding=1, padding_mode="replicate")):
        torch.manual_seed(0)
        plain = make()
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(plain(x), y).backward()
            optimizer.step()
        changed = steps(make, x, y)
        for value, wanted in zip(changed.parameters(), plain.parameters(), strict=True):
            assert torch.allclose(value, wanted, atol=EXACT)
    changed = steps(fixed, x.transpose(1, 2), y.transpose(1, 2))
    torch.manual_seed(0)
    assert torch.equal(changed.bias, fixed().bias) and not torch.equal(changed.weight, fixed().weight)


def test_layers_that_run_twice_and_others_not_at_all() -> None:
    """Rows of all runs count at once; without any there is no change."""
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = torch.nn.Linear(DIM, DIM), torch.nn.Linear(DIM, DIM)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.used(half) for half in x.split(4)])

    x, y = torch.randn(8, DIM), torch.randn(8, DIM)
    changed = steps(Twice, x, y)
    torch.manual_seed(0)
    before = Twice()
    once = steps(lambda: copy.deepcopy(before.used), x, y)
    assert torch.allclose(changed.used.weight, once.weight, atol=SAME)
    assert torch.equal(changed.unused.weight, before.unused.weight)


def test_limits(caplog: pytest.LogCaptureFixture) -> None:
    x, y = torch.randn(8, DIM), 1e3 * torch.randn(8, DIM)

    def size(**limits: float) -> float:
        torch.manual_seed(0)
        before = torch.nn.Linear(DIM, DIM)
        after = steps(lambda: torch.nn.Linear(DIM, DIM), x, y, count=1, **limits)
        return sum(float((a - b).detach().square().sum()) for a, b in
                   zip(after.parameters(), before.parameters(), strict=True)) ** 0.5

    assert size(max_change_per_layer=0.0, max_change=0.0) > 2
    assert size(max_change_per_layer=0.25) == pytest.approx(0.25, rel=SAME)
    assert size(max_change_per_layer=0.0, max_change=0.5) == pytest.approx(0.5, rel=SAME)
    module = torch.nn.BatchNorm1d(DIM)
    optimizer = NaturalGradient(module, 1.0, momentum=0.5)
    for derivs in (1.0, np.inf):
        module.weight.grad = module.bias.grad = torch.full((DIM,), derivs)
        optimizer.step()
    assert torch.isfinite(module.weight).all() and "Infinite parameter change" in caplog.text
    assert not optimizer.state[module.weight]


def test_it_is_an_optimizer_of_torch(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(DIM, 8), torch.nn.ReLU(inplace=True), torch.nn.BatchNorm1d(8),
                                 torch.nn.Linear(8, 1))
    optimizer = NaturalGradient(module, 0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    x = torch.randn(64, DIM)
    y = x.abs().sum(dim=1, keepdim=True)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.mse_loss(module(x), y)
        value.backward()
        return value

    with caplog.at_level(logging.WARNING):
        values = [optimizer.step(closure).item() for _ in range(40)]
        schedule.step()
    assert values[-1] < 0.2 * values[0] and optimizer.param_groups[0]["lr"] == pytest.approx(0.198)
    state = copy.deepcopy(optimizer.state_dict())
    other = NaturalGradient(module, 1.0)
    other.load_state_dict(state)
    assert other.param_groups[1]["momentum"] == 0.9 and "change" in other.state[module[0].weight]
    assert [group["layer"] for group in other.param_groups] == ["0", "2", "3"]
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):       # hooks that note nothing
        twin(x).sum().backward()
        assert all(not layer.rows for layer in (*optimizer._layers, *other._layers))
    module.eval()
    module(x).sum().backward()
    assert not optimizer._layers[0].rows


def test_rows_that_cannot_be_used() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(DIM, 4), torch.nn.Linear(4, 2))
    before = copy.deepcopy(module.state_dict())
    optimizer = NaturalGradient(module, 0.1)
    x = torch.randn(6, DIM)
    x[2, 1] = np.nan
    module(x).sum().backward()
    with pytest.raises(NumericError, match=r"layer 0: .*NaN or infinity"):
        optimizer.step()
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    optimizer.zero_grad()
    module(torch.randn(6, DIM)).sum().backward()
    optimizer.step()
    assert not torch.equal(module[0].weight, before["0.weight"])


def test_options_that_make_no_sense() -> None:
    module = torch.nn.Linear(3, 2)
    for make, message in ((lambda: NaturalGradient(module.parameters(), 0.1), "found a generator, expected a module"),
                          (lambda: NaturalGradient(torch.nn.ReLU(), 0.1), "ReLU has no parameters"),
                          (lambda: NaturalGradient(module, -1.0), "lr=-1 must be 0 or more"),
                          (lambda: NaturalGradient(module, 0.1, momentum=1.0), "momentum=1 must be 0 to 1"),
                          (lambda: NaturalGradient(module, 0.1, max_change=-1.0), "max_change=-1 must be"),
                          (lambda: NaturalGradient(module, 0.1, rank_in=0), "natural gradient with rank 0")):
        with pytest.raises(UsageError, match=message):
            make()


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (4, 3, 3)])
@pytest.mark.parametrize("scale", [-1.0, 0.7])
def test_the_orthonormal_constraint(shape: tuple[int, ...], scale: float) -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(0.3 * torch.randn(shape))
    expected = weight.detach().reshape(shape[0], -1).numpy().copy()
    constrain_matrix(get_ops("cpu"), expected, scale)
    assert orthonormal_constraint_(weight, scale) is weight
    np.testing.assert_allclose(weight.detach().reshape(shape[0], -1).numpy(), expected, atol=EXACT)
    double = weight.detach().double()
    for _ in range(60):
        orthonormal_constraint_(double, scale)
    matrix = double.reshape(shape[0], -1)
    gram = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    size = gram.diagonal().mean() if scale < 0 else scale**2
    assert torch.allclose(gram, size * torch.eye(len(gram), dtype=gram.dtype), atol=1e-3)


def test_what_cannot_be_constrained() -> None:
    for wrong in (torch.zeros(3), torch.zeros(2, 2, dtype=torch.int64), np.zeros((2, 2))):
        with pytest.raises(ShapeError, match="expected a matrix of floats"):
            orthonormal_constraint_(wrong)
    weight = torch.ones(2, 3)
    assert torch.equal(orthonormal_constraint_(weight, 0.0), torch.ones(2, 3))
    weight[0, 0] = np.nan
    with pytest.raises(NumericError, match=r"of shape \(2, 3\)"):
        orthonormal_constraint_(weight)
    assert torch.equal(weight[1], torch.ones(3))
