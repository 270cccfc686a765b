"""nnet3py/torch/: the LF-MMI loss beside the chain trainer's own computation, and finite differences."""
from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from chain_graphs import chain_example, random_graph, supervision

pytest.importorskip("torch", reason="the extra torch")

import torch
from paths import DATA

import nnet3py
from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.egs.chain_example import NnetChainSupervision, Supervision, merge_supervisions, read_chain_egs
from nnet3py.egs.sequence_egs import merge_chain_examples
from nnet3py.errors import DeviceError, Nnet3Error, ShapeError, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.torch import ChainLoss
from nnet3py.training.chain_objective import ChainObjectiveComputation
from nnet3py.training.chain_trainer import ChainTrainer
from nnet3py.training.options import ChainOptions, TrainerOptions

ALONE = 1e-5          # sequences computed together or alone: differences of float32 sums
SAME = 1e-6           # the same float32 computation, divided afterwards
TRAINED = 1e-5        # a step of float32 parameters
STEP = 1e-3           # of the differences: the loss is found in float32
NEAR = 2e-3           # rounding errors of the loss over twice the step
HALF = 2e-3           # float16 has 11 bits, bfloat16 8, of derivatives below 0.1
PDFS, XENT, LEAKY = 5, 0.25, 0.1


@pytest.fixture(scope="module")
def graph() -> DenominatorGraph:
    return DenominatorGraph(random_graph(np.random.default_rng(1), 6, PDFS), PDFS)


def make(sequences: int = 3, frames: int = 4, seed: int = 0, scale: float = 1.0,
         **settings: object) -> tuple[torch.Tensor, Supervision]:
    rng = np.random.default_rng(seed)
    merged = supervision(rng, sequences, frames, PDFS, **settings)
    return scale * torch.from_numpy(rng.standard_normal((sequences, frames, PDFS)).astype(np.float32)), merged


def by_trainer(graph: DenominatorGraph, output: torch.Tensor, merged: Supervision, options: ChainOptions,
               seed: int = 0) -> tuple[float, float, float, np.ndarray, np.ndarray]:
    """What Kaldi sums over a minibatch, with derivatives as (sequences, frames, pdfs)."""
    sequences, frames, _ = output.shape
    rows = np.ascontiguousarray(output.transpose(0, 1).reshape(-1, PDFS).numpy())
    deriv, numerator = np.empty_like(rows), np.empty_like(rows)
    result = ChainObjectiveComputation(get_ops("cpu"), graph, options, seed).compute(merged, rows, deriv, numerator)
    return (*result, *(each.reshape(frames, sequences, -1).transpose(1, 0, 2) for each in (deriv, numerator)))


