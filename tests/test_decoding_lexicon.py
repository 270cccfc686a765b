"""Lexicons: reading, disambiguation, the transducers against all words one by one; phones of transcripts."""
from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from graph_paths import path_costs

from nnet3py.cli.main import load
from nnet3py.decoding.lexicon import (
    Pronunciation,
    RandomSilence,
    Silence,
    TextPhones,
    UnknownWordError,
    disambiguation_numbers,
    lexicon_words,
    make_lang,
    read_lexicon,
)
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, UsageError

COST = 1e-5           # sums of float32

LEXICON = [Pronunciation("a", ("x",)), Pronunciation("b", ("x", "y")), Pronunciation("c", ("x", "y"), 0.5),
           Pronunciation("c", ("z",), 0.25)]


def written(tmp_path, text: str) -> str:
    path = tmp_path / "lexicon.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_reads_with_and_without_probabilities(tmp_path):
    plain = read_lexicon(written(tmp_path, "one w 0 n\none w V n\n\ntwo t u:\n"))
    assert plain == [Pronunciation("one", ("w", "0", "n")), Pronunciation("one", ("w", "V", "n")),
                     Pronunciation("two", ("t", "u:"))]
    weighted = read_lexicon(written(tmp_path, "one 0.5 w V n\ntwo 1.0 t u:\n"))
    assert weighted == [Pronunciation("one", ("w", "V", "n"), 0.5), Pronunciation("two", ("t", "u:"))]
    as_phones = read_lexicon(written(tmp_path, "one 1 w\ntwo 1 t\n"), has_probabilities=False)
    assert as_phones[0].phones == ("1", "w")


@pytest.mark.parametrize(("text", "message"), [
    ("", "found none"), ("one w\ntwo\n", "line 2 .* two has no phones"), ("<eps> a\n", "reserved"),
    ("#0 a\n", "reserved")])
def test_says_what_is_wrong(tmp_path, text, message):
    with pytest.raises(FormatError, match=message):
        read_lexicon(written(tmp_path, text))


def test_bad_probability(tmp_path):
    with pytest.raises(FormatError, match="'1.5' is not a probability"):
        read_lexicon(written(tmp_path, "one 1.5 w\n"), has_probabilities=True)


def test_twice_is_once(tmp_path, caplog):
    assert len(read_lexicon(written(tmp_path, "one w\none w\n"))) == 1
    assert "twice" in caplog.text


def test_disambiguation():
    pronunciations = [("x",), ("x", "y"), ("x", "y"), ("z",), ("x", "y", "z")]
    assert disambiguation_numbers(pronunciations) == [1, 1, 2, 0, 0]


def test_words_in_kaldis_order():
    assert lexicon_words(LEXICON).names == {0: "<eps>", 1: "a", 2: "b", 3: "c", 4: "#0", 5: "<s>", 6: "</s>"}


@pytest.mark.parametrize("silence_prob", [0.0, 0.25])
@pytest.mark.parametrize("disambig", [False, True])
def test_transducer_against_all_words(silence_prob, disambig):
    silence = Silence("SIL" if silence_prob else "", silence_prob)
    lang = make_lang(LEXICON, None, silence)
    numbers = disambiguation_numbers([one.phones for one in LEXICON]) if disambig else [0] * len(LEXICON)
    expected: dict = {}
    pauses = [((), 1.0 - silence_prob)]
    if silence_prob:
        end = ("SIL", f"#{max(numbers) + 1}") if disambig else ("SIL",)
        pauses.append((end, silence_prob))
    longest = 6
    for count in range(3):
        for entries in itertools.product(range(len(LEXICON)), repeat=count):
            for silences in itertools.product(pauses, repeat=count + 1):
                phones, probability = list(silences[0][0]), silences[0][1]
                for place, (pause, how_likely) in zip(entries, silences[1:], strict=True):
                    phones += LEXICON[place].phones
                    phones += [f"#{numbers[place]}"] * (numbers[place] > 0) + list(pause)
                    probability *= LEXICON[place].probability * how_likely
                key = (tuple(lang.phones[phone] for phone in phones),
                       tuple(lang.words[LEXICON[place].word] for place in entries))
                if len(phones) <= longest:
                    expected[key] = min(expected.get(key, math.inf), -math.log(probability))
    found = {key: cost for key, cost in path_costs(lang.lexicon if disambig else lang.plain_lexicon, longest).items()
             if len(key[1]) < 3}
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), atol=COST)


