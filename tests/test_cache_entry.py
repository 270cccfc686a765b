"""Entries of the computation cache on disk: the same computation comes back, and damage is refused."""
from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from case_runs import read_request
from golden_cases import runnable_cases
from io_samples import damaged
from paths import DATA, shared_golden
from random_cases import KINDS, case

import nnet3py
from nnet3py.compiler import cache_entry
from nnet3py.compiler.cache_entry import from_bytes, to_bytes
from nnet3py.compiler.check_loaded import check_loaded
from nnet3py.compiler.commands import CommandType
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.request import ComputationRequest
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.memory_plan import plan_memory

CASES = DATA / "cases"
KEY = "ab" * 32


def loaded(name: str, folder: Path = CASES) -> tuple[Nnet, ComputationRequest, Computation]:
    nnet, request = nnet3py.read_nnet(str(folder / name / "nnet.raw")), read_request(folder / name / "request.txt")[0]
    return nnet, request, nnet3py.compile(nnet, request)


def check_comes_back(nnet: Nnet, request: ComputationRequest, computation: Computation) -> None:
    """All parts are equal and of the same Python types; what is read passes the checker."""
    computation = computation.unfused()
    data = to_bytes(computation, KEY)
    again = from_bytes(data, KEY)
    assert to_bytes(again, KEY) == data
    assert again.describe(nnet) == computation.describe(nnet)
    for name in ("matrices", "submatrices", "commands", "need_model_derivative"):
        assert repr(getattr(again, name)) == repr(getattr(computation, name))
    for name in ("indexes", "indexes_multi", "indexes_ranges"):
        check_equal(getattr(again, name), getattr(computation, name))
    for mine, theirs in zip(again.precomputed_rows, computation.precomputed_rows, strict=True):
        check_equal(mine, theirs)
    for mine, theirs in zip(again.debug_info, computation.debug_info, strict=True):
        check_equal(mine[:2], theirs[:2])
        assert mine.is_deriv is theirs.is_deriv
    assert len(again.precomputed_indexes) == len(computation.precomputed_indexes)
    check_loaded(again, nnet, request)


def check_equal(mine, theirs) -> None:
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == np.int32 and one.flags.writeable
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
def test_the_computation_of_a_case_comes_back(name: str) -> None:
    check_comes_back(*loaded(name))


def test_the_computation_of_every_golden_case_comes_back() -> None:
    folder = shared_golden() / "cases"
    names = runnable_cases(folder)
    for name in names:
        check_comes_back(*loaded(name, folder))
    assert names


@pytest.mark.parametrize("number", range(2 * len(KINDS)))
def test_the_computation_of_a_random_network_comes_back(number: int) -> None:
    one = case(number)
    check_comes_back(one.nnet, one.request, nnet3py.compile(one.nnet, one.request))


def test_equal_lists_are_stored_once() -> None:
    _, _, computation = loaded("tdnn-component")
    copies = computation.copy()
    copies.debug_info = [info._replace(indexes=info.indexes.copy()) for info in computation.debug_info]
    assert to_bytes(copies, KEY) == to_bytes(computation, KEY)
    again = from_bytes(to_bytes(copies, KEY), KEY)
    assert len({id(info.indexes) for info in again.debug_info}) < len(again.debug_info)


@pytest.mark.parametrize("change, message", [
    (lambda data: b"", "only the beginning"), (lambda data: data[:50], "only the beginning"),
    (lambda data: b"\0B" + data, "another kind of file"), (lambda data: data[:-1], "damaged"),
    (lambda data: data.replace(KEY.encode(), b"cd" * 32), "another request or network"),
    (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "damaged"), (lambda data: data + b"\0", "damaged")])
def test_what_is_no_entry_is_refused(change, message: str) -> None:
    data = to_bytes(loaded("affine")[2], KEY)
    with pytest.raises(FormatError, match=message):
        from_bytes(change(data), KEY)


def signed(data: bytes) -> bytes:
    """The same with the checksum that belongs to it, as somebody would write it who means harm."""
    head = cache_entry._HEAD
    if len(data) < head.size:
        return data
    magic, key, _, count = head.unpack_from(data)
    return head.pack(magic, key, zlib.crc32(data[head.size:]), count) + data[head.size:]


def tampered(computation: Computation, count: int) -> Iterator[bytes]:
    """Entries with well-formed arrays, of which one has a number changed, or is longer or shorter."""
    rng = np.random.default_rng(7)
    arrays = cache_entry._to_arrays(computation)
    for _ in range(count):
        name = arrays._fields[rng.integers(len(arrays))]
        array = getattr(arrays, name).copy().reshape(-1)
        if array.size and rng.integers(4):
            array[rng.integers(array.size)] = rng.choice([-2, -1, 0, 1, 3, 100, 2**31 - 1]) if array.itemsize > 1 else 7
        else:
            array = array[:-1] if rng.integers(2) else np.concatenate((array, array[:1]))
        yield cache_entry._packed(arrays._replace(**{name: array}), KEY)


@pytest.mark.parametrize("name", ["affine", "tdnn-component", "statistics-pooling", "dropout-test-mode"])
def test_harm_is_refused_or_harmless(name: str) -> None:
    """Reading and checking raise Nnet3Error only; what passes can be run and stays within its matrices."""
    nnet, request, computation = loaded(name)
    data = to_bytes(computation, KEY)
    refused = 0
    for sample in (*map(signed, damaged(data, 100, seed=3)), *tampered(computation, 250)):
        try:
            again = from_bytes(sample, KEY)
            check_loaded(again, nnet, request)
        except Nnet3Error:
            refused += 1
            continue
        run(again, nnet, request)
    assert refused > 100


def run(computation: Computation, nnet: Nnet, request: ComputationRequest) -> None:
    """Forward and backward, on ones; results may be anything, and so may errors that are raised on purpose."""
    plan_memory(computation)
    with suppress(Nnet3Error):
        computer = nnet3py.Computer(computation, nnet, update=nnet.as_gradient())
        derivs = [spec for spec in request.outputs if spec.has_deriv]
        for specs, dim_of in ((request.inputs, nnet.input_dim), (derivs, nnet.output_dim)):
            for spec in specs:
                computer.accept_input(spec.name, np.ones((len(spec.indexes), dim_of(spec.name)), np.float32))
            computer.run()


@pytest.mark.parametrize("name, value, message", [
    ("command_types", [len(CommandType)], "command that does not exist"), ("command_types", [], "do not fit"),
    ("command_args", [0, 0], "another length"), ("submatrices", [-1] * 5, "negative"),
    ("indexes", [-2], "row number -2"), ("indexes_sizes", [1 << 30], "other lengths"),
    ("rows_t", [1], "different lengths"), ("debug_info", [0, 999, 0], "not there"),
    ("precomputed_rows", [999, 0], "not there"), ("need_model_derivative", [], "do not fit"),
    ("command_alphas", [1], "another type")])
def test_wrong_arrays_are_named(name: str, value: list[int], message: str) -> None:
    arrays = cache_entry._to_arrays(loaded("affine")[2])._replace(**{name: np.array(value, np.int32)})
    with pytest.raises(FormatError, match=message):
        from_bytes(cache_entry._packed(arrays, KEY), KEY)


def test_numbers_take_as_few_bytes_as_they_need() -> None:
    found = [cache_entry._narrow(np.array(values, np.int32)).dtype.itemsize
             for values in ([], [-128, 127], [128], [-129], [32767], [-32769], [2**31 - 1])]
    assert found == [1, 1, 2, 2, 2, 4, 4]
