"""Archives of examples as data sets for PyTorch."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra torch")

import torch
from chain_graphs import chain_example, random_graph
from torch.utils.data import DataLoader

from nnet3py.egs.chain_example import CHAIN_EXAMPLE, NnetChainExample
from nnet3py.egs.example import NnetExample, NnetIo, write_egs
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix
from nnet3py.index import sequence_indexes
from nnet3py.io.tables import write_table
from nnet3py.torch import ChainLoss
from nnet3py.torch_data import ExampleDataset, tensors

SAME = 1e-5                  # sums of float32 in another order, of costs that have seven digits in text
ROUGH = 1 / 128              # of values up to 1 that were compressed to a byte


def example(number: int, frames: int) -> NnetExample:
    """Whose classes are its number, and its features as well, but for a column of it in hundredths."""
    features = np.full((frames + 2, 3), number, np.float32)
    features[:, 1] = number / 100
    rows = np.arange(frames + 1)
    targets = SparseMatrix(rows, np.full(frames, number), np.ones(frames), 100)
    ivector = CompressedMatrix.compress(np.array([[0.0, number / 100, 1.0]], np.float32))
    return NnetExample([NnetIo("input", sequence_indexes(1, range(-1, frames + 1)), features),
                        NnetIo("ivector", sequence_indexes(1, [0]), ivector),
                        NnetIo("output", sequence_indexes(1, range(frames)), targets)])


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two: of 20 examples of four frames, and of 10 of four and of six frames by turns."""
    folder = tmp_path_factory.mktemp("egs")
    names = []
    for name, numbers in (("a", range(20)), ("b", range(20, 30))):
        names.append(f"ark:{folder}/{name}.ark")
        assert write_egs(names[-1], ((f"eg{number}", example(number, 6 if name == "b" and number % 2 else 4))
                                     for number in numbers)) == len(numbers)
    return names


def numbers(batches: list[dict]) -> list[int]:
    return [int(row[0]) for batch in batches for row in batch["output"]]


def test_minibatches_are_of_equal_frames(archives: list[str]) -> None:
    batches = list(ExampleDataset(archives, batch_size=8))
    assert [tuple(batch["output"].shape) for batch in batches] == [(8, 4)] * 3 + [(5, 6), (1, 4)]
    assert sorted(numbers(batches)) == list(range(30))
    for batch in batches:
        assert batch["output"].dtype == torch.int64 and batch["input"].dtype == torch.float32
        assert batch["input"].shape[1] == batch["output"].shape[1] + 2 and batch["ivector"].shape[1:] == (1, 3)
        assert torch.equal(batch["input"][:, 0, 0].long(), batch["output"][:, 0])
        assert torch.allclose(batch["ivector"][:, 0, 1], batch["input"][:, 0, 1], atol=ROUGH)


def test_order(archives: list[str]) -> None:
    data = ExampleDataset(archives, batch_size=None, shuffle=True, buffer=5, seed=3)
    first = [int(each["output"][0]) for each in data]
    assert first == [int(each["output"][0]) for each in data] and sorted(first) == list(range(30)) != first
    data.set_epoch(1)
    assert first != [int(each["output"][0]) for each in data]
    assert [int(each["output"][0]) for each in ExampleDataset(archives[0], None)] == list(range(20))


@pytest.mark.parametrize("count", [1, 2])
def test_workers_share_the_examples(archives: list[str], count: int) -> None:
    """By archive where there are as many as workers, else example by example."""
    loader = DataLoader(ExampleDataset(archives[:count], 4), batch_size=None, num_workers=2)
    assert sorted(numbers(list(loader))) == list(range(20 if count == 1 else 30))


def test_targets_that_are_no_classes() -> None:
    eg = example(2, 4)
    eg.io[2].features = SparseMatrix(np.arange(0, 10, 2), np.tile([1, 5], 4), np.full(8, 0.5), 6)
    assert torch.equal(tensors(eg)["output"], torch.tensor([[0, 0.5, 0, 0, 0, 0.5]] * 4))
    eg.io[2].features = np.eye(4, dtype=np.float32)
    assert torch.equal(tensors(eg)["output"], torch.eye(4))


