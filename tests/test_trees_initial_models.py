"""nnet3py/trees/initial_models.py and gaussians/mixtures.py: Kaldi's own models, files, and what cannot be made."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from io_samples import reader_of
from paths import DATA

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.feat.cmvn import accumulate_stats, empty_stats
from nnet3py.formats.matrices import read_vector
from nnet3py.gaussians.mixtures import DiagGmm, GmmModel
from nnet3py.hmm.topology import HmmState, HmmTopology
from nnet3py.hmm.tree import Constant, ContextDependency, Table, monophone_tree
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.streams import read_lines
from nnet3py.trees.initial_models import (
    BiphoneCounts,
    OldModel,
    biphone_tree,
    global_gaussian,
    model_of_stats,
    phone_sets,
    same_for_all,
)
from nnet3py.trees.stats import TreeStats

TREES = DATA / "trees"
SINGLE = 1e-5          # of numbers that were computed in single precision
CANCELLED = 1e-4       # of variances, differences of much larger single-precision numbers
TOPOLOGY = read_object(TREES / "topo.chain", HmmTopology.read)
SMALL = read_object(TREES / "topo5.chain", HmmTopology.read)
STATS = read_object(TREES / "bi.treeacc", TreeStats.read)
TREE = read_object(TREES / "bi.tree", ContextDependency.read)


def test_model_of_statistics_is_kaldis() -> None:
    model, counts = model_of_stats(TREE, STATS, TOPOLOGY, 0.01)
    expected = read_object(TREES / "bi.mdl", GmmModel.read)
    np.testing.assert_array_equal(counts, read_object(TREES / "bi.occs", read_vector))
    np.testing.assert_array_equal(model.transition_model.tuples, expected.transition_model.tuples)
    for pdf, of_kaldi in zip(model.pdfs, expected.pdfs, strict=True):
        np.testing.assert_allclose(pdf.means_inv_vars, of_kaldi.means_inv_vars, rtol=CANCELLED, atol=SINGLE)
        np.testing.assert_allclose(pdf.inv_vars, of_kaldi.inv_vars, rtol=CANCELLED)


@pytest.mark.parametrize("binary", [True, False])
def test_files_round_trip(binary: bool, tmp_path: Path) -> None:
    model = read_object(TREES / "bi.mdl", GmmModel.read)
    write_object(tmp_path / "one", model.write, binary)
    write_object(tmp_path / "two", read_object(tmp_path / "one", GmmModel.read).write, binary)
    if binary:
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        assert len((tmp_path / "one").read_bytes()) == (TREES / "bi.mdl").stat().st_size
    for first, second in zip(model.pdfs, read_object(tmp_path / "two", GmmModel.read).pdfs, strict=True):
        np.testing.assert_allclose(first.means_inv_vars, second.means_inv_vars, rtol=SINGLE)


def test_constants_give_a_density() -> None:
    gmm = DiagGmm(np.array([0.25, 0.75], dtype=np.float32), np.array([[2.0, 0.0], [1.0, -4.0]], dtype=np.float32),
                  np.array([[2.0, 1.0], [0.5, 4.0]], dtype=np.float32))
    x = np.array([0.3, -0.7])
    for weight, mean_inv_var, inv_var, constant in zip(gmm.weights, gmm.means_inv_vars, gmm.inv_vars,
                                                        gmm.log_constants(), strict=True):
        mean, variance = mean_inv_var / inv_var, 1 / inv_var
        expected = np.log(weight) + (-0.5 * (x - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)).sum()
        assert constant + x @ mean_inv_var - 0.5 * (x * x) @ inv_var == pytest.approx(expected, rel=SINGLE)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("1 1 \n", "1 0 \n", "expected finite means, and weights and variances above 0"),
    ("1 1 \n", "1 -1 \n", "expected finite means, and weights and variances above 0"),
    ("5 2 \n", "5 nan \n", "expected finite means, and weights and variances above 0"),
    ("[ 1 0 ]", "[ 1 -1 ]", "expected finite means, and weights and variances above 0"),
    ("[ 1 0 ]", "[ 1 ]", r"of the same Gaussians, found \(1,\), \(2, 2\) and \(2, 2\)"),
    ("1 1 \n", "", r"of the same Gaussians, found \(2,\), \(2, 2\) and \(1, 2\)"),
    ("<WEIGHTS>", "<WAITS>", "expected <WEIGHTS>"), ("</DiagGMM>", "</FullGMM>", "expected </DiagGMM>")])
def test_bad_mixtures_are_refused(old: str, new: str, message: str) -> None:
    text = ("<DiagGMM> <GCONSTS>  [ 7 8 ]\n<WEIGHTS>  [ 1 0 ]\n<MEANS_INVVARS>  [\n5 2 \n3 4 ]\n<INV_VARS>  [\n1 1 \n"
            "2 4 ]\n</DiagGMM>\n")
    gmm = DiagGmm.read(reader_of(text.encode(), False))
    assert (gmm.weights.tolist(), gmm.means_inv_vars.tolist()) == ([1, 0], [[5, 2], [3, 4]])
    assert gmm.log_constants()[1] == -np.inf, "a weight of 0"
    assert text.count(old) == 1
    with pytest.raises(FormatError, match=message):
        DiagGmm.read(reader_of(text.replace(old, new).encode(), False))


def test_gaussians_whose_likelihoods_are_nan_are_named() -> None:
    ones = np.ones((3, 2), np.float32)
    inv_vars = ones.copy()
    inv_vars[1, 0] = -1.0
    with np.errstate(invalid="ignore"), pytest.raises(FormatError, match="Gaussian 1 of a mixture has .* of NaN"):
        DiagGmm(ones[:, 0], ones, inv_vars).log_constants()


def test_global_gaussian() -> None:
    rng = np.random.default_rng(2)
    features = (rng.standard_normal((500, 3)) * [1, 2, 3] + [5, 0, -5]).astype(np.float32)
    stats = empty_stats(3)
    for part in np.array_split(features, 4):
        accumulate_stats(part, stats)
    gaussian = global_gaussian(stats)
    np.testing.assert_allclose(1 / gaussian.inv_vars[0], features.var(0), rtol=SINGLE)
    np.testing.assert_allclose(gaussian.means_inv_vars[0] / gaussian.inv_vars[0], features.mean(0), rtol=SINGLE,
                               atol=SINGLE)
    with pytest.raises(Nnet3Error, match="no features"):
        global_gaussian(empty_stats(2))
    constant = empty_stats(2)
    accumulate_stats(np.ones((5, 2), dtype=np.float32), constant)
    with pytest.raises(Nnet3Error, match="column 0 of the features has variance 0"):
        global_gaussian(constant)


def test_biphone_tree_is_kaldis(tmp_path: Path) -> None:
    counts = BiphoneCounts.parse(read_lines(str(TREES / "counts5.txt")), max(SMALL.phones), 100, 20)
    tree = biphone_tree(SMALL, [(phone,) for phone in SMALL.phones], [1], counts)
    write_object(tmp_path / "tree", tree.write, False)
    assert (tmp_path / "tree").read_bytes() == (TREES / "counts.tree").read_bytes()


def test_every_biphone_has_pdfs() -> None:
    tree = biphone_tree(SMALL, [(1, 2), (3,), (4, 5)], [1])
    pdfs = {(left, phone, state): tree.pdf((left, phone), state)
            for left in range(6) for phone in SMALL.phones for state in (0, 1)}
    assert set(pdfs.values()) == set(range(tree.num_pdfs))
    assert pdfs[0, 2, 0] == pdfs[1, 2, 0] != pdfs[2, 2, 0] and pdfs[4, 3, 1] == pdfs[5, 3, 1]
    assert len({pdfs[left, 1, 0] for left in range(6)}) == 1
    model = same_for_all(tree, SMALL, DiagGmm.single(np.ones(2), np.ones(2)))
    assert model.transition_model.num_pdfs == len(model.pdfs) == tree.num_pdfs


def test_rare_biphones_share_pdfs() -> None:
    """From 100 occurrences on a biphone has its own pdfs; phones with more than 20 have pdfs for their rare ones."""
    counts = BiphoneCounts({2: 21, 3: 20}, {(2, 2): 100, (3, 2): 99, (4, 3): 100})
    tree = biphone_tree(SMALL, [(2,), (3,), (4,), (5,)], [1], counts)
    pdfs = {pair: tree.pdf(pair, 0) for pair in ((left, phone) for left in range(6) for phone in (2, 3, 4))}
    assert all(tree.pdf(pair, 1) == pdf + 1 for pair, pdf in pdfs.items())
    without = [pdfs[left, phone] for phone in (2, 3, 4) for left in (0, 1)]
    assert without[::2] == without[1::2] and len(set(without)) == 3, "without left phone, or with one without context"
    assert pdfs[3, 2] == pdfs[4, 2] == pdfs[5, 2]
    of_all = pdfs[2, 3]
    assert {pdfs[left, phone] for phone in (3, 4) for left in (2, 3, 4, 5)} - {pdfs[4, 3]} == {of_all}
    assert len({pdfs[2, 2], pdfs[3, 2], pdfs[4, 3], of_all, *without}) == 7


def test_a_biphone_tree_of_one_pdf_class() -> None:
    topology = HmmTopology([[HmmState(0, 0, [(0, 0.5), (1, 0.5)]), HmmState()]], dict.fromkeys(range(1, 6), 0))
    tree = biphone_tree(topology, [(1, 2), (3,), (4, 5)], [1])
    assert tree.num_pdfs == 1 + 3 * 4 and tree.pdf((3, 1), 0) == 0
    rows = [[tree.pdf((left, phone), 0) for left in (0, 2, 3, 4, 5)] for phone in (2, 3, 4, 5)]
    assert rows == [[1, 2, 3, 4, 4], [5, 6, 7, 8, 8], [9, 10, 11, 12, 12], [9, 10, 11, 12, 12]]
    three = HmmTopology([[*(HmmState(n, n, [(n, 0.5), (n + 1, 0.5)]) for n in range(3)), HmmState()]], {1: 0})
    with pytest.raises(Nnet3Error, match="a phone has 3 pdf classes; a biphone tree is for one or two"):
        biphone_tree(three, [(1,)], [])


def test_pdfs_with_little_data(caplog: pytest.LogCaptureFixture) -> None:
    """A pdf without data gets the Gaussian of all; of an old model, the pdf that had most of its frames."""
    topology = HmmTopology([[HmmState(0, 1, [(0, 0.5), (1, 0.5)]), HmmState()]], {1: 0, 2: 0})
    tree = monophone_tree(topology)
    stats = TreeStats(np.array([[0, 1], [0, 2], [1, 1]], np.int32),
                      np.array([[100.0, 200.0, 600.0], [3.0, 3.0, 3.0], [99.5, 0.0, 199.0]]), np.full(3, 0.01))
    model, counts = model_of_stats(tree, stats, topology, 0.25)
    assert counts.tolist() == [100, 99.5, 3, 0]
    total = 203 / 202.5
    expected = [(2.0, 2.0), (0.0, 2.0), (1.0, 0.25), (total, 802 / 202.5 - total * total)]
    for pdf, (mean, variance) in zip(model.pdfs, expected, strict=True):
        assert (pdf.means_inv_vars / pdf.inv_vars).item() == pytest.approx(mean, rel=CANCELLED)
        assert (1 / pdf.inv_vars).item() == pytest.approx(variance, rel=CANCELLED) and pdf.weights.tolist() == [1.0]
    assert caplog.messages == ["Very small count for state 1: 99.5; corresponding phone list: 1 ",
                               "Very small count for state 2: 3; corresponding phone list: 2 ",
                               "Tree has pdf-id 3 with no stats; corresponding phone list: 2 "]
    by_class = ContextDependency(1, 0, Table(-1, (Constant(0), Constant(1))))
    made, _ = model_of_stats(by_class, stats, topology, 0.25, OldModel(tree, model))
    assert [model.pdfs.index(pdf) for pdf in made.pdfs] == [0, 1]
    wide = ContextDependency(3, 1, by_class.to_pdf)
    windows = TreeStats(np.insert(stats.events, [1, 2], 7, axis=1), stats.moments[[1, 0, 2]], stats.floors)
    made, _ = model_of_stats(wide, windows, topology, 0.25, OldModel(tree, model))
    assert [model.pdfs.index(pdf) for pdf in made.pdfs] == [2, 1], "now phone 2 has most frames of pdf class 0"


def test_perturbed_means_differ() -> None:
    tree = biphone_tree(SMALL, [(phone,) for phone in SMALL.phones], [1])
    model = same_for_all(tree, SMALL, DiagGmm.single(np.ones(2), np.full(2, 4.0)), 0.5)
    moved = np.array([pdf.means_inv_vars[0] / pdf.inv_vars[0] for pdf in model.pdfs]) - 1.0
    assert 0.5 < moved.std() < 1.5 and abs(moved.mean()) < 0.5        # standard deviation 2, times 0.5


def test_pdfs_of_an_old_model() -> None:
    old_tree = biphone_tree(TOPOLOGY, [(phone,) for phone in TOPOLOGY.phones], [1])
    old = same_for_all(old_tree, TOPOLOGY, DiagGmm.single(np.ones(13), np.ones(13)), 1.0)
    model, _ = model_of_stats(TREE, STATS, TOPOLOGY, 0.01, OldModel(old_tree, old))
    assert all(any(pdf is one for one in old.pdfs) for pdf in model.pdfs)
    wide = ContextDependency(5, 2, old_tree.to_pdf)
    with pytest.raises(Nnet3Error, match="must hold the old one"):
        model_of_stats(TREE, STATS, TOPOLOGY, 0.01, OldModel(wide, old))


def test_sets_of_phones() -> None:
    assert phone_sets([[1, 2], [3]]) == [(1, 2), (3,)]
    for bad in ([[1], []], [[1], [1]], [[0]]):
        with pytest.raises(FormatError, match="each phone once"):
            phone_sets(bad)


@pytest.mark.parametrize("line", ["1", "a 2 3", "1 6 3", "6 3", "1 2 3 4", "1 2 -3", "1 2 1000000000"])
def test_bad_counts(line: str) -> None:
    with pytest.raises(FormatError, match=f"line 2 is not 'LEFT PHONE COUNT' or 'PHONE COUNT': '{line}'"):
        BiphoneCounts.parse(["1 2 3", line], 5, 100, 20)


def test_counts() -> None:
    assert BiphoneCounts.parse(["0 5 3", "", "5 999999999"], 5, 30, 7) == BiphoneCounts(
        {5: 999_999_999}, {(0, 5): 3}, 30, 7)
