"""A language model's folder in Python: sentences as words or numbers, perplexity, lattices."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from lattice_cases import LATTICE_DATA, check_same_words
from rnnlm_cases import RNNLM_DATA, rnnlm_folder, rnnlm_lattices, scores

import nnet3py
from nnet3py.errors import FormatError, Nnet3Error, ShapeError, UsageError
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.pruned_composition import FstLm
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst

COST, PRINTED = 2.0e-3, 1.0e-4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> nnet3py.RnnLanguageModel:
    return nnet3py.RnnLanguageModel(rnnlm_folder(tmp_path_factory.mktemp("model")))


def test_sentences_as_text_words_and_numbers(model: nnet3py.RnnLanguageModel) -> None:
    expected = scores("probs-lstm.txt")["a"]
    for sentence in ("one two three", ["one", "two", "three"], [8, 13, 11], np.array([8, 13, 11])):
        np.testing.assert_allclose(model.log_probs(sentence), expected, atol=PRINTED)
    for nothing in ("", [], np.zeros(0, int)):
        np.testing.assert_allclose(model.log_probs(nothing), scores("probs-lstm.txt")["d"], atol=PRINTED)
    assert "18 words, 12 dimensions" in repr(model) and model.words["one"] == 8


def test_normalized_by_option_or_by_argument(tmp_path: Path) -> None:
    expected = scores("normalized-tdnn.txt")["b"]
    by_option = nnet3py.RnnLanguageModel(rnnlm_folder(tmp_path / "a", "tdnn", "--normalize-probs=true"))
    by_argument = nnet3py.RnnLanguageModel(rnnlm_folder(tmp_path / "b", "tdnn"), normalize=True)
    for model in (by_option, by_argument):
        np.testing.assert_allclose(model.log_probs("five"[:0] + "four"), model.log_probs([5]), atol=1e-6)
        np.testing.assert_allclose(model.log_probs([5]), expected, atol=PRINTED)
    not_normalized = nnet3py.RnnLanguageModel(tmp_path / "a", normalize=False)
    np.testing.assert_allclose(not_normalized.log_probs([5]), scores("probs-tdnn.txt")["b"], atol=PRINTED)


def test_perplexity_is_of_normalized_probabilities(model: nnet3py.RnnLanguageModel) -> None:
    normalized = scores("normalized-lstm.txt")
    rows = np.concatenate([normalized[key] for key in "abcd"])
    texts = ["one two three", [5], [14, 14, 7, 2, 9, 10, 3], ""]
    assert model.perplexity(texts) == pytest.approx(np.exp(-rows.mean()), rel=1e-4)
    assert model.perplexity(iter(texts * 100)) == pytest.approx(np.exp(-rows.mean()), rel=1e-4)
    assert model.options.normalize is False
    with pytest.raises(UsageError, match="no sentences"):
        model.perplexity([])
    with pytest.raises(UsageError, match="one text"):
        model.perplexity("one two")


def test_unknown_words(tmp_path: Path) -> None:
    folder = rnnlm_folder(tmp_path)
    with pytest.raises(FormatError, match="no word 'eleven'"):
        nnet3py.RnnLanguageModel(folder).log_probs("one eleven")
    (folder / "oov.txt").write_text("oh\n")
    assert nnet3py.RnnLanguageModel(folder).word_ids("one eleven") == [8, 7]
    (folder / "oov.txt").unlink()
    text = (folder / "words.txt").read_text()
    (folder / "words.txt").write_text(text.replace("zero", "<unk>"))
    assert nnet3py.RnnLanguageModel(folder).word_ids(["zero", "ate"]) == [14, 1]


def test_wrong_sentences_and_words(tmp_path: Path) -> None:
    folder = rnnlm_folder(tmp_path)
    model = nnet3py.RnnLanguageModel(folder)
    for sentence, message in (([1, 18], "no word 18"), ([0], "with the number 0:"), ([-1], "number -1"),
                              ([1.5], "as words or as numbers"), ([[1, 2]], "of 2 dimensions"),
                              (["one", 2], "as words or as numbers")):
        with pytest.raises(ShapeError, match=message):
            model.log_probs(sentence)                     # type: ignore[arg-type]
    (folder / "words.txt").write_text((folder / "words.txt").read_text() + "#1 18\neleven 19\n")
    with pytest.raises(FormatError, match="the word 'eleven' has number 19, .* numbered up to 17"):
        _ = nnet3py.RnnLanguageModel(folder).words
    (folder / "words.txt").unlink()
    without = nnet3py.RnnLanguageModel(folder)
    assert len(without.log_probs([8])) == 2
    with pytest.raises(UsageError, match="there is no words.txt"):
        without.log_probs("one")
    given = nnet3py.RnnLanguageModel(folder, words=RNNLM_DATA / "words.txt")
    np.testing.assert_array_equal(given.log_probs("one"), without.log_probs([8]))


def test_lattices_are_kaldis(tmp_path: Path) -> None:
    normalized = nnet3py.RnnLanguageModel(rnnlm_folder(tmp_path / "a"), normalize=True)
    expected, without = rnnlm_lattices("pruned-lstm"), rnnlm_lattices("rescore-lstm")
    old = LATTICE_DATA / "graph-grammar" / "G.fst"
    for key, lattice in rnnlm_lattices("decoded").items():
        for model in (old, FstLm.read(str(old))):
            check_same_words(normalized.rescore(lattice, model, max_ngram_order=3), expected[key], COST, 5.4)
    for key, lattice in rnnlm_lattices("no-lm").items():
        check_same_words(normalized.rescore(lattice, scale=1.0, max_ngram_order=3), without[key], COST, 4.0)
    tdnn = nnet3py.RnnLanguageModel(rnnlm_folder(tmp_path / "b", "tdnn"))
    by_arpa = rnnlm_lattices("pruned-tdnn-const-arpa")
    for key, lattice in rnnlm_lattices("decoded").items():
        found = tdnn.rescore(lattice, LATTICE_DATA / "const-arpa" / "G.carpa", scale=0.8, acoustic_scale=0.5,
                             pruning=PrunedCompositionOptions(beam=4.0))
        np.testing.assert_allclose(
            min(found.weights[:, 1]), min(by_arpa[key].weights[:, 1]), atol=COST)      # acoustic costs as they were
        check_same_words(found, by_arpa[key], COST, 1.0)


def test_threads_share_a_model(model: nnet3py.RnnLanguageModel) -> None:
    """What they need at the same moment is computed together, and changes only the last digits."""
    lattices = list(rnnlm_lattices("decoded").values()) * 4
    old = FstLm.read(str(LATTICE_DATA / "graph-grammar" / "G.fst"))
    alone = [model.rescore(lattice, old) for lattice in lattices]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda lattice: model.rescore(lattice, old), lattices))
    for one, other in zip(together, alone, strict=True):
        check_same_words(one, other, COST, 5.0)


def test_lattices_of_other_words(model: nnet3py.RnnLanguageModel) -> None:
    lattice = CompactLattice.from_arcs(0, [[np.inf] * 2, [0, 0]], [0], [18], [[0, 0]], [1], [1], [1])
    for old in (None, LATTICE_DATA / "graph-grammar" / "G.fst"):
        with pytest.raises(ShapeError, match="no word 18"):
            model.rescore(lattice, old)
    few = FstLm(Fst.from_arcs(0, [0.0], [0], [3], [3], [0.5], [0]))
    other = CompactLattice.from_arcs(0, [[np.inf] * 2, [0, 0]], [0], [4], [[0, 0]], [1], [1], [1])
    assert model.rescore(other, few).start == -1          # the old model has no such path
    assert model.rescore(CompactLattice.empty()).start == -1


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    folder = rnnlm_folder(tmp_path)
    (folder / "special_symbol_opts.txt").write_text("--bos-symbol=16 --eos-symbl=17\n")
    with pytest.raises(UsageError, match="--eos-symbl .*did you mean --eos-symbol"):
        nnet3py.RnnLanguageModel(folder)
    (folder / "special_symbol_opts.txt").write_text("--bos-symbol=16 --eos-symbol=18\n")
    with pytest.raises(UsageError, match="--eos-symbol=18"):
        nnet3py.RnnLanguageModel(folder)
    (folder / "final.raw").unlink()
    with pytest.raises(Nnet3Error, match="no final.raw"):
        nnet3py.RnnLanguageModel(folder)