def test_what_cannot_be_read(archives: list[str], tmp_path: Path) -> None:
    for wrong in ([], 3, [3]):
        with pytest.raises((UsageError, TypeError)):
            ExampleDataset(wrong)
    with pytest.raises(UsageError, match="batch_size=0"):
        ExampleDataset(archives, 0)
    with pytest.raises(Nnet3Error, match="none.ark"):
        next(iter(ExampleDataset(f"ark:{tmp_path}/none.ark")))
    merged = example(1, 2)
    merged.io[0].indexes = sequence_indexes(2, range(2))
    with pytest.raises(ShapeError, match="'input' of an example: it holds several sequences"):
        tensors(merged)
    mixed = [example(1, 4), example(1, 4)]
    mixed[1].io[2].features.values[0] = 0.5
    write_egs(f"ark:{tmp_path}/mixed.ark", [("a", mixed[0]), ("b", mixed[1])])
    with pytest.raises(ShapeError, match="some examples have a class in each row and others"):
        list(ExampleDataset(f"ark:{tmp_path}/mixed.ark"))


@pytest.fixture(scope="module")
def chain_egs() -> list[NnetChainExample]:
    """Of four and of six frames, end to end, of half a weight, and without weights of frames, by turns."""
    rng = np.random.default_rng(2)
    egs = [chain_example(rng, 1, 6 if number % 5 == 4 else 4, 5, weight=0.5 if number % 5 == 3 else 1.0,
                         end_to_end=number % 5 == 2) for number in range(15)]
    for number, eg in enumerate(egs):
        eg.inputs.append(NnetIo("ivector", sequence_indexes(1, [0]), np.full((1, 2), number, np.float32)))
        if number % 5 == 1:
            eg.outputs[0].deriv_weights = np.zeros(0, np.float32)
    return egs


@pytest.mark.parametrize("form", ["ark", "ark,t"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_chain_examples(chain_egs: list[NnetChainExample], tmp_path: Path, form: str, num_workers: int) -> None:
    """Minibatches of examples that can be merged: what ChainLoss makes of each is as of its examples alone."""
    write_table(f"{form}:{tmp_path}/cegs.ark", CHAIN_EXAMPLE,
                ((f"eg{number}", eg) for number, eg in enumerate(chain_egs)))
    loader = DataLoader(ExampleDataset(f"ark:{tmp_path}/cegs.ark", 4), batch_size=None, num_workers=num_workers)
    loss = ChainLoss(random_graph(np.random.default_rng(1), 6, 5), 5, 0.1)
    numbers = []
    torch.manual_seed(0)
    for batch in loader:
        number = batch["ivector"][:, 0, 0].long().tolist()
        numbers += number
        frames = batch["output"].supervision.frames_per_sequence
        assert batch["input"].shape == (len(number), 3 * frames - 2, 3) and batch["ivector"].shape[1:] == (1, 2)
        assert len({each % 5 if each % 5 > 1 else 0 for each in number}) == 1
        output = torch.randn(len(number), frames, 5, requires_grad=True)
        deriv, = torch.autograd.grad(loss(output, batch["output"]), output)
        sums = loss.sums
        alone, = torch.autograd.grad(loss(output, [chain_egs[each].outputs[0] for each in number]), output)
        assert torch.allclose(deriv, alone, atol=SAME) and loss.sums == pytest.approx(sums, abs=10 * SAME)
    assert sorted(numbers) == list(range(15))


def test_single_chain_examples(chain_egs: list[NnetChainExample], tmp_path: Path) -> None:
    write_table(f"ark:{tmp_path}/cegs.ark", CHAIN_EXAMPLE, {"a": chain_egs[0]})
    single, = ExampleDataset(f"ark:{tmp_path}/cegs.ark", None)
    assert single["input"].shape == (10, 3) and single["output"].supervision.num_sequences == 1
    with pytest.raises(ShapeError, match="'input' of an example: it holds several sequences"):
        tensors(chain_example(np.random.default_rng(0), 2, 4, 5))
    write_table(f"ark:{tmp_path}/none.ark", CHAIN_EXAMPLE, {})
    assert not list(ExampleDataset(f"ark:{tmp_path}/none.ark"))


def test_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport nnet3py.torch_data"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "data sets for PyTorch need the package torch" in done.stderr.splitlines()[-2] + done.stderr.splitlines()[-1]
