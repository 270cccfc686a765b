"""formats/layouts.py: whoever reads, finds, walks over or writes a matrix agrees on where it begins and ends."""
from __future__ import annotations

import numpy as np
import pytest
from io_samples import reader_of, written

from nnet3py.errors import FormatError
from nnet3py.formats.general import SparseMatrix, read_general_matrix, to_dense, write_general_matrix
from nnet3py.formats.layouts import FORMS, LONGEST_HEAD, Head, Part, head_bytes, head_of, read_head, walk_matrix
from nnet3py.io.skim import Incomplete, Unusual, Walk

ROWS, COLS, MINIMUM, RANGE = 3, 5, -1.5, 4.0


def matrix_bytes(kind: str) -> bytes:
    form = FORMS[kind]
    return (head_bytes(kind, ROWS, COLS, MINIMUM, RANGE)
            + bytes(range((form.column_bytes + form.element_bytes * ROWS) * COLS)))


@pytest.mark.parametrize("kind", FORMS)
def test_all_find_the_same_matrix(kind: str) -> None:
    before, data = b"key", matrix_bytes(kind)
    minimum, range_ = (MINIMUM, RANGE) if kind.startswith("C") else (0.0, 0.0)
    head = head_of(before + data + b"more", len(before))
    begin = len(before) + FORMS[kind].head_bytes
    assert head == Head(kind, minimum, range_, ROWS, COLS, begin, len(before + data))
    assert FORMS[kind].head_bytes == len(head_bytes(kind, ROWS, COLS)) <= LONGEST_HEAD
    walk = Walk(before + data + b"more", len(before))
    walk_matrix(walk)
    assert walk.at == len(before + data) and walk.parts == [Part(kind, 0, len(data))]
    reader = reader_of(data + b"more", True)
    found = to_dense(read_general_matrix(reader))
    assert found.shape == (ROWS, COLS) and reader.raw(4) == b"more"
    again = written(write_general_matrix, read_general_matrix(reader_of(data, True)), binary=True)
    assert again == data or kind == "DM"                # which is read as floats


@pytest.mark.parametrize("kind", FORMS)
def test_what_ends_too_early(kind: str) -> None:
    data = matrix_bytes(kind)
    for size in range(len(data)):
        if size < FORMS[kind].head_bytes:
            with pytest.raises(Incomplete):
                head_of(data[:size])
        with pytest.raises(Incomplete):
            walk_matrix(Walk(data[:size], 0))
        with pytest.raises(FormatError):
            read_general_matrix(reader_of(data[:size], True))


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("dims", [(0, 0), (0, 5), (3, 0), (-1, 5), (3, -1)])
def test_empty_and_damaged_ones_are_left_to_reading(kind: str, dims: tuple[int, int]) -> None:
    data = head_bytes(kind, *dims)
    with pytest.raises(Unusual):
        head_of(data)
    token = FORMS[kind].token
    if dims == (0, 0):
        assert read_head(reader_of(data[len(token):], True), kind)[3:5] == dims
    else:
        with pytest.raises(FormatError, match=f"dimensions of a .*matrix, found {dims[0]} x {dims[1]}"):
            read_head(reader_of(data[len(token):], True), kind)


def test_integers_of_other_sizes() -> None:
    data = b"FM \x08" + bytes(9)
    with pytest.raises(Unusual):
        head_of(data)
    with pytest.raises(FormatError, match="in integers of 8 and 0 bytes"):
        read_head(reader_of(data[3:], True), "FM")


def test_sparse_ones_are_walked_over() -> None:
    matrix = SparseMatrix.from_rows([[(1, 2.0)], [], [(0, 1.0), (4, 3.0)]], 5)
    data = written(write_general_matrix, matrix, binary=True)
    walk = Walk(data + b"more", 0)
    walk_matrix(walk)
    assert walk.parts == [Part("SM", 0, len(data))]
    assert np.array_equal(to_dense(read_general_matrix(reader_of(data, True))), matrix.to_dense())
