"""Posteriors."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from io_samples import SAMPLES, archive, check_survives, reader_of, written
from paths import shared_golden

from nnet3py.errors import FormatError
from nnet3py.formats.posteriors import Posterior, posterior_of_alignment, read_posterior, write_posterior

frames_of_pairs = st.lists(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(0, 10, width=32)), max_size=5))


def test_bytes_are_kaldis() -> None:
    frames = [[(3, 0.5)], []]
    assert written(write_posterior, frames, binary=True) == bytes.fromhex(
        "0402000000 0401000000 0403000000 040000003f 0400000000")
    frames = [[(3, 0.5), (12, 0.5)], [], [(7, 1.0)]]
    assert written(write_posterior, frames, binary=False) == b"[ 3 0.5 12 0.5 ] [ ] [ 7 1 ] \n"


def test_parts_have_the_frames_asked_for() -> None:
    frames = [[(3, 0.5)], [(4, 0.25), (5, 0.75)], [], [(7, 1.0)]]
    whole = Posterior.from_lists(frames)
    for first, end in ((0, 4), (1, 3), (1, 4), (2, 2), (3, 4)):
        part = whole.part(first, end)
        assert list(part) == frames[first:end] and part.row_starts[0] == 0


@pytest.mark.parametrize("all_of_them", [False, True])
@pytest.mark.parametrize("name, binary", [("post.ark", True), ("post.txt", False)])
def test_archives_are_written_back(name: str, binary: bool, all_of_them: bool) -> None:
    folder = shared_golden() / "data" if all_of_them else SAMPLES
    entries = list(archive(folder / name, read_posterior))
    for _, value, data in entries:
        assert len(value) > 100
        assert written(write_posterior, value, binary=binary) == data.lstrip(b" ")
    assert entries[0][1] == next(archive(folder / "post.ark", read_posterior))[1]


@given(frames_of_pairs, st.booleans())
def test_posteriors_come_back(frames: list, binary: bool) -> None:
    value = Posterior.from_lists(frames)
    reader = reader_of(written(write_posterior, value, binary=binary) + b"rest", binary)
    found = read_posterior(reader)
    assert reader.peek(4) == b"rest"
    assert np.array_equal(found.row_starts, value.row_starts) and np.array_equal(found.ids, value.ids)
    np.testing.assert_allclose(found.weights, value.weights, rtol=0 if binary else 1e-6)   # seven digits are printed
    assert list(value) == frames
    assert [value[i] for i in range(len(value))] == frames
    assert value[1:] == frames[1:]


def test_alignments() -> None:
    assert list(posterior_of_alignment(np.array([3, 1], dtype=np.int32))) == [[(3, 1.0)], [(1, 1.0)]]


@pytest.mark.parametrize("text", [b"1 2 3\n", b"[ 1 ]\n", b"[ 1 x ]\n", b"[ 1 0.5\n", b"[ 1 0.5 ] 3\n",
                                  b"[ 1.5 0.5 ]\n", b"[ 1 nan ]\n", b"[ 2147483648 1 ]\n", b"[ 1 1e99 ]\n", b"] [\n"])
def test_bad_text_is_refused(text: bytes) -> None:
    with pytest.raises(FormatError, match="ali-to-post" if text == b"1 2 3\n" else None):
        read_posterior(reader_of(text, False))


def test_too_many_frames_are_refused() -> None:
    with pytest.raises(FormatError, match="at most"):
        read_posterior(reader_of(b"\4\xff\xff\xff\x7f", True))


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_bytes_are_refused(binary: bool) -> None:
    data = written(write_posterior, [[(3, 0.5), (12, 0.5)], [], [(7, 1.0)]], binary=binary)
    check_survives(read_posterior, data, binary)
