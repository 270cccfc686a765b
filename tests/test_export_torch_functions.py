"""nnet3py/export/torch_functions.py: what modules refuse, in one line, and that tracing goes through all the same."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from export_cases import all_cases, chain_nnet, random_inputs, read_case

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")          # tracing warns of PyTorch's own affairs

from nnet3py.errors import Nnet3Error, ShapeError, UsageError  # noqa: E402
from nnet3py.export.torch_functions import loop_of_any_length, windows  # noqa: E402
from nnet3py.export.torch_module import to_torch  # noqa: E402
from nnet3py.network.nnet import Nnet  # noqa: E402

exports = pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="an older PyTorch")


def inputs(nnet: Nnet, frames: int, sequences: int) -> list[Any]:
    return [torch.from_numpy(x) for x in random_inputs(nnet, frames, sequences) if x is not None]


def network(name: str) -> Nnet:
    return chain_nnet() if name == "chain" else read_case(name)


X, IVECTOR = torch.zeros(3, 20, 4), torch.zeros(3, 3)
REFUSED = [
    ((X[0], IVECTOR), ShapeError, r"'input' has shape \(20, 4\), expected \(sequences, frames, 4\) .*input.unsqueeze"),
    ((X[..., :3], IVECTOR), ShapeError, r"'input' has shape \(3, 20, 3\), expected \(sequences, frames, 4\)$"),
    ((X.transpose(1, 2), IVECTOR), ShapeError, r"\(3, 4, 20\), expected \(sequences, frames, 4\).*transpose\(1, 2\)"),
    ((X[:, :0], IVECTOR), ShapeError, r"'input' has shape \(3, 0, 4\), expected 1 frame or more$"),
    ((X,), ShapeError, r"'ivector' is not given, expected float \(sequences, 3\)"),
    ((IVECTOR, X), ShapeError, r"'input' has shape \(3, 3\), expected \(sequences, frames, 4\)"),
    ((X, IVECTOR[:1]), ShapeError, r"'ivector' has shape \(1, 3\), expected \(3, 3\): a row for each sequence"),
    ((X, IVECTOR[:, :2]), ShapeError, r"'ivector' has shape \(3, 2\), expected \(3, 3\)"),
    ((X, IVECTOR[0]), ShapeError, r"'ivector' has shape \(3,\), expected \(3, 3\)"),
    ((X, IVECTOR[:, None].expand(3, 20, 3)), ShapeError, r"'ivector' has shape \(3, 20, 3\), expected \(3, 3\)"),
    ((X.double(), IVECTOR), UsageError, r"'input' has dtype torch.float64, .*float32 \(give input.to\(torch.float32"),
    ((X, IVECTOR.half()), UsageError, r"'ivector' has dtype torch.float16, expected that .*, torch.float32"),
    ((X.long(), IVECTOR), UsageError, r"'input' has dtype torch.int64, expected numbers such as float32"),
    ((X.numpy(), IVECTOR), UsageError, r"'input' is a numpy.ndarray, expected a torch.Tensor \(torch.from_numpy"),
    ((None, IVECTOR), UsageError, r"'input' is a NoneType, expected a torch.Tensor"),
]


def test_what_is_refused() -> None:
    module = to_torch(chain_nnet())
    for given, kind, message in REFUSED:
        with pytest.raises(kind, match=message) as raised:
            module(*given)
        assert "\n" not in str(raised.value)
    scripted = torch.jit.script(module)
    for given, kind, message in REFUSED:
        if kind is ShapeError and None not in given:
            with pytest.raises(torch.jit.Error, match=message.removesuffix("$")):
                scripted(*given)


def test_all_ways_to_give_inputs() -> None:
    nnet = chain_nnet()
    module, (feats, ivectors) = to_torch(nnet), inputs(nnet, 20, 3)
    expected = module(feats, ivectors)
    assert torch.equal(module(ivector=ivectors, input=feats), expected)
    assert torch.equal(module(feats, ivectors[:, None]), expected)        # as ExampleDataset has them
    assert module(feats[:0], ivectors[:0]).shape == (0, 20, 5)
    without = read_case("cases/affine")
    module, (feats,) = to_torch(without), inputs(without, 20, 3)
    assert torch.equal(module(feats, None), module(feats))
    with pytest.raises(ShapeError, match="'ivector' is given, but the network has no input of that name"):
        module(feats, ivectors)


def test_context_is_counted() -> None:
    module = to_torch(chain_nnet(), edges="given")
    assert module(X[:, :9], IVECTOR).shape == (3, 1, 5)
    with pytest.raises(ShapeError, match="expected 9 frames or more, 8 of them context around those of the outputs"):
        module(X[:, :8], IVECTOR)


def test_further_inputs_come_by_name() -> None:
    nnet = read_case("nets/multi-input-output")
    module = to_torch(nnet, output="*")
    feats, aux = (torch.randn(2, 15, nnet.input_dim(name)) for name in ("input", "aux"))
    first, second = module(feats, aux=aux)
    assert torch.equal(module(feats, None, aux)[1], second) and len(first) == 2
    with pytest.raises(ShapeError, match="'aux' is not given"):
        module(feats)
    with pytest.raises(ShapeError, match=r"'aux' has shape \(2, 14, 4\), expected \(2, 15, 4\): the sequences"):
        module(feats, aux=aux[:, 1:])


@pytest.mark.parametrize("name", ["chain", "nets/rnn-simple", "cases/statistics-pooling", "cases/batch-norm-block"])
def test_other_types_of_numbers(name: str) -> None:
    nnet = network(name)
    module, given = to_torch(nnet), inputs(nnet, 20, 2)
    expected = module(*given)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(module(*given).float(), expected, atol=0.3)
        module(*(x.bfloat16() for x in given))
    double = module.double()(*(x.double() for x in given))
    assert double.dtype == torch.float64 and torch.allclose(double.float(), expected, atol=1e-3)


@pytest.mark.parametrize("name", ["chain", "nets/rnn-simple"])
def test_compiles_without_a_break(name: str) -> None:
    nnet = network(name)
    module = to_torch(nnet)
    torch.compiler.reset()
    compiled = torch.compile(module, backend="eager", fullgraph=True, dynamic=True)
    for frames, sequences in ((6, 2), (9, 3)):
        given = inputs(nnet, frames, sequences)
        assert torch.equal(compiled(*given), module(*given))
    torch.compiler.reset()
    feats, *ivectors = inputs(nnet, 6, 2)
    with pytest.raises(ShapeError, match="unsqueeze"):
        torch.compile(module, backend="eager")(feats[0], *ivectors)


def exported(module: Any, given: list[Any], least: int, strict: bool = False) -> Any:
    """The exported program, for any number of sequences and of frames."""
    batch = torch.export.Dim("batch")
    shapes = {"input": {0: batch, 1: torch.export.Dim("frames", min=least)}}
    if len(given) > 1:
        shapes["ivector"] = {0: batch}
    return torch.export.export(module, tuple(given), dynamic_shapes=shapes, strict=strict)


def assert_exported_is_same(nnet: Nnet, factor: int, strict: bool = False, edges: str = "repeat",
                            frames: tuple[int, ...] = (4, 40, 41)) -> None:
    module = to_torch(nnet, frame_subsampling_factor=factor, edges=edges)
    least = 9 if edges == "none" else 1 if factor == 1 else factor + 1
    program = exported(module, inputs(nnet, 20, 2), least, strict).module()
    for number, each in enumerate(frames):
        given = inputs(nnet, each, 1 + 2 * number)
        torch.testing.assert_close(program(*given), module(*given), rtol=0, atol=0)


# With i-vectors; matrices in blocks of columns, whose sizes are hard to divide.
@exports
@pytest.mark.parametrize("name", ["chain", "cases/repeated-affine", "cases/batch-norm-block"])
@pytest.mark.parametrize("factor", [1, 3])
def test_exports_with_any_length(name: str, factor: int) -> None:
    assert_exported_is_same(network(name), factor)


@exports
@pytest.mark.parametrize(("name", "factor"), [("nets/rnn-simple", 1), ("nets/net-lstm", 3)])
def test_exports_recurrences_of_any_length(name: str, factor: int) -> None:
    assert_exported_is_same(network(name), factor)


@exports
def test_exports_with_dynamo() -> None:
    assert_exported_is_same(chain_nnet(), 3, strict=True)


@pytest.mark.slow
@exports
@pytest.mark.parametrize("name", sorted(all_cases()))
def test_exports_all_cases(name: str) -> None:
    is_xvector = name == "net-xvector"
    for factor in (1, 3):
        assert_exported_is_same(read_case(name), factor, edges="none" if is_xvector else "repeat",
                                frames=(9, 40, 57) if is_xvector else (4, 40, 57))


@exports
def test_export_refuses_what_the_module_refuses() -> None:
    module = to_torch(chain_nnet())
    with pytest.raises(ShapeError, match="unsqueeze"):
        exported(module, [X[0], IVECTOR], 1)
    given = to_torch(chain_nnet(), edges="given")
    with pytest.raises(Exception, match="9"):              # PyTorch's own error suggests Dim('frames', min=9)
        exported(given, [X, IVECTOR], 4)


@exports
def test_graphs_of_fx_have_the_checks() -> None:
    nnet = chain_nnet()
    module = to_torch(nnet)
    graph = torch.fx.symbolic_trace(module)
    given = inputs(nnet, 20, 2)
    assert torch.equal(graph(*given), module(*given))
    with pytest.raises(Nnet3Error, match="transpose"):
        graph(given[0].transpose(1, 2), given[1])


def test_windows() -> None:
    x = torch.randn(2, 10, 3)
    first, last = torch.tensor([0, 3, 7, 12]), torch.tensor([4, 3, 6, 9])
    sums = windows(x, first, last)
    expected = np.stack([x[:, a:b + 1].numpy().sum(1) for a, b in zip(first.tolist(), last.tolist(), strict=True)], 1)
    np.testing.assert_allclose(sums.numpy(), expected, atol=1e-5)


@exports
@pytest.mark.parametrize("fold", [1, 3])
@pytest.mark.parametrize("is_backward", [False, True])
def test_loop_of_any_length(fold: int, is_backward: bool) -> None:
    """A leaky sum over every fold-th frame, from either end; frames beyond the ends leave no trace."""
    x, like = torch.randn(2, 11, 4), torch.zeros(2, 1)

    def step(like: Any, frames: Any, state: Any, factor: Any) -> list[Any]:
        result = factor * state + frames
        return [result, result]

    result, = loop_of_any_length(step, like, [x], [torch.tensor(0.5)], ([4], [4]), fold, is_backward)
    expected = torch.zeros(2, 11, 4)
    for t in range(10, -1, -1) if is_backward else range(11):
        before = t + fold if is_backward else t - fold
        expected[:, t] = x[:, t] + (0.5 * expected[:, before] if 0 <= before < 11 else 0.0)
    torch.testing.assert_close(result, expected)
