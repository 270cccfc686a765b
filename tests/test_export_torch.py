"""nnet3py/export/torch_module.py: outputs, derivatives and gradients are nnet3py's; weights come back."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_cases import (
    POOLED,
    TOLERANCE,
    all_cases,
    assert_close,
    chain_nnet,
    computed,
    random_inputs,
    read_case,
    small_cases,
    tolerance,
)
from paths import DATA

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.nnet.export import export, import_weights
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.plain_weights import named_arrays
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

from nnet3py.export.torch_module import from_torch, to_torch, write_torch  # noqa: E402

FEW = ["nets/net-lstm", "nets/net-tdnn", "cases/restricted-attention", "cases/statistics-pooling", "cases/composite",
       "cases/time-height-convolution", "cases/softmax", "cases/log-softmax"]
# cases whose components change derivatives on purpose, which is part of Kaldi's training and not of the function
OTHER_GRADIENTS = {
    "backprop-truncation": "it sets derivatives to zero", "clip-gradient": "it makes them smaller",
    "clip-gradient-elementwise": "the same", "net-lstm": "BackpropTruncationComponent", "net-blstm": "the same",
    "no-op": "backprop-scale", "lstm-nonlinearity-dropout": "masks have none",
}
# of the largest value, as between Kaldi and us; that of a standard deviation is divided by it
GRADIENTS, POOLED_GRADIENTS = 5e-4, 5e-3


def arguments(feats: np.ndarray, ivectors: np.ndarray | None) -> list[Any]:
    return [torch.from_numpy(array) for array in (feats, ivectors) if array is not None]


def assert_same_in_torch(name: str, nnet: Nnet, folder: Path) -> None:
    module = to_torch(nnet)
    given = random_inputs(nnet, 23, 2)
    expected = computed(nnet, *given)
    assert_close(module(*arguments(*given)).detach().numpy(), expected, 2 * tolerance(name))
    scripted = torch.jit.script(module)
    assert_close(scripted(*arguments(*given)).detach().numpy(), expected, 2 * tolerance(name))
    nnet.write(folder / "before.raw")
    from_torch(module, nnet).write(folder / "after.raw")
    assert (folder / "before.raw").read_bytes() == (folder / "after.raw").read_bytes()


@pytest.mark.parametrize("name", FEW)
def test_outputs_and_weights(name: str, tmp_path: Path) -> None:
    assert_same_in_torch(name, read_case(name), tmp_path)


@pytest.mark.slow
def test_all_cases(tmp_path: Path) -> None:
    for name in all_cases() or small_cases():
        assert_same_in_torch(name, read_case(name), tmp_path)


@pytest.mark.parametrize("name", ["chain", "nets/rnn-simple", "cases/lstm-nonlinearity", "cases/restricted-attention"])
def test_derivatives_and_gradients(name: str) -> None:
    assert_same_gradients(chain_nnet() if name == "chain" else read_case(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(all_cases() - OTHER_GRADIENTS.keys()) or small_cases())
def test_gradients_of_all_cases(name: str) -> None:
    pooled = tolerance(name) == POOLED
    assert_same_gradients(read_case(name), tolerance(name), POOLED_GRADIENTS if pooled else GRADIENTS)


def assert_same_gradients(nnet: Nnet, of_output: float = TOLERANCE, of_gradients: float = GRADIENTS) -> None:
    """Output, derivative of the features and gradients are what nnet3py's backprop gives."""
    set_batchnorm_test_mode(nnet, True)
    set_dropout_test_mode(nnet, True)
    module = to_torch(nnet, edges="given")
    feats, ivectors = random_inputs(nnet, 30, 1)
    given = arguments(feats, ivectors)
    for each in given:
        each.requires_grad_(True)
    output = module(*given)
    derivative = np.random.default_rng(5).standard_normal(output.shape).astype(np.float32)
    output.backward(torch.from_numpy(derivative))
    first = context_of(nnet)
    found, dx, gradient = by_nnet3(nnet, feats[0], None if ivectors is None else ivectors[0], derivative[0], first)
    assert_close(output[0].detach().numpy(), found, of_output)
    assert_close(given[0].grad[0].numpy(), dx, of_gradients)
    compare_gradients(module, gradient, of_gradients)


def context_of(nnet: Nnet) -> int:
    from nnet3py.export.models import graph_of

    return int(graph_of(nnet, ExportOptions(edges="given", collapse=False)).metadata["left_context"])


