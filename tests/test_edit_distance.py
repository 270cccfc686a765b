"""nnet3py/decoding/word_errors.py against a slow reference; the scoring commands against Kaldi's output."""
from __future__ import annotations

import functools
import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest
from paths import shared_golden

from nnet3py.cli.decoding.scoring import align_text, compute_wer, compute_wer_bootci
from nnet3py.decoding.word_errors import Edits, Resampler, align, edit_distance
from nnet3py.random_sequence import CRandom

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


def test_samples_are_the_c_librarys() -> None:
    errors, words = [3, 0, 1, 2, 5], [10, 4, 7, 9, 11]
    generator = CRandom()
    rates = []
    for _ in range(50):
        chosen = [generator.integer(0, 4) for _ in errors]
        rates.append(sum(errors[i] for i in chosen) / sum(words[i] for i in chosen))
    mean, width = Resampler(50).interval(errors, words)
    assert mean == pytest.approx(np.mean(rates)) and width == pytest.approx(1.96 * np.std(rates))


def test_improvement() -> None:
    worse, better = [2, 1] * 25, [1, 1] * 25
    assert Resampler(2000).improvement(worse, better) == 1.0 and Resampler(2000).improvement(better, worse) == 0.0
    mixed = [1, 2, 0, 3, 1] * 10
    found = Resampler(2000).improvement(mixed, mixed[::-1])
    assert found < 0.5 + SAMPLING and found > 0.5 - 5 * SAMPLING        # equal numbers of errors improve nothing
    assert Resampler(3).interval([1], [4]) == (0.25, 0.0)               # one utterance: nothing is drawn


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
