"""nnet3py/training/tensors.py: what is torch's is recognized, without importing torch."""
from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from nnet3py.training.tensors import as_array, is_array, is_loader, is_module, is_tensor, items_of


def test_other_things_are_none_of_torch() -> None:
    array = np.ones(3)
    assert not (is_tensor(array) or is_module(array) or is_loader([array])) and is_array(array) and not is_array([1.0])
    assert as_array(array) is array and items_of(array) is array


def test_torch_is_not_imported() -> None:
    code = ("import sys, numpy as np, nnet3py; from nnet3py.training import tensors as t; "
            "t.is_tensor(1), t.is_module(1), t.is_loader(1), t.as_array(1), t.items_of(1), nnet3py.Loss(len), "
            "nnet3py.Trainer; print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_tensors_become_arrays() -> None:
    torch = pytest.importorskip("torch")
    for dtype, kind in ((torch.float64, np.float32), (torch.float16, np.float32), (torch.bfloat16, np.float32),
                        (torch.float32, np.float32), (torch.int32, np.int32), (torch.int64, np.int64)):
        array = as_array(torch.ones(2, 3, dtype=dtype))
        assert array.dtype == kind and array.shape == (2, 3) and array.sum() == 6
    tensor = torch.ones(2, requires_grad=True)
    assert as_array(tensor).tolist() == [1, 1] and is_tensor(tensor) and is_array(tensor)
    assert as_array(torch.eye(2).to_sparse()).tolist() == [[1, 0], [0, 1]]
    assert is_module(torch.nn.MSELoss()) and not is_module(torch.nn.MSELoss)


def test_data_sets_have_items() -> None:
    torch = pytest.importorskip("torch")
    pairs = torch.utils.data.TensorDataset(torch.arange(3), torch.arange(3) + 5)
    assert [(int(a), int(b)) for a, b in items_of(pairs)] == [(0, 5), (1, 6), (2, 7)]
    assert is_loader(torch.utils.data.DataLoader(pairs))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([1])

    stream = Stream()
    assert items_of(stream) is stream
