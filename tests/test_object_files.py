"""Single objects in files."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.formats.holders import read_matrix_file
from nnet3py.formats.matrices import read_matrix, write_matrix
from nnet3py.io.object_files import read_object, write_object

MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("binary", [True, False])
def test_there_and_back(tmp_path, binary):
    path = tmp_path / "m"
    write_object(str(path), lambda writer: write_matrix(writer, MATRIX), binary)
    assert path.read_bytes().startswith(b"\0BFM " if binary else b" [")
    assert np.array_equal(read_object(str(path), read_matrix), MATRIX)
    assert np.array_equal(read_object(f"cat {path} |", read_matrix), MATRIX)
    assert np.array_equal(read_matrix_file(f"{path}[1:2,0:1]"), MATRIX[1:3, :2])
    assert np.array_equal(read_matrix_file(f"{path}:0[:,2:2]"), MATRIX[:, 2:])


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "m"
    for data in (b"", b"\0Cxx", b"\0BFM \4", b"\0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f"):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=str(path)):
            read_object(str(path), read_matrix)
    with pytest.raises(Nnet3Error, match="nothing"):
        read_object(str(tmp_path / "nothing"), read_matrix)


def test_a_failing_writer_leaves_nothing(tmp_path):
    def fail(writer):
        writer.token("<Nnet3>")
        raise ValueError

    with pytest.raises(ValueError):
        write_object(str(tmp_path / "m"), fail)
    assert list(tmp_path.iterdir()) == []
