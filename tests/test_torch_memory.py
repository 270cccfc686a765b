"""Memory that PyTorch's tensors share with nnet3py's operations."""
from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from nnet3py.torch.memory import ReusedMemory, matrix_of  # noqa: E402

CPU = torch.device("cpu")


def test_memory_is_used_again_when_no_tensor_lies_in_it() -> None:
    memory = ReusedMemory()
    first = memory.empty((3, 5), CPU)
    place, view = first.data_ptr(), first.transpose(0, 1)
    assert first.shape == (3, 5) and first.dtype == torch.float32 and first.is_contiguous()
    del first
    second = memory.empty((3, 5), CPU)
    assert second.data_ptr() != place                # the view lies there
    del view
    third = memory.empty((2, 7), CPU)                # of nearly the same size
    assert third.data_ptr() == place and third.shape == (2, 7)
    matrix = matrix_of(third)
    del third
    assert memory.empty((3, 5), CPU).data_ptr() != place and matrix.shape == (2, 7)


@pytest.mark.parametrize("shape, expected", [((4,), (4,)), ((2, 3), (2, 3)), ((2, 3, 4), (6, 4))])
def test_the_last_axis_becomes_the_columns(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    matrix = matrix_of(torch.arange(float(math.prod(shape))).reshape(shape))
    assert matrix.shape == expected and matrix.ravel().tolist() == list(range(math.prod(shape)))
    assert matrix_of(None) is None


def test_tensors_that_are_kept_stay_as_they_are() -> None:
    memory = ReusedMemory()
    kept = [memory.empty((4,), CPU).fill_(value) for value in range(3 * ReusedMemory.MOST_BLOCKS)]
    assert [tensor.tolist() for tensor in kept] == [[value] * 4 for value in range(len(kept))]
    parameter = torch.zeros(2, 2, requires_grad=True)
    (parameter * memory.empty((2, 2), CPU).fill_(3.0)).sum().backward()
    grad = parameter.grad
    other = [memory.empty((2, 2), CPU).fill_(-1.0) for _ in range(5)]
    assert grad is not None and grad.tolist() == [[3.0, 3.0], [3.0, 3.0]] and len(other) == 5


def test_sizes_that_change_do_not_pile_up() -> None:
    memory = ReusedMemory()
    for size in (10, 100, 1000, 10_000, 100_000, 1_000_000):
        memory.empty((size,), CPU)
    assert len(memory._blocks) <= ReusedMemory.MOST_BLOCKS