@pytest.mark.parametrize("end_to_end", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_value_and_derivative_are_the_trainers(graph: DenominatorGraph, end_to_end: bool, weight: float) -> None:
    output, merged = make(weight=weight, end_to_end=end_to_end)
    xent = torch.log_softmax(make(seed=5)[0], dim=2).requires_grad_()
    loss = ChainLoss(graph, PDFS, LEAKY, XENT, l2_regularize=0.01)
    value, l2_term, total, deriv, numerator = by_trainer(graph, output, merged, loss.options)
    xent_value = float((xent.detach().numpy().astype(np.float64) * numerator).sum())
    output.requires_grad_()
    lost = loss(output, merged, xent)
    lost.backward()
    assert loss.sums == pytest.approx((value, l2_term, xent_value, total), rel=SAME)
    assert lost.dtype == torch.float32 and lost.ndim == 0
    assert lost.item() == pytest.approx(-(value + l2_term + XENT * xent_value) / total, rel=SAME)
    np.testing.assert_allclose(output.grad.numpy(), -deriv / total, atol=SAME)
    np.testing.assert_allclose(xent.grad.numpy(), -XENT * numerator / total, atol=SAME)


def test_a_step_is_the_chain_trainers(graph: DenominatorGraph) -> None:
    """Plain gradient descent on an affine map: with the weights of an example's frames."""
    config = f"""input-node name=input dim=3
component name=a type=AffineComponent input-dim=3 output-dim={PDFS} learning-rate=0.1
component-node name=a component=a input=input
output-node name=output input=a objective=linear"""
    nnet = Nnet.from_config(config, seed=1)
    eg = chain_example(np.random.default_rng(0), 2, 4, PDFS, step=1)
    module = torch.nn.Linear(3, PDFS)
    with torch.no_grad():
        for parameter, name in ((module.weight, "linear_params"), (module.bias, "bias_params")):
            parameter.copy_(torch.from_numpy(nnet["a"].parameters()[name].copy()))
    ChainTrainer(nnet, lambda name: graph, TrainerOptions(max_param_change=0.0),
                 ChainOptions(leaky_hmm_coefficient=LEAKY)).train(eg)
    loss = ChainLoss(graph, PDFS, LEAKY)
    loss(module(torch.from_numpy(eg.inputs[0].features.reshape(2, 4, 3))), eg.outputs[0]).backward()
    with torch.no_grad():
        for parameter, name in ((module.weight, "linear_params"), (module.bias, "bias_params")):
            parameter -= 0.1 * loss.sums.weight * parameter.grad
            np.testing.assert_allclose(parameter.numpy(), nnet["a"].parameters()[name], atol=TRAINED)


@pytest.mark.parametrize("with_xent", [False, True])
def test_steps_of_nnet3pys_trainer(graph: DenominatorGraph, with_xent: bool) -> None:
    """As a loss of nnet3py.Trainer, or for both outputs between forward and backward: steps of nnet3-chain-train."""
    config = f"""input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=9 output-dim=4 learning-rate=0.02
component name=b type=AffineComponent input-dim=4 output-dim={PDFS} learning-rate=0.02 max-change=0.1
component name=x type=AffineComponent input-dim=4 output-dim={PDFS} learning-rate=0.02
component name=l type=LogSoftmaxComponent dim={PDFS}
component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=b component=b input=a
component-node name=x component=x input=a
component-node name=l component=l input=x
output-node name=output input=b
output-node name=output-xent input=l"""
    theirs, mine = (Nnet.from_config(config, seed=1) for _ in range(2))
    examples = [chain_example(np.random.default_rng(seed), 2, 4, PDFS, context=1) for seed in range(5)]
    expected = ChainTrainer(theirs, lambda name: graph, TrainerOptions(momentum=0.5), ChainOptions(
        leaky_hmm_coefficient=LEAKY, xent_regularize=XENT if with_xent else 0.0, l2_regularize=0.01))
    loss = ChainLoss(graph, PDFS, LEAKY, XENT if with_xent else 0.0, l2_regularize=0.01)
    trainer = nnet3py.Trainer(mine, loss=loss, frame_subsampling_factor=3, padding=False, momentum=0.5)
    for eg in examples:
        expected.train(eg)
        feats = eg.inputs[0].features.reshape(2, 12, 3)
        if not with_xent:
            value = trainer.step(feats, eg.outputs[0])
            assert value == pytest.approx(-(loss.sums.objective + loss.sums.l2_term) / loss.sums.weight, rel=SAME)
            continue
        outputs = trainer.forward(feats, outputs=["output", "output-xent"])
        tensors = {name: torch.from_numpy(output).requires_grad_() for name, output in outputs.items()}
        loss(tensors["output"], eg.outputs[0], tensors["output-xent"]).backward()
        trainer.backward({name: tensor.grad for name, tensor in tensors.items()}, num_frames=loss.sums.weight)
    for name in ("a", "b", "x"):
        np.testing.assert_allclose(mine[name].vectorize(), theirs[name].vectorize(), atol=TRAINED)


@pytest.mark.parametrize("end_to_end", [False, True])
def test_finite_differences(graph: DenominatorGraph, end_to_end: bool) -> None:
    output, merged = make(2, 3, end_to_end=end_to_end)
    loss = ChainLoss(graph, PDFS, LEAKY, l2_regularize=0.1)
    output.requires_grad_()
    loss(output, merged).backward()
    plain = output.detach()
    for place in np.ndindex(*plain.shape):
        values = []
        for change in (STEP, -STEP):
            moved = plain.double()
            moved[place] += change
            loss(moved, merged)
            values.append(-(loss.sums.objective + loss.sums.l2_term) / loss.sums.weight)
        assert (values[0] - values[1]) / (2 * STEP) == pytest.approx(output.grad[place].item(), abs=NEAR)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, HALF), (torch.bfloat16, 8 * HALF),
                                                  (torch.float64, SAME)])
def test_other_types(graph: DenominatorGraph, dtype: torch.dtype, tolerance: float) -> None:
    output, merged = make()
    plain, other = output.to(dtype).float().requires_grad_(), output.to(dtype).requires_grad_()
    loss = ChainLoss(graph, PDFS, LEAKY)
    values = [loss(each, merged) for each in (plain, other)]
    for value in values:
        value.backward()
    assert values[1].dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert values[1].item() == pytest.approx(values[0].item(), rel=SAME) and other.grad.dtype == dtype
    assert torch.allclose(other.grad.float(), plain.grad, atol=tolerance)


