"""Word error rates: cases counted by hand, a slow edit distance, Kaldi's output of the scoring commands."""
from __future__ import annotations

import functools
import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest
from paths import shared_golden

import nnet3py
from nnet3py.cli.decoding.scoring import align_text, compute_wer, compute_wer_bootci, word_error_rate
from nnet3py.decoding.word_errors import Edits, Resampler, WordErrors, align, alignment_lines, edit_distance
from nnet3py.errors import UsageError
from nnet3py.random_sequence import CRandom


@pytest.mark.parametrize(("reference", "hypothesis", "counts"), [
    ("a b c", "a b c", (0, 0, 0)), ("a b c", "a c", (0, 1, 0)), ("a b", "a x b", (1, 0, 0)),
    ("a b", "a x", (0, 0, 1)), ("a b", "", (0, 2, 0)), ("", "a", (1, 0, 0)), ("", "", (0, 0, 0)),
    ("a b c d", "b c x e", (1, 1, 1))])
def test_counts(reference, hypothesis, counts):
    errors = WordErrors()
    assert errors.add(reference.split(), hypothesis.split()) == sum(counts)
    assert (errors.insertions, errors.deletions, errors.substitutions) == counts
    assert errors.words == len(reference.split()) and errors.wrong_sentences == (sum(counts) > 0)


def test_report():
    errors = WordErrors(510, 3, 4, 5, 120, 10)
    assert errors.report() == ("%WER 2.35 [ 12 / 510, 3 ins, 4 del, 5 sub ]\n%SER 8.33 [ 10 / 120 ]\n"
                               "Scored 120 sentences, 0 not present in hyp.\n")
    assert WordErrors().report().startswith("%WER nan [ 0 / 0,")


def test_a_string_is_split_into_words():
    errors = WordErrors()
    assert errors.add("one two", "one too") == errors.add("one  two\n", ["one", "too"]) == 1
    assert (errors.words, errors.substitutions, errors.wer) == (4, 2, 50.0)
    assert alignment_lines("u", "one two", "one too").endswith("#csid 1 1 0 0\n")
    for wrong in (3, None, b"one two", {"u": "one"}, ["one", 2]):
        with pytest.raises(UsageError, match="expected an utterance, a string or a list of words, found "):
            errors.add("one", wrong)
    assert errors.sentences == 2


@pytest.mark.parametrize(("refs", "hyps"), [
    (["one two", "three"], ["one too three", ""]), ([["one", "two"], ["three"]], (["one", "too", "three"], [])),
    ({"a": "one two", "b": "three"}, {"b": [], "a": "one too three"})])
def test_wer(refs, hyps):
    errors = nnet3py.wer(refs, hyps)
    assert (errors.words, errors.errors, errors.insertions, errors.deletions, errors.substitutions) == (3, 3, 1, 1, 1)
    assert errors.wer == 100.0 and errors.sentences == 2


def test_wer_of_one_utterance_and_of_none():
    assert nnet3py.wer("one two", "one too").wer == 50.0
    assert str(nnet3py.wer([], []).wer) == "nan"


@pytest.mark.parametrize(("refs", "hyps", "message"), [
    (["a"], ["a", "b"], "expected as many hypotheses as references, found 2 for 1"),
    (["a"], "a", "of the same kind, .* found list and str"), (3, 3, "found int and int"),
    ({"u": "a"}, {}, "of the same names, found 'u' in one of them only .*counts those as empty"),
    ({"u": "a"}, {"v": "a"}, "found 'u' in one of them only, and 1 more"), (["a"], [3], "found int")])
def test_wer_of_what_does_not_fit(refs, hyps, message):
    with pytest.raises(UsageError, match=message):
        nnet3py.wer(refs, hyps)


def test_alignment_lines():
    assert alignment_lines("u", "one two three".split(), "one three four".split()) == (
        "u ref  one two   three\nu hyp  one three four\nu op   C   S     S\nu #csid 1 2 0 0\n")
    assert alignment_lines("u", [], []).endswith("u #csid 0 0 0 0\n")


@pytest.fixture
def folder(here):
    (here / "ref").write_text("u1 one two three\nu2 two\nu3 one\n")
    (here / "hyp").write_text("u1 one three\nu2 two one\n")
    (here / "words.txt").write_text("<eps> 0\none 1\ntwo 2\nthree 3\n")
    return here


@pytest.mark.parametrize(("mode", "wer"), [
    ("all", "%WER 60.00 [ 3 / 5, 1 ins, 2 del, 0 sub ]"), ("present", "%WER 50.00 [ 2 / 4, 1 ins, 1 del, 0 sub ]")])
