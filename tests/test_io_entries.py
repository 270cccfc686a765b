from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import nnet3py
from nnet3py.errors import Nnet3Error, SpecifierError, UsageError
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.entries import Entries

FEATS = {"a": np.ones((3, 2), np.float32), "b": np.zeros((2, 2), np.float32)}


def test_entries_come_one_after_the_other(tmp_path: Path) -> None:
    table = f"ark:{tmp_path / 'feats.ark'}"
    nnet3py.write_matrices(table, FEATS)
    entries = Entries(table, FLOAT_MATRIX, "read_matrices")
    assert repr(entries) == f"<entries of {table}>" and next(entries)[0] == "a"
    assert [key for key, _ in entries] == ["b"] and list(entries) == []
    read = dict(nnet3py.read_matrices(table))
    assert read.keys() == FEATS.keys() and all((read[key] == FEATS[key]).all() for key in FEATS)


def test_what_is_wrong_is_said_at_once_and_how_to_have_one_entry(tmp_path: Path) -> None:
    with pytest.raises(SpecifierError, match="try 'ark:feats.ark'"):
        nnet3py.read_matrices("feats.ark")
    with pytest.raises(UsageError, match="expected an rspecifier such as 'ark:feats.ark', found dict"):
        nnet3py.read_matrices({})                                                              # type: ignore[arg-type]
    absent = nnet3py.read_alignments(f"ark:{tmp_path / 'no.ark'}")
    with pytest.raises(UsageError, match=r"dict\(nnet3py.read_alignments\('ark:.*no.ark'\)\)\['a'\]"):
        absent["a"]                                                                            # type: ignore[index]
    with pytest.raises(UsageError, match=r"list\(nnet3py.read_alignments\('ark:.*no.ark'\)\)\[0\]"):
        absent[0]                                                                              # type: ignore[index]
    with pytest.raises(Nnet3Error, match="no.ark"):
        next(absent)


def test_a_table_is_closed_before_its_end(tmp_path: Path) -> None:
    table = f"ark:{tmp_path / 'feats.ark'}"
    nnet3py.write_matrices(table, FEATS)
    with closing(Entries(table, FLOAT_MATRIX, "read_matrices")) as entries:
        assert next(entries)[0] == "a"
    assert list(entries) == []
