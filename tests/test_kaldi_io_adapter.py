"""The adapter around kaldi-io: the same arrays as our own readers, and no traces of its import."""
from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest

from nnet3py.errors import FormatError
from nnet3py.formats import kaldi_io_adapter, matrices
from nnet3py.io.tokens import TokenReader, TokenWriter

RNG = np.random.default_rng(5)
MATRICES = [RNG.standard_normal(shape).astype(dtype) for shape in ((3, 4), (1, 1), (40, 7)) for dtype in ("f4", "f8")]


def reader(data):
    return TokenReader(io.BytesIO(data), path="x", binary=True)


def written(write, value):
    stream = io.BytesIO()
    write(TokenWriter(stream, True), value)
    return stream.getvalue()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_ways_give_the_same(dtype, monkeypatch):
    for matrix in MATRICES:
        for write, ours, theirs, value in (
                (matrices.write_matrix, matrices.read_matrix, kaldi_io_adapter.read_matrix, matrix),
                (matrices.write_vector, matrices.read_vector, kaldi_io_adapter.read_vector, matrix[0])):
            data = written(write, value) + b"next"
            source = reader(data)
            found, expected = theirs(source, dtype), ours(reader(data), dtype)
            assert found.dtype == expected.dtype == dtype and np.array_equal(found, expected)
            assert found.flags.writeable and source.raw(4) == b"next"


def test_kaldi_io_is_really_used(monkeypatch):
    calls = []
    module = kaldi_io_adapter.kaldi_io()
    monkeypatch.setattr(module, "read_mat", lambda fd, real=module.read_mat: calls.append("mat") or real(fd))
    kaldi_io_adapter.read_matrix(reader(written(matrices.write_matrix, MATRICES[0])))
    kaldi_io_adapter.read_matrix(reader(written(matrices.write_matrix, np.zeros((0, 0), np.float32))))
    assert calls == ["mat"]


def test_what_kaldi_io_gets_wrong_is_an_error_of_ours():
    good = written(matrices.write_matrix, MATRICES[0])
    for bad in (good[:-1], good[:9], b"XM ", b"FM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f",
                b"FM \4\xff\xff\xff\xff\4\1\0\0\0",
                b"FM \3\1\0\0\0\4\1\0\0\0abcd"):
        with pytest.raises(FormatError):
            kaldi_io_adapter.read_matrix(reader(bad))
    for bad in (b"FV \4\xff\xff\xff\x7f", b"FV \4\2\0\0\0abcd", b"FV \4\xfe\xff\xff\xff"):
        with pytest.raises(FormatError):
            kaldi_io_adapter.read_vector(reader(bad))


def test_kaldi_io_is_not_used_for_2_gib(monkeypatch):
    """Its 32-bit products overflow."""
    monkeypatch.setattr(matrices, "read_matrix", lambda reader, dtype: "ours")
    monkeypatch.setattr(matrices, "read_vector", lambda reader, dtype: "ours")
    assert kaldi_io_adapter.read_vector(reader(b"FV \4\0\0\0\x20")) == "ours"
    assert kaldi_io_adapter.read_matrix(reader(b"FM \4\0\0\0\x10\4\2\0\0\0")) == "ours"


def test_the_import_leaves_no_traces():
    code = ("import os, sys\n"
            "before, stderr = dict(os.environ), sys.stderr\n"
            "from nnet3py.formats.kaldi_io_adapter import kaldi_io\n"
            "assert 'kaldi_io' not in sys.modules\n"
            "kaldi_io()\n"
            "assert dict(os.environ) == before and sys.stderr is stderr\n")
    for extra in ({}, {"KALDI_ROOT": "/nowhere"}):
        env = {k: v for k, v in os.environ.items() if k != "KALDI_ROOT"} | extra
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