def test_the_derivative_of_what_is_made_of_it(graph: DenominatorGraph) -> None:
    output, merged = make()
    output.requires_grad_()
    loss = ChainLoss(graph, PDFS, LEAKY)
    once, = torch.autograd.grad(loss(output, merged), output)
    thrice, = torch.autograd.grad(3 * loss(output, merged), output)
    assert torch.allclose(thrice, 3 * once)
    twice, = torch.autograd.grad(loss(output, merged), output, create_graph=True)
    with pytest.raises(UsageError, match="ChainLoss has no second derivative"):
        (loss(output, merged) + twice.square().sum()).backward()
    with torch.no_grad():
        assert not loss(output, merged).requires_grad


def test_padding(graph: DenominatorGraph) -> None:
    """Sequences of several lengths, weights and kinds: as if each were computed alone."""
    torch.manual_seed(0)
    rng = np.random.default_rng(3)
    frames, loss = [4, 6, 3, 6, 4], ChainLoss(graph, PDFS, LEAKY, XENT, l2_regularize=0.01)
    parts = [supervision(rng, 1, length, PDFS, weight, kind) for length, weight, kind in
             zip(frames, (1.0, 1.0, 0.5, 1.0, 1.0), (False, False, False, False, True), strict=True)]
    output, xent = torch.randn(5, 7, PDFS, requires_grad=True), torch.randn(5, 7, PDFS, requires_grad=True)
    lost = loss(output, parts, xent, lengths=torch.tensor(frames))
    lost.backward()
    sums, alone = loss.sums, np.zeros(4)
    for number, (length, part) in enumerate(zip(frames, parts, strict=True)):
        single = [each.detach()[number:number + 1, :length].clone().requires_grad_() for each in (output, xent)]
        loss(single[0], part, single[1]).backward()
        alone += loss.sums
        share = loss.sums.weight / sums.weight
        for padded, own in zip((output, xent), single, strict=True):
            assert torch.allclose(padded.grad[number, :length], share * own.grad[0], atol=ALONE)
            assert not padded.grad[number, length:].any()
    assert tuple(sums) == pytest.approx(tuple(alone), rel=ALONE)
    assert lost.item() == pytest.approx(-(sums[0] + sums[1] + XENT * sums[2]) / sums[3])
    loss(output[:, :4], [supervision(rng, 2, 4, PDFS), supervision(rng, 3, 4, PDFS)], xent[:, :4])


def test_weights_of_frames(graph: DenominatorGraph) -> None:
    """They multiply derivatives, sequence by sequence, and not the value."""
    torch.manual_seed(0)
    rng = np.random.default_rng(4)
    egs = [chain_example(rng, 1, 4, PDFS) for _ in range(3)]
    egs[1].outputs[0].deriv_weights = np.zeros(0, np.float32)
    egs[2].outputs[0].deriv_weights = np.array([0.0, 0.25, 1.0, 2.0], np.float32)
    output = torch.randn(3, 4, PDFS, requires_grad=True)
    loss = ChainLoss(graph, PDFS, LEAKY)
    plain = merge_supervisions([eg.outputs[0].supervision for eg in egs])
    expected, = torch.autograd.grad(loss(output, plain), output)
    expected = expected * torch.tensor([[0.5, 1, 1, 0.5], [1, 1, 1, 1], [0, 0.25, 1, 2]])[:, :, None]
    sums = loss.sums
    for weighted in (merge_chain_examples(egs).outputs[0], [eg.outputs[0] for eg in egs]):
        deriv, = torch.autograd.grad(loss(output, weighted), output)
        assert torch.allclose(deriv, expected, atol=SAME) and loss.sums == pytest.approx(sums, rel=ALONE)


def test_values_out_of_range(graph: DenominatorGraph) -> None:
    """They are pulled back in half of the calls, which ``seed`` decides, as in the trainer."""
    output, merged = make(scale=40.0)
    loss = ChainLoss(graph, PDFS, LEAKY, seed=7)
    _, _, total, deriv, _ = by_trainer(graph, output, merged, loss.options, seed=7)
    output.requires_grad_()
    derivs = [torch.autograd.grad(loss(output, merged), output)[0] for _ in range(12)]
    np.testing.assert_allclose(derivs[0].numpy(), -deriv / total, atol=SAME)
    assert 1 < len({each.numpy().tobytes() for each in derivs}) <= 3


def test_a_computation_that_fails(graph: DenominatorGraph, caplog: pytest.LogCaptureFixture) -> None:
    output, merged = make()
    output[:, :, 1] = np.nan
    output.requires_grad_()
    lost = ChainLoss(graph, PDFS, LEAKY)(output, merged)
    lost.backward()
    assert lost.item() == 10.0 and not output.grad.any() and "setting objective function to -10" in caplog.text


