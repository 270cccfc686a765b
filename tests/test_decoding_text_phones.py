"""nnet3py/decoding/lexicon.py and text-to-phones: phones of transcripts with random silences."""
from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nnet3py.cli.main import load
from nnet3py.decoding.lexicon import Pronunciation, RandomSilence, TextPhones, UnknownWordError
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, UsageError

FATAL = 255
LEXICON = [Pronunciation("one", ("w", "n")), Pronunciation("a", ("a",), 0.75), Pronunciation("a", ("e", "y"), 0.25)]
PHONES = SymbolTable.of(["SIL", "a", "e", "n", "w", "y"], "phone")
DRAWS = 4000
CHANCE = 0.03         # four standard deviations of a share of that many draws


def test_without_silence():
    assert TextPhones(LEXICON[:2], PHONES, RandomSilence())(["one", "a", "one"]) == [5, 4, 2, 5, 4]


def test_certain_silences():
    convert = TextPhones(LEXICON[:2], PHONES, RandomSilence("SIL", 1.0, 1.0))
    assert convert(["one", "a"]) == [1, 5, 4, 1, 2, 1]
    assert TextPhones(LEXICON[:2], PHONES, RandomSilence("SIL", 1.0, 0.0))(["one", "a"]) == [1, 5, 4, 2, 1]


def test_shares_of_silences_and_pronunciations():
    convert = TextPhones(LEXICON, PHONES, RandomSilence("SIL", 0.8, 0.1))
    count: Counter[str] = Counter()
    for _ in range(DRAWS):
        phones = convert(["one", "a"])
        middle = phones[phones.index(4) + 1:]
        count.update({"first": phones[0] == 1, "between": middle[0] == 1, "last": phones[-1] == 1, "a": 2 in phones})
    for name, share in (("first", 0.8), ("between", 0.1), ("last", 0.8), ("a", 0.75)):
        assert count[name] / DRAWS == pytest.approx(share, abs=CHANCE)


def test_the_seed_decides():
    results = [[TextPhones(LEXICON, PHONES, RandomSilence("SIL"), seed=seed)(["a"] * 20) for _ in range(2)]
               for seed in (0, 1)]
    assert results[0][0] == results[0][1] != results[1][0]


def test_unknown_words():
    with pytest.raises(UnknownWordError, match="the word 'two' is not in the lexicon"):
        TextPhones(LEXICON, PHONES)(["one", "two"])
    assert TextPhones(LEXICON[:2], PHONES, unknown_word="a")(["one", "two"]) == [5, 4, 2]


@pytest.mark.parametrize("arguments, error, complaint", [
    ({"phones": SymbolTable.of(["a", "n"], "phone")}, FormatError, "no phone 'w'"),
    ({"silence": RandomSilence("SIL", 1.5, 0.1)}, UsageError, "from 0 to 1, found 1.5"),
    ({"silence": RandomSilence("SP", 0.5, 0.1)}, FormatError, "no phone 'SP'"),
    ({"unknown_word": "<unk>"}, UsageError, "lacks the word '<unk>'"),
])
def test_what_does_not_fit(arguments, error, complaint):
    with pytest.raises(error, match=complaint):
        TextPhones(**{"lexicon": LEXICON, "phones": PHONES, **arguments})


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lexicon").write_text("one w n\na a\n")
    Path("text").write_text("u1 one a\nu2 two\nu3 a\n")
    words = ["--silence-phone=SIL", "--edge-silprob=1", "--between-silprob=0", "lexicon", "text", "ark,t:out"]
    command = load("text-to-phones")
    assert command.execute(words) == 0
    assert Path("out").read_text() == "u1 1 4 3 2 1 \nu3 1 2 1 \n"
    errors = capsys.readouterr().err
    assert "utterance u2: the word 'two' is not in the lexicon" in errors
    assert "Wrote phones of 2 utterances, failed for 1" in errors
    Path("text").write_text("u2 two\n")
    assert command.execute(words) == 1
    assert command.execute(["--edge-silprob=2", *words[2:]]) == FATAL
