"""Selecting frames and contexts of examples."""
from __future__ import annotations

import numpy as np
import pytest
from paths import DATA

from nnet3py.egs.changes import ExampleSelector, Selection, rename_output, scale_outputs
from nnet3py.egs.example import NnetExample, NnetIo, read_egs
from nnet3py.egs.make import time_indexes
from nnet3py.egs.merger import merge_examples
from nnet3py.errors import Nnet3Error
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix
from nnet3py.random_sequence import CRandom

EGS = f"ark:{DATA / 'egs' / 'compressed.ark'}"


def example(compress=False):
    features = np.arange(24, dtype=np.float32).reshape(12, 2)
    labels = SparseMatrix.from_rows([[(i, 1.0)] for i in range(4)], 5)
    one = NnetExample([NnetIo("input", time_indexes(-4, 12), features),
                       NnetIo("ivector", time_indexes(0, 1), features[:1]),
                       NnetIo("output", time_indexes(0, 4), labels)])
    if compress:
        one.compress()
    return one


def select(one, **kwargs):
    return ExampleSelector(Selection(**kwargs), CRandom())(one)


def test_one_frame_with_context():
    found = select(example(), frame=2, left_context=2, right_context=1, frame_shift=1)
    assert found.find("output").indexes.tolist() == [[0, 3, 0]]
    assert found.find("output").features.columns.tolist() == [2]
    assert found.find("input").indexes[:, 1].tolist() == [1, 2, 3, 4]
    assert np.array_equal(found.find("input").features, example().find("input").features[4:8])
    assert found.find("ivector").indexes.tolist() == [[0, 0, 0]]
    assert example().find("input").indexes[0, 1] == -4


def test_frames_that_are_not_there():
    assert select(example(), frame=4) is None and select(example(), frame=-1) is None
    times = {int(select(example(), frame="random").find("output").indexes[0, 1]) for _ in range(1)}
    random = CRandom(3)
    selector = ExampleSelector(Selection(frame="random"), random)
    times |= {int(selector(example()).find("output").indexes[0, 1]) for _ in range(60)}
    assert times == {0, 1, 2, 3}


def test_context_is_cut_on_either_side(caplog):
    assert select(example(), left_context=1).find("input").indexes[:, 1].tolist() == list(range(-1, 8))
    assert select(example(), right_context=0).find("input").indexes[:, 1].tolist() == list(range(-4, 4))
    assert not caplog.records
    selector = ExampleSelector(Selection(left_context=9), CRandom())
    assert len(selector(example()).find("input").indexes) == len(selector(example()).find("input").indexes) == 12
    assert len(caplog.records) == 1


def test_only_what_is_cut_loses_its_compression():
    assert isinstance(select(example(True), frame_shift=1).find("input").features, CompressedMatrix)
    cut = select(example(True), left_context=0).find("input").features
    assert np.array_equal(cut, example(True).find("input").features.to_dense()[4:])


def test_what_cannot_be_cut():
    one = example()
    with pytest.raises(Nnet3Error, match="merged"):
        select(merge_examples([one, one]), frame=1)
    with pytest.raises(Nnet3Error, match="'output'"):
        select(NnetExample(one.io[:2]), frame=1)
    with pytest.raises(Nnet3Error, match="--frame"):
        Selection.parse("x", -1, -1, 0)
    assert Selection.parse("", -1, -1, 0).is_everything() and not Selection.parse("0", -1, -1, 0).is_everything()
    subsampled = NnetExample([one.io[0], NnetIo("output", time_indexes(0, 2, 3), one.io[2].features.take_rows([0, 1]))])
    with pytest.raises(Nnet3Error, match="removed all indexes"):
        select(subsampled, frame=1)


def test_weights_and_names():
    one = example()
    scale_outputs(one, 0.5)
    assert one.find("output").features.values.tolist() == [0.5] * 4
    rename_output(one, "output-1")
    assert one.find("output") is None and one.find("output-1") is not None
    for change in (lambda: scale_outputs(one, 2.0), lambda: rename_output(one, "x")):
        with pytest.raises(Nnet3Error, match="without 'output'"):
            change()


def test_proportions():
    random = CRandom()
    assert [random.count(k) for k in (0.0, 1.0, 3.0)] == [0, 1, 3]
    counts = [random.count(1.25) for _ in range(2000)]
    assert set(counts) == {1, 2} and abs(sum(counts) - 2500) < 100        # 100: five standard deviations


def test_on_kaldis_examples():
    for _, one in read_egs(EGS):
        found = select(one, frame=3, left_context=2, right_context=2)
        assert [len(io.indexes) for io in found.io] == [5, 1]