def test_phones_of_the_model(tmp_path):
    phones = SymbolTable.of(["SIL", "x", "y", "z", "#0", "#1"], "phone")
    lang = make_lang(LEXICON, phones, Silence("SIL", 0.5))
    assert lang.phones["#1"] == 6 and lang.phones["#3"] == 8
    assert lang.phones.disambiguation == [5, 6, 7, 8]


def test_unknown_phone_and_silence():
    with pytest.raises(FormatError, match="word c has the phone 'z'"):
        make_lang(LEXICON, SymbolTable.of(["x", "y"], "phone"))
    with pytest.raises(FormatError, match="no phone 'SIL'"):
        make_lang(LEXICON, SymbolTable.of(["x", "y", "z"], "phone"), Silence("SIL", 0.5))
    with pytest.raises(UsageError, match="silence"):
        make_lang(LEXICON, None, Silence("SIL", 1.0))


def test_symbol_table(tmp_path):
    path = tmp_path / "words.txt"
    table = SymbolTable.of(["one", "two"])
    table.write(str(path))
    again = SymbolTable.read(str(path))
    assert again.names == table.names and again.text([2, 1]) == "two one"
    with pytest.raises(FormatError, match="no word 'three'.*words.txt"):
        again["three"]
    with pytest.raises(FormatError, match="number 7"):
        again.text([7])
    path.write_text("one 0\n")
    with pytest.raises(FormatError, match="0 stands for no word"):
        SymbolTable.read(str(path))
    path.write_text("<eps> 0\none 1\none 2\n")
    with pytest.raises(FormatError, match="one occurs twice"):
        SymbolTable.read(str(path))


FATAL = 255
TEXT_LEXICON = [Pronunciation("one", ("w", "n")),
                Pronunciation("a", ("a",), 0.75), Pronunciation("a", ("e", "y"), 0.25)]
PHONES = SymbolTable.of(["SIL", "a", "e", "n", "w", "y"], "phone")
DRAWS = 4000
CHANCE = 0.03         # four standard deviations of a share of that many draws


def test_without_silence():
    assert TextPhones(TEXT_LEXICON[:2], PHONES, RandomSilence())(["one", "a", "one"]) == [5, 4, 2, 5, 4]


def test_certain_silences():
    convert = TextPhones(TEXT_LEXICON[:2], PHONES, RandomSilence("SIL", 1.0, 1.0))
    assert convert(["one", "a"]) == [1, 5, 4, 1, 2, 1]
    assert TextPhones(TEXT_LEXICON[:2], PHONES, RandomSilence("SIL", 1.0, 0.0))(["one", "a"]) == [1, 5, 4, 2, 1]


def test_shares_of_silences_and_pronunciations():
    convert = TextPhones(TEXT_LEXICON, PHONES, RandomSilence("SIL", 0.8, 0.1))
    count: Counter[str] = Counter()
    for _ in range(DRAWS):
        phones = convert(["one", "a"])
        middle = phones[phones.index(4) + 1:]
        count.update({"first": phones[0] == 1, "between": middle[0] == 1, "last": phones[-1] == 1, "a": 2 in phones})
    for name, share in (("first", 0.8), ("between", 0.1), ("last", 0.8), ("a", 0.75)):
        assert count[name] / DRAWS == pytest.approx(share, abs=CHANCE)


def test_the_seed_decides():
    results = [[TextPhones(TEXT_LEXICON, PHONES, RandomSilence("SIL"), seed=seed)(["a"] * 20) for _ in range(2)]
               for seed in (0, 1)]
    assert results[0][0] == results[0][1] != results[1][0]


def test_unknown_words():
    with pytest.raises(UnknownWordError, match="the word 'two' is not in the lexicon"):
        TextPhones(TEXT_LEXICON, PHONES)(["one", "two"])
    assert TextPhones(TEXT_LEXICON[:2], PHONES, unknown_word="a")(["one", "two"]) == [5, 4, 2]


@pytest.mark.parametrize("arguments, error, complaint", [
    ({"phones": SymbolTable.of(["a", "n"], "phone")}, FormatError, "no phone 'w'"),
    ({"silence": RandomSilence("SIL", 1.5, 0.1)}, UsageError, "from 0 to 1, found 1.5"),
    ({"silence": RandomSilence("SP", 0.5, 0.1)}, FormatError, "no phone 'SP'"),
    ({"unknown_word": "<unk>"}, UsageError, "lacks the word '<unk>'"),
])
def test_what_does_not_fit(arguments, error, complaint):
    with pytest.raises(error, match=complaint):
        TextPhones(**{"lexicon": TEXT_LEXICON, "phones": PHONES, **arguments})


def test_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