def test_kaldis_objective() -> None:
    """Examples, graph and model of a real run; tests/test_chain_trainer.py compares the trainer with Kaldi."""
    egs = [eg for _, eg in read_chain_egs(f"ark:{DATA / 'chain' / 'cegs.ark'}")][:2]
    num_pdfs = egs[0].outputs[0].supervision.label_dim
    loss = ChainLoss(DATA / "chain" / "den.fst", num_pdfs)
    assert loss.options.leaky_hmm_coefficient == 1e-5
    frames = max(eg.outputs[0].supervision.frames_per_sequence for eg in egs)
    loss(torch.zeros(len(egs), frames, num_pdfs), [eg.outputs[0] for eg in egs],
         lengths=[eg.outputs[0].supervision.frames_per_sequence for eg in egs])
    assert loss.sums.objective / loss.sums.weight < 0


def test_copies_and_threads(graph: DenominatorGraph) -> None:
    output, merged = make()
    loss = ChainLoss(graph, PDFS, LEAKY)
    value = loss(output, merged).item()
    assert "6 states, 5 pdfs, leaky_hmm_coefficient=0.1" in repr(loss)
    saved = io.BytesIO()
    torch.save(torch.nn.ModuleList([loss]), saved)
    saved.seek(0)
    results = [other(output, merged).item() for other in
               (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss)), torch.load(saved, weights_only=False)[0])]
    threads = [threading.Thread(target=lambda: results.append(loss(output, merged).item())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [value] * 5


def test_graphs_from_anywhere(tmp_path: Path) -> None:
    fst = random_graph(np.random.default_rng(1), 6, PDFS)
    output, merged = make()
    values = {ChainLoss(den_fst, PDFS, LEAKY)(output, merged).item() for den_fst in (fst, DenominatorGraph(fst, PDFS))}
    assert len(values) == 1
    with pytest.raises(Nnet3Error, match="none.fst"):
        ChainLoss(tmp_path / "none.fst", PDFS)
    with pytest.raises(ShapeError, match="made for 5 pdfs, but num_pdfs=6"):
        ChainLoss(DenominatorGraph(fst, PDFS), 6)
    with pytest.raises(ShapeError, match="the denominator FST has pdf"):
        ChainLoss(fst, 2)
    with pytest.raises(UsageError, match="leaky-hmm-coefficient=1"):
        ChainLoss(fst, PDFS, 1.0)


def test_what_does_not_fit(graph: DenominatorGraph) -> None:
    output, merged = make()
    loss = ChainLoss(graph, PDFS, LEAKY)
    rng = np.random.default_rng(1)
    for wrong, error, message in (
            (lambda: loss(output[:2], merged), ShapeError, "of 3 sequences, but the network's output has 2"),
            (lambda: loss(output.long(), merged), UsageError, "output is a torch.int64, expected a tensor of floats"),
            (lambda: loss(output.numpy(), merged), UsageError, "output is a ndarray"),
            (lambda: loss(output.transpose(1, 2), merged), ShapeError,
             r"\(3, 5, 4\), expected \(sequences, frames, 5\)"),
            (lambda: loss(output[:, :3], merged), ShapeError, "sequence 0: its supervision is of 4 frames, but .* 3"),
            (lambda: loss(output, merged, lengths=[4, 3, 4]), ShapeError,
             "sequence 1: .* 4 frames, but its output has 3"),
            (lambda: loss(output, merged, lengths=[4, 4]), ShapeError, r"lengths have the shape \(2,\)"),
            (lambda: loss(output, supervision(rng, 3, 5, PDFS), lengths=[5] * 3), ShapeError, "has 5 frames, but .* 4"),
            (lambda: loss(output, supervision(rng, 3, 4, 6)), ShapeError, "supervision is of 6 pdfs"),
            (lambda: loss(output, [merged, "x"]), UsageError, "found a str as supervision"),
            (lambda: loss(output, [NnetChainSupervision("output", np.zeros((0, 3), np.int32), merged,
                                                        np.ones(2, np.float32))]), ShapeError, "has 2 weights"),
            (lambda: ChainLoss(graph, PDFS, LEAKY, XENT)(output, merged), UsageError, "needs an xent_output"),
            (lambda: ChainLoss(graph, PDFS, LEAKY, XENT)(output, merged, output[:2]), ShapeError, "should be alike"),
            (lambda: loss(output.to("meta"), merged), DeviceError, "on the device meta, expected the CPU")):
        with pytest.raises(error, match=message):
            wrong()
    loss(output, merged, output)


def test_import_needs_torch_and_only_then() -> None:
    code = "import sys, nnet3py; assert 'torch' not in sys.modules; sys.modules['torch'] = None\nimport nnet3py.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "nnet3py.torch needs the package torch" in "".join(done.stderr.splitlines()[-2:])
    code = "import nnet3py; print(nnet3py.torch.ChainLoss.__name__)"           # loaded at first use
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "ChainLoss\n"
