"""egs/rnnlm: decoding folders rescored as Kaldi's scripts do it, by the same arguments."""
from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest
import scripts
from io_samples import read_table
from lattice_cases import LATTICE_DATA, best_by_words, check_same_words
from paths import ROOT
from rnnlm_cases import RNNLM_DATA, rnnlm, rnnlm_folder, rnnlm_lattices

from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.pruned_composition import ConstArpaLm, FstLm
from nnet3py.rnnlm.network import sentence_log_probs
from nnet3py.rnnlm.rescoring import rescored_within_beam
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import COMPACT_LATTICES

SCRIPTS = ROOT / "egs" / "rnnlm"
COST = 2.0e-3


@pytest.fixture
def work(tmp_path: Path) -> Path:
    rnnlm_folder(tmp_path / "rnnlm")
    (tmp_path / "lang").mkdir()
    shutil.copy(RNNLM_DATA / "words.txt", tmp_path / "lang")
    shutil.copy(LATTICE_DATA / "graph-grammar" / "G.fst", tmp_path / "lang")
    (tmp_path / "decode").mkdir()
    (tmp_path / "decode" / "num_jobs").write_text("1\n")
    with gzip.open(tmp_path / "decode" / "lat.1.gz", "wb") as stream:
        stream.write((RNNLM_DATA / "decoded.ark").read_bytes())
    return tmp_path


def run(work: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return scripts.run(SCRIPTS / script, *words, "lang", "rnnlm", "data", "decode", "out", cwd=work)


def written(work: Path) -> dict[str, CompactLattice]:
    assert (work / "out" / "num_jobs").read_text() == "1\n"
    return read_table(f"ark:gunzip -c {work}/out/lat.1.gz |", COMPACT_LATTICES)


def old_cost(words: tuple[int, ...]) -> float:
    """Of a sentence, by the const-ARPA."""
    model = ConstArpaLm.read(str(LATTICE_DATA / "const-arpa" / "G.carpa"))
    state, cost = model.start, 0.0
    for word in words:
        following = model.arc(state, word)
        assert following is not None
        state, cost = following[0], cost + following[1]
    return cost + model.final_cost(state)


def test_within_a_beam(work: Path) -> None:
    done = run(work, "lmrescore_pruned.sh", "--acwt", "1.0", "--weight", "0.7")
    assert done.returncode == 0, done.stderr
    old = FstLm.read(str(LATTICE_DATA / "graph-grammar" / "G.fst"))
    found = written(work)
    for key, lattice in rnnlm_lattices("decoded").items():
        expected = rescored_within_beam(lattice, old, rnnlm("lstm"), 0.7, 4, PrunedCompositionOptions(beam=4.0))
        check_same_words(found[key], expected, COST)


@pytest.mark.parametrize("old", ["G.fst", "G.carpa"])
def test_all_paths(work: Path, old: str) -> None:
    """With nothing of it taken off, a model has what it had; then what the pruned way gives, where that is exact."""
    if old == "G.carpa":
        shutil.copy(LATTICE_DATA / "const-arpa" / "G.carpa", work / "lang")
    done = run(work, "lmrescore.sh", "--weight", "0.5", "--max-ngram-order", "0")
    assert done.returncode == 0, done.stderr
    found = written(work)
    for key, lattice in rnnlm_lattices("decoded").items():
        before, after = best_by_words(lattice), best_by_words(found[key])
        assert before.keys() == after.keys()
        words = list(before)
        costs = [-row.sum() for row in sentence_log_probs(rnnlm("lstm"), words)]
        # What was taken off of a sentence depends on its words alone: the same for all its paths.
        taken_off = {each: before[each].cost + 0.5 * cost - after[each].cost
                     for each, cost in zip(words, costs, strict=True)}
        assert min(taken_off.values()) > 0
        if old == "G.carpa":
            assert taken_off == pytest.approx({each: 0.5 * old_cost(each) for each in words}, abs=COST)


def test_best_paths(work: Path) -> None:
    shutil.copy(LATTICE_DATA / "const-arpa" / "G.carpa", work / "lang")
    done = run(work, "lmrescore_nbest.sh", "--n", "6", "--inv-acwt", "1", "0.25")
    assert done.returncode == 0, done.stderr
    for key, lattice in written(work).items():
        before, after = best_by_words(rnnlm_lattices("decoded")[key]), best_by_words(lattice)
        assert 1 < len(after) <= 6
        costs = [-row.sum() for row in sentence_log_probs(rnnlm("lstm"), list(after))]
        for (words, way), cost in zip(after.items(), costs, strict=True):
            assert way.cost == pytest.approx(before[words].cost + 0.25 * (cost - old_cost(words)), abs=COST)


def test_what_does_not_fit_is_said(work: Path) -> None:
    (work / "lang" / "words.txt").write_text((RNNLM_DATA / "words.txt").read_text().replace("nine 6", "nein 6"))
    done = run(work, "lmrescore.sh")
    assert done.returncode == 1 and "does not have the word nein with number 6" in done.stderr
    (work / "lang" / "G.fst").unlink()
    shutil.copy(RNNLM_DATA / "words.txt", work / "lang")
    assert "no lang/G.fst" in run(work, "lmrescore_pruned.sh").stderr
    assert "expected WEIGHT OLD-LANG" in run(work, "lmrescore_nbest.sh").stderr
    assert "unknown option --wait" in run(work, "lmrescore.sh", "--wait", "1").stderr
    help_text = scripts.run(SCRIPTS / "lmrescore.sh", "--help").stdout
    assert "--max-ngram-order" in help_text
