"""Matrix products of the GPU without a GPU: our kernel in the simulator, and cuBLAS's arguments with a stand-in.

See tests/cuda_checks.py: run as a program, in a process of its own, this file compares our kernel with the
reference.
"""
from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import reference
from cublas_on_the_host import CublasOnTheHost
from cuda_checks import COMPUTE_CAPABILITIES, check_in_simulator, check_ptx

SIZES = [(1, 1, 1), (5, 7, 3), (9, 2, 4), (4, 4, 6), (3, 5, 0), (0, 2, 3), (2, 0, 3)]      # rows, cols, inner
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
FACTORS = [(1.0, 0.0), (-0.5, 1.0), (2.0, 0.25)]                                           # alpha, beta
TOLERANCE = 1e-5      # float32 sums of a few products in another order


def test_in_the_simulator():
    check_in_simulator(__file__, len(SIZES) * len(TRANSPOSES))


@pytest.mark.parametrize("compute_capability", COMPUTE_CAPABILITIES)
def test_compiles_to_ptx(compute_capability):
    from nnet3py.ops.cuda import products
    check_ptx(products, "_tiled", compute_capability)


def cases(rng: np.random.Generator, size: tuple[int, int, int], trans_a: bool, trans_b: bool):
    """Views into wider matrices, and the wide destination; NaN where nothing may be read or stays unread."""
    def part(rows: int, cols: int) -> np.ndarray:
        whole = np.full((rows + 1, cols + 3), np.nan, np.float32)
        whole[:rows, 2:cols + 2] = rng.standard_normal((rows, cols))
        return whole

    rows, cols, inner = size
    return part(rows, cols), part(*((inner, rows) if trans_a else (rows, inner))), part(
        *((cols, inner) if trans_b else (inner, cols)))


def inside(whole):
    """The view of such a wide matrix."""
    return whole[:whole.shape[0] - 1, 2:whole.shape[1] - 1]


# -- cuBLAS ------------------------------------------------------------------------------------------------------------


class HostArray:
    """A host array that shows its address as a device array does."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.strides, self.size = array, array.shape, array.strides, array.size
        self.gpu_data = SimpleNamespace(device_pointer_value=array.ctypes.data)


def made(library: CublasOnTheHost):
    from nnet3py.ops.cuda.cublas import Cublas

    return Cublas(library, 7, HostArray(np.zeros(4, np.float32)))


@pytest.mark.parametrize("size", [size for size in SIZES if 0 not in size])
@pytest.mark.parametrize(("trans_a", "trans_b"), TRANSPOSES)
def test_cublas_gets_row_major_matrices(size, trans_a, trans_b):
    rng, blas = np.random.default_rng(3), made(CublasOnTheHost())
    for alpha, beta in FACTORS:
        dst, a, b = cases(rng, size, trans_a, trans_b)
        wanted = dst.copy()
        reference.add_mat_mat(inside(wanted), inside(a), inside(b), alpha, beta, trans_a, trans_b)
        blas.sgemm(*(HostArray(inside(whole)) for whole in (dst, a, b)), alpha, beta, trans_a, trans_b)
        np.testing.assert_allclose(dst, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_factors_on_the_device():
    rng, library = np.random.default_rng(5), CublasOnTheHost()
    blas, one = made(library), HostArray(np.ones(1, np.float32))
    dst, a, b = cases(rng, (3, 4, 5), True, False)
    wanted = dst.copy()
    reference.add_mat_mat(inside(wanted), inside(a), inside(b), 0.25, 1.0, True, False)
    blas.sgemm_by(*(HostArray(inside(whole)) for whole in (dst, a, b)), HostArray(np.full(1, 0.25, np.float32)), one,
                  True, False)
    np.testing.assert_allclose(dst, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    assert library.pointer_modes == [0, 1, 0]


def test_a_column_as_a_matrix():
    """A vector seen as a column has rows of one element, and a stride of one."""
    rng, blas = np.random.default_rng(4), made(CublasOnTheHost())
    bias, dy, ones = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 1), (5, 3), (5, 1)))
    wanted = bias + dy.T @ ones
    blas.sgemm(HostArray(bias), HostArray(dy), HostArray(ones), 1.0, 1.0, True, False)
    np.testing.assert_allclose(bias, wanted, rtol=TOLERANCE)


def test_arithmetic_and_errors(monkeypatch):
    from nnet3py.errors import DeviceError
    from nnet3py.ops.cuda import cublas

    monkeypatch.setitem(cublas._settings, "tf32", False)
    library = CublasOnTheHost()
    blas, one = made(library), [HostArray(np.ones((1, 1), np.float32)) for _ in range(3)]
    assert library.stream == 7 and library.workspace == 16
    for allowed in (False, False, True):
        cublas.allow_tf32(allowed)
        blas.sgemm(*one, 1.0, 0.0, False, False)
    assert library.modes == [cublas.PEDANTIC, cublas.TF32]
    with pytest.raises(DeviceError, match=r"cuBLAS could not create a handle \(status 13\)"):
        made(CublasOnTheHost("create"))
    with pytest.raises(DeviceError, match=r"cuBLAS could not multiply matrices \(status 13\)"):
        made(CublasOnTheHost("multiply")).sgemm(*one, 1.0, 0.0, False, False)


def test_where_the_library_is_looked_for(monkeypatch, tmp_path):
    from nnet3py.ops.cuda import cublas

    name = cublas._names()[1]
    wheel, toolkit = tmp_path / "site" / "nvidia" / "cublas" / "lib", tmp_path / "toolkit" / "lib64"
    for folder in (wheel, toolkit):
        folder.mkdir(parents=True)
        (folder / name).write_bytes(b"no library")
    monkeypatch.setattr(cublas.sys, "path", [str(tmp_path / "site")])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setattr(cublas.importlib.util, "find_spec", lambda name: None)
    found = list(cublas._paths())
    assert found[:2] == [str(wheel / name), str(toolkit / name)]
    assert found[-len(cublas._names()):] == cublas._names()
    monkeypatch.setattr(cublas, "_paths", lambda: iter(found[:2]))
    assert cublas.library.__wrapped__() is None, "a file that is not a library is passed over"


# -- our own kernel ----------------------------------------------------------------------------------------------------


def simulate() -> int:
    """Compare the kernel with the reference in the simulator; returns the number of cases."""
    from nnet3py.ops import device, get_ops

    ops, cuda, rng, count = get_ops("cuda"), device.cuda(), np.random.default_rng(2), 0
    for size in SIZES:
        for trans_a, trans_b in TRANSPOSES:
            alpha, beta = FACTORS[count % len(FACTORS)]
            wholes = cases(rng, size, trans_a, trans_b)
            dst, a, b = (cuda.to_device(whole) for whole in wholes)
            ops.add_mat_mat(inside(dst), inside(a), inside(b), alpha, beta, trans_a, trans_b)
            wanted = wholes[0].copy()
            reference.add_mat_mat(inside(wanted), inside(wholes[1]), inside(wholes[2]), alpha, beta, trans_a, trans_b)
            np.testing.assert_allclose(dst.copy_to_host(), wanted, rtol=TOLERANCE, atol=TOLERANCE)
            count += 1
    return count


if __name__ == "__main__":
    print(simulate())