def by_nnet3(nnet: Nnet, feats: np.ndarray, ivector: np.ndarray | None, derivative: np.ndarray,
             left: int) -> tuple[np.ndarray, np.ndarray, Nnet]:
    """Output, derivative of the features, and gradient."""
    def rows(first: int, count: int) -> np.ndarray:
        return np.array([(0, t, 0) for t in range(first, first + count)], np.int32)

    specification = nnet3py.IoSpecification
    inputs = [specification("input", rows(-left, len(feats)), has_deriv=True)]
    if ivector is not None:
        inputs.append(specification("ivector", rows(0, 1)))
    request = nnet3py.ComputationRequest(inputs, [specification("output", rows(0, len(derivative)), has_deriv=True)],
                                         need_model_derivative=True)
    gradient = nnet.as_gradient()
    computer = nnet3py.Computer(nnet3py.compile(nnet, request), nnet, update=gradient)
    computer.accept_input("input", feats)
    if ivector is not None:
        computer.accept_input("ivector", ivector[None])
    computer.run()
    output = computer.output("output").copy()
    computer.accept_input("output", derivative)
    computer.run()
    return output, computer.output("input"), gradient


def compare_gradients(module: Any, gradient: Nnet, allowed: float) -> None:
    names = {"weight": ("linear_params", "params", "filter_params"), "bias": ("bias_params",)}
    arrays, compared = named_arrays(gradient), 0
    for name, parameter in module.named_parameters():
        component, _, attribute = name.rpartition(".")
        if parameter.requires_grad:
            key = next(f"{component}.{a}" for a in names.get(attribute, (attribute,)) if f"{component}.{a}" in arrays)
            assert_close(parameter.grad.numpy(), arrays[key], allowed)
            compared += 1
    assert compared


def test_training_goes_on_in_torch(tmp_path: Path) -> None:
    """Changed parameters and statistics come back; the rest keeps its bytes; Kaldi's form computes the same."""
    nnet = chain_nnet()
    module = to_torch(nnet)
    module.train()
    given = arguments(*random_inputs(nnet, 16, 2))
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.1)
    before = float((module(*given)**2).mean().detach())
    for _ in range(3):
        optimizer.zero_grad()
        loss = (module(*given)**2).mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < before
    module.eval()
    tuned = from_torch(module, nnet)
    np.testing.assert_array_equal(tuned.component("lda").linear_params,       # type: ignore[attr-defined]
                                  nnet.component("lda").linear_params)        # type: ignore[attr-defined]
    feats, ivectors = random_inputs(nnet, 16, 2)
    assert_close(module(*given).detach().numpy(), computed(tuned, feats, ivectors), TOLERANCE)
    with pytest.raises(Nnet3Error, match="no component"):
        from_torch({"tdnn9.weight": torch.zeros(3)}, nnet)
    with pytest.raises(Nnet3Error, match="shape"):
        from_torch({"tdnn1.affine.weight": torch.zeros(3)}, nnet)


FRESH = """
input-node name=input dim=4
component name=affine type=NaturalGradientAffineComponent input-dim=4 output-dim=6
component-node name=affine component=affine input=input
component name=batchnorm type=BatchNormComponent dim=6 block-dim=3 target-rms=0.5
component-node name=batchnorm component=batchnorm input=affine
output-node name=output input=batchnorm
"""


