"""nnet3py/trees/initial_models.py and gaussians/mixtures.py: Kaldi's own models, files, and what cannot be made."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import DATA

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.feat.cmvn import accumulate_stats, empty_stats
from nnet3py.formats.matrices import read_vector
from nnet3py.gaussians.mixtures import DiagGmm, GmmModel
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.tree import ContextDependency
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


def test_bad_mixtures_are_refused(tmp_path: Path) -> None:
    for text in ("<DiagGMM> <WEIGHTS> [ 1 ] <MEANS_INVVARS> [ 1 2 ] <INV_VARS> [ 1 0 ] </DiagGMM>",
                 "<DiagGMM> <WEIGHTS> [ 1 1 ] <MEANS_INVVARS> [ 1 2 ] <INV_VARS> [ 1 1 ] </DiagGMM>",
                 "<DiagGMM> <WEIGHTS> [ 1 ] <MEANS_INVVARS> [ 1 nan ] <INV_VARS> [ 1 1 ] </DiagGMM>", "<DiagGMM> "):
        (tmp_path / "gmm").write_text(text)
        with pytest.raises(FormatError):
            read_object(tmp_path / "gmm", DiagGmm.read)


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
    with pytest.raises(Nnet3Error, match="column 0"):
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


@pytest.mark.parametrize("line", ["1", "a 2 3", "1 9 3", "1 2 3 4", "1 2 -3"])
def test_bad_counts(line: str) -> None:
    with pytest.raises(FormatError, match="line 2"):
        BiphoneCounts.parse(["1 2 3", line], 5, 100, 20)
