"""nnet3py/egs/merger.py: rules for minibatch sizes, and minibatches of examples."""
from __future__ import annotations

import numpy as np
import pytest
from paths import DATA, shared_golden

from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo, read_egs
from nnet3py.egs.make import time_indexes
from nnet3py.egs.merger import ExampleMerger, MinibatchSizes, merge_examples
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix
from nnet3py.io.tables import write_table


def test_one_rule():
    sizes = MinibatchSizes("64,32,7")
    assert [sizes.size(15, n, ended=False) for n in (63, 64, 70)] == [0, 64, 64]
    assert [sizes.size(15, n, ended=True) for n in (100, 63, 31, 6, 0)] == [64, 32, 7, 0, 0]


def test_ranges():
    sizes = MinibatchSizes("1:64")
    assert sizes.size(1, 63, ended=False) == 0 and sizes.size(1, 63, ended=True) == 63
    sizes = MinibatchSizes("16,64:128")
    assert [sizes.size(1, n, ended=True) for n in (200, 100, 64, 63, 15)] == [128, 100, 64, 16, 0]


def test_the_rule_of_the_closest_size():
    sizes = MinibatchSizes("128=64,32/256=40,16")
    assert sizes.rule(100).eg_size == 128 and sizes.rule(300).eg_size == 256
    assert sizes.rule(192).eg_size == 128                # as near to both: the first
    assert sizes.size(250, 40, ended=False) == 40


@pytest.mark.parametrize("text", ["", "0", "64-128", "5:3", "a", "64,", "1=2/3", "=4", "1=", "1=2/1=3", "1:64:128",
                                  "-1", "1=2=3", " 64"])
def test_malformed_rules(text):
    with pytest.raises(Nnet3Error, match="minibatch-size") as caught:
        MinibatchSizes(text)
    assert caught.value.exit_code == 255


EGS = f"ark:{DATA / 'egs' / 'compressed.ark'}"


def example(rows, seed=0, dim=2, label=1):
    features = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    return NnetExample([NnetIo("input", time_indexes(-1, rows), features),
                        NnetIo("a", time_indexes(0, 1), SparseMatrix.from_rows([[(label, 1.0)]], 4))])


def test_rows_and_indexes():
    merged = merge_examples([example(3, 1, label=1), example(3, 2, label=2)])
    assert [io.name for io in merged.io] == ["a", "input"]
    assert merged.io[0].indexes.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert merged.io[0].features.columns.tolist() == [1, 2]
    assert merged.io[1].indexes[:, :2].tolist() == [[0, -1], [0, 0], [0, 1], [1, -1], [1, 0], [1, 1]]
    expected = np.concatenate([example(3, s).io[0].features for s in (1, 2)])
    assert np.array_equal(merged.io[1].features, expected)
    twice = merge_examples([merged, merged])
    assert twice.io[0].indexes[:, 0].tolist() == [0, 1, 2, 3]


def test_compressed_inputs():
    egs = [eg for _, eg in read_egs(EGS)][:3]
    dense = merge_examples(egs).find("input").features
    assert np.array_equal(dense, np.concatenate([eg.find("input").features.to_dense() for eg in egs]))
    assert isinstance(merge_examples(egs, compress=True).find("input").features, CompressedMatrix)
    assert isinstance(egs[0].find("input").features, CompressedMatrix)


def test_inconsistent_dims():
    with pytest.raises(ShapeError, match="inconsistent"):
        merge_examples([example(3, dim=2), example(3, dim=3)])


def test_grouping_and_report():
    merger = ExampleMerger(MinibatchSizes("3,2"))
    found = list(merger.merge([example(4), example(5), *(example(4) for _ in range(5)), example(5), example(6)]))
    assert [key for key, _ in found] == ["merged-0-3", "merged-1-3", "merged-2-2"]
    assert [len(eg.io[1].indexes) for _, eg in found] == [12, 12, 10]
    assert merger.specific_report()[1] == "4={3->2,d=0},5={2->1,d=0},6={,d=1}"
    assert merger.aggregate_report() == (
        "Processed 9 egs of avg. size 4.444 into 3 minibatches, discarding 11.11% of egs.  "
        "Avg minibatch size was 2.667, #distinct types of egs/minibatches was 3/2")


def test_an_empty_table():
    merger = ExampleMerger(MinibatchSizes("3"))
    assert list(merger.merge([])) == [] and "Processed 0 egs" in merger.aggregate_report()


@pytest.mark.parametrize("source, options, rules, expected", [
    ("get-egs/egs.ark", "ark", "64,32,7", "merge-egs/egs.ark"),
    ("get-egs-variable/egs.txt", "ark,t", "20=4/30=8,2/40=16", "merge-egs-rules/egs.txt")])
def test_kaldis_minibatches(source, options, rules, expected, tmp_path):
    tools = shared_golden() / "tools"
    merger = ExampleMerger(MinibatchSizes(rules))
    write_table(f"{options}:{tmp_path}/out", EXAMPLE, merger.merge(eg for _, eg in read_egs(f"ark:{tools / source}")))
    assert (tmp_path / "out").read_bytes() == (tools / expected).read_bytes()
    log = (tools / expected).parent.joinpath("log").read_text()
    assert all(line in log for line in (*merger.specific_report(), merger.aggregate_report()))