def test_command(folder, capsys, mode, wer):
    assert word_error_rate.execute([f"--mode={mode}", "--details=per_utt", "ref", "ark:hyp"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == wer and lines[2].endswith("1 not present in hyp.")
    assert (folder / "per_utt").read_text().count("#csid") == (3 if mode == "all" else 2)


def test_numbers_for_words(folder, capsys):
    (folder / "ints").write_text("u1 1 2 3\nu2 2\nu3 1\nu4 1\n")
    assert word_error_rate.execute(["--word-symbol-table=words.txt", "ref", "ints"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("%WER 0.00 [ 0 / 5,") and "1 utterances of the hypothesis" in captured.err
    (folder / "ints").write_text("u1 1 2 7\n")
    assert word_error_rate.execute(["--word-symbol-table=words.txt", "ref", "ints"]) == 255
    assert "number 7" in capsys.readouterr().err
    assert word_error_rate.execute(["--word-symbol-table=words.txt", "ref", "hyp"]) == 255
    assert "must have numbers" in capsys.readouterr().err


def test_strict(folder, capsys):
    assert word_error_rate.execute(["ref", "hyp"]) == 255
    assert "utterance u3 is not in the hypothesis" in capsys.readouterr().err


SAMPLES = 400
SAMPLING = 0.02          # of a rate: 2,000 samples of 50 utterances


def cost(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """The edit distance by its definition."""
    @functools.cache
    def of(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(of(i - 1, j) + 1, of(i, j - 1) + 1, of(i - 1, j - 1) + (first[i - 1] != second[j - 1]))
    return of(len(first), len(second))


def test_distances_and_alignments() -> None:
    draw = random.Random(1)
    for _ in range(SAMPLES):
        first, second = (tuple(draw.choices("abc", k=draw.randrange(7))) for _ in range(2))
        edits = edit_distance(first, second)
        assert edits.total == cost(first, second)
        assert edits.insertions - edits.deletions == len(second) - len(first)
        pairs = align(first, second, "-")
        assert tuple(a for a, _ in pairs if a != "-") == first and tuple(b for _, b in pairs if b != "-") == second
        assert sum(a != b for a, b in pairs) == edits.total


def test_how_ties_are_divided() -> None:
    assert edit_distance("abc", "acd") == Edits(1, 1, 0)           # a substitution only if it is cheaper
    assert align("abc", "acd", "-") == [("a", "a"), ("b", "c"), ("c", "d")]      # here it goes first
    assert edit_distance("ab", "ba") == Edits(1, 1, 0) and edit_distance("", "ab") == Edits(2, 0, 0)


@pytest.mark.parametrize(("errors", "words"), [([3, 0, 1, 2, 5], [10, 4, 7, 9, 11]), ([3, 0], [10, 4])])
def test_samples_are_the_c_librarys(errors: list[int], words: list[int]) -> None:
    generator = CRandom()
    rates = []
    for _ in range(50):
        chosen = [generator.integer(0, len(errors) - 1) for _ in errors]
        rates.append(sum(errors[i] for i in chosen) / sum(words[i] for i in chosen))
    resampler = Resampler(50)
    assert resampler.interval([1], [4]) == (0.25, 0.0)                  # one utterance: nothing is drawn
    mean, width = resampler.interval(errors, words)
    assert mean == pytest.approx(np.mean(rates)) and width == pytest.approx(1.96 * np.std(rates))


def test_improvement() -> None:
    worse, better = [2, 1] * 25, [1, 1] * 25
    assert Resampler(2000).improvement(worse, better) == 1.0 and Resampler(2000).improvement(better, worse) == 0.0
    mixed = [1, 2, 0, 3, 1] * 10
    found = Resampler(2000).improvement(mixed, mixed[::-1])
    assert found < 0.5 + SAMPLING and found > 0.5 - 5 * SAMPLING        # equal numbers of errors improve nothing


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "ref").write_text("u1 one two three\nu2 two\nu3 one\n")
    (tmp_path / "hyp").write_text("u1 one three\nu2 two one\n")
    return f"ark:{tmp_path}/ref", f"ark:{tmp_path}/hyp"


@pytest.mark.parametrize(("mode", "lines"), [
    ("present", ["%WER 50.00 [ 2 / 4, 1 ins, 1 del, 0 sub ] [PARTIAL]", "%SER 100.00 [ 2 / 2 ]",
                 "Scored 2 sentences, 1 not present in hyp."]),
    ("all", ["%WER 60.00 [ 3 / 5, 1 ins, 2 del, 0 sub ] [PARTIAL]", "%SER 100.00 [ 3 / 3 ]",
             "Scored 3 sentences, 1 not present in hyp."])])
def test_compute_wer(texts: tuple[str, str], mode: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compute_wer.execute(["--text", f"--mode={mode}", *texts]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    assert compute_wer.execute(list(texts)) == 255
    assert "No hypothesis for key u3 and strict mode specifier." in capsys.readouterr().err


def test_compute_wer_bootci(texts: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compute_wer_bootci.execute(["--mode=present", "--replications=100", *texts, texts[0]]) == 0
    first, second, improving = capsys.readouterr().out.splitlines()
    number = r"-?\d+\.\d\d"
    assert re.fullmatch(rf"Set1: %WER {number} 95% Conf Interval \[ {number}, {number} \]", first)
    assert second == "Set2: %WER 0.00 95% Conf Interval [ 0.00, 0.00 ]"
    assert improving == "Probability of Set2 improving Set1: 100.00"
    assert compute_wer_bootci.execute(["--mode=present", texts[0], "ark:/dev/null"]) == 255
    assert compute_wer_bootci.execute(["--replications=0", texts[0], texts[0]]) == 255


def test_align_text(texts: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert align_text.execute(["--special-symbol='***'", *texts, f"ark,t:{tmp_path}/out"]) == 0
    assert (tmp_path / "out").read_text() == ("u1 one one ; two '***' ; three three \nu2 two two ; '***' one \n")
    messages = capsys.readouterr().err
    assert "Key u3 is in text1 but not in text2" in messages and "Done 2 sentences, failed for 1" in messages
    assert align_text.execute(["--special-symbol=one", *texts, f"ark,t:{tmp_path}/other"]) == 255
    assert not (tmp_path / "other").exists()


def test_as_kaldi_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = shared_golden() / "lattices"
    tables = [f"ark:{golden}/data/text", f"ark:{golden}/score/hyp.txt"]
    assert compute_wer.execute(["--text", "--mode=present", *tables]) == 0
    assert capsys.readouterr().out == (golden / "score" / "wer.txt").read_text()
    assert align_text.execute([*tables, f"ark,t:{tmp_path}/aligned"]) == 0
    assert (tmp_path / "aligned").read_text() == (golden / "score" / "aligned.txt").read_text()
    assert list(itertools.islice(align("a", "", "*"), 2)) == [("a", "*")]