def test_batch_normalization_without_statistics(tmp_path: Path) -> None:
    """It begins as nn.BatchNorm1d does, learns as that does, and comes back with what it has learned."""
    nnet = Nnet.from_config(FRESH, seed=1)
    nnet.write(tmp_path / "fresh.raw")
    module = to_torch(nnet)
    layer = module.batchnorm
    assert type(layer) is torch.nn.BatchNorm1d and not module.training
    assert not layer.running_mean.any() and (layer.running_var == 1).all() and layer.num_batches_tracked == 0
    feats = torch.randn(8, 50, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(module(feats), 0.5 * module.affine(feats) / (1 + layer.eps) ** 0.5)
    from_torch(module, nnet).write(tmp_path / "same.raw")
    assert (tmp_path / "same.raw").read_bytes() == (tmp_path / "fresh.raw").read_bytes()
    with pytest.raises(Nnet3Error, match="'batchnorm': it has no statistics"):
        write_torch(nnet, str(tmp_path / "fresh.pt"), ExportOptions())

    output = module.train()(feats).reshape(-1, 3)                    # by the minibatch: mean 0, target-rms
    assert output.mean(0).abs().max() < 1e-5 and (output.pow(2).mean(0).sqrt() - 0.5).abs().max() < 1e-2
    for _ in range(50):
        module(feats)
    tuned = from_torch(torch.nn.DataParallel(module), nnet)
    assert nnet["batchnorm"].count[0] == 0 and tuned["batchnorm"].count[0] == 1000
    assert_close(module.eval()(feats)[0].detach().numpy(), computed(tuned, feats[:1].numpy(), None)[0], TOLERANCE)
    again = to_torch(tuned)
    torch.testing.assert_close(again.batchnorm.running_var, layer.running_var)


def test_what_a_compiled_module_has_learned_comes_back() -> None:
    nnet = chain_nnet()
    module = torch.compile(to_torch(nnet), backend="eager")
    with torch.no_grad():
        module.tdnn1.affine.bias += 1
    tuned = from_torch(module, nnet)
    np.testing.assert_allclose(tuned["tdnn1.affine"].bias_params, nnet["tdnn1.affine"].bias_params + 1)
    assert list(module.state_dict())[0].startswith("_orig_mod.")
    half = from_torch(to_torch(nnet).bfloat16(), nnet)["tdnn1.affine"].linear_params
    np.testing.assert_allclose(half, nnet["tdnn1.affine"].linear_params, rtol=1e-2)


def test_acoustic_models_keep_transition_model_and_priors(here: Path) -> None:
    transitions = read_object(DATA / "network" / "trans.mdl", TransitionModel.read)
    nnet = Nnet.from_config("""input-node name=input dim=4
component name=a type=NaturalGradientAffineComponent input-dim=4 output-dim=10
component-node name=a component=a input=input
output-node name=output input=a
""", seed=1)
    model = AcousticModel(transitions, nnet, np.full(10, 0.1, np.float32))
    model.write("final.mdl")
    module = to_torch("final.mdl")
    with torch.no_grad():
        module.a.bias += 1.0
    expected = nnet.copy()
    expected.component("a").bias_params[...] += 1.0                  # type: ignore[attr-defined]
    AcousticModel(transitions, expected, model.priors).write("expected.mdl")
    for tuned in (from_torch(module, model), from_torch(module, like="final.mdl"), from_torch(module, like=model),
                  from_torch(module.state_dict(), nnet, like=here)):
        tuned.write("tuned.mdl")
        assert Path("tuned.mdl").read_bytes() == Path("expected.mdl").read_bytes()
    assert isinstance(from_torch(module, "final.mdl"), Nnet) and from_torch(module, nnet) == expected
    assert nnet == model.nnet and nnet != expected
    with pytest.raises(UsageError, match="the network that the module was made from is needed"):
        from_torch(module)       # type: ignore[call-overload]
    with pytest.raises(ShapeError, match="has dimension 5, but the transition model has 10 pdfs"):
        from_torch(to_torch(chain_nnet()), chain_nnet(), like=model)
    torch.save(module.state_dict(), "tuned.pt")
    assert import_weights.execute(["--print-args=false", "--format=torch", "final.mdl", "tuned.pt", "tuned.mdl"]) == 0
    assert Path("tuned.mdl").read_bytes() == Path("expected.mdl").read_bytes()


def test_commands(here: Path) -> None:
    nnet = chain_nnet()
    nnet.write("a.raw")
    assert export.execute(["--print-args=false", "--format=torch", "a.raw", "a.pt"]) == 0
    assert import_weights.execute(["--print-args=false", "--format=torch", "a.raw", "a.pt", "b.raw"]) == 0
    assert Path("a.raw").read_bytes() == Path("b.raw").read_bytes()
    loaded = torch.jit.load("a.pt")
    feats, ivectors = random_inputs(nnet, 16, 2)
    assert ivectors is not None
    found = loaded(*arguments(feats, ivectors)).detach().numpy()
    assert_close(found, computed(nnet, feats, ivectors), TOLERANCE)
    torch.save(to_torch(nnet).state_dict(), "state.pt")
    assert import_weights.execute(["--print-args=false", "--format=torch", "a.raw", "state.pt", "c.raw"]) == 0
    assert Path("a.raw").read_bytes() == Path("c.raw").read_bytes()
    Path("bad.pt").write_bytes(b"no such file")
    assert import_weights.execute(["--print-args=false", "--format=torch", "a.raw", "bad.pt", "c.raw"]) == 255
