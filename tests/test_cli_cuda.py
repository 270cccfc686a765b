"""cuda-gpu-available and cuda-compiled, with and without a GPU."""
from __future__ import annotations

import socket

import numpy as np
import pytest

import nnet3py.ops
from nnet3py.cli.machine.installation import cuda_compiled, cuda_gpu_available
from nnet3py.cli.process import option_groups
from nnet3py.errors import DeviceError


def test_without_a_gpu(monkeypatch, capfd):
    monkeypatch.setattr(option_groups, "has_gpu_files", lambda: False)
    assert cuda_gpu_available.execute([]) == 1
    err = capfd.readouterr().err
    assert f"### IS CUDA GPU AVAILABLE? '{socket.gethostname()}' ###" in err
    assert "### CUDA WAS NOT COMPILED IN! ###" in err
    assert cuda_compiled.execute(["--print-args=false"]) == 1
    assert capfd.readouterr() == ("", "")


def test_a_gpu_that_does_not_work(monkeypatch, capfd):
    def broken(device):
        raise DeviceError("the driver is too old")

    monkeypatch.setattr(option_groups, "has_gpu_files", lambda: True)
    monkeypatch.setattr(nnet3py.ops, "get_ops", broken)
    assert cuda_gpu_available.execute([]) == 255
    err = capfd.readouterr().err
    assert "### WE DID NOT GET A CUDA GPU!!! ###" in err and "the driver is too old" in err
    assert cuda_compiled.execute([]) == 1


class _Device:
    """Operations that compute on the host."""

    def __init__(self, error: float) -> None:
        self._error = np.float32(error)

    def new_vector(self, size):
        return np.empty(size, dtype=np.float32)

    def copy_in(self, view, matrix):
        view[...] = matrix

    def copy_out(self, view):
        return view.copy()

    def add_mat_mat(self, dst, a, b, alpha, beta):
        dst[...] = a @ b + self._error


@pytest.mark.parametrize(("error", "status"), [(0.0, 0), (0.1, 255), (np.nan, 255)])
def test_the_computation_is_looked_at(monkeypatch, capfd, error, status):
    monkeypatch.setattr(option_groups, "has_gpu_files", lambda: True)
    monkeypatch.setattr(nnet3py.ops, "get_ops", lambda device: _Device(error))
    assert cuda_gpu_available.execute([]) == status
    err = capfd.readouterr().err
    assert ("### HURRAY, WE GOT A CUDA GPU FOR COMPUTATION!!! ##" in err) == (status == 0)
    assert ("a matrix product on the GPU differs from the CPU's by" in err) == (status != 0)
    assert cuda_compiled.execute([]) == 0


@pytest.mark.parametrize("command", [cuda_gpu_available, cuda_compiled])
def test_arguments(command, capfd):
    assert command.execute(["--help"]) == 0 and "Usage:" in capfd.readouterr().err
    assert command.execute(["one"]) == 1
