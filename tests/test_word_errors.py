"""Word error rates against cases counted by hand; the command."""
from __future__ import annotations

import pytest

import nnet3py
from nnet3py.cli.decoding.scoring import word_error_rate
from nnet3py.decoding.word_errors import WordErrors, alignment_lines
from nnet3py.errors import UsageError


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
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ref").write_text("u1 one two three\nu2 two\nu3 one\n")
    (tmp_path / "hyp").write_text("u1 one three\nu2 two one\n")
    (tmp_path / "words.txt").write_text("<eps> 0\none 1\ntwo 2\nthree 3\n")
    return tmp_path


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
