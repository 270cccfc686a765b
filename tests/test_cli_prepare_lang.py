"""prepare-lang: the folder it makes, read by those who need it."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3py.cli.main import load
from nnet3py.decoding.graph import read_lang
from nnet3py.decoding.lexicon import Silence, make_lang, read_lexicon
from nnet3py.hmm.topology import HmmTopology
from nnet3py.io.object_files import read_object

LEXICON = "one W AH N\ntwo T UW\ntwo T AH\n<UNK> SPN\n"
PHONES = ["<eps>", "SIL", "SPN", "AH", "N", "T", "UW", "W"]


@pytest.fixture
def lexicon(here: Path) -> Path:
    Path("lexicon").write_text(LEXICON)
    return here / "lexicon"


def run(*words: str, status: int = 0) -> None:
    assert load("prepare-lang").execute([*words]) == status


def lines(name: str) -> list[str]:
    return Path("lang", name).read_text().splitlines()


def test_the_folder(lexicon: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("--silence-phones=SIL,SPN", "--unknown-word=<UNK>", "lexicon", "lang")
    assert "of 4 pronunciations and 7 phones" in capfd.readouterr().err
    assert [line.split()[0] for line in lines("phones.txt")][:8] == PHONES
    assert lines("phones/silence.csl") == lines("phones/context_indep.csl") == ["1:2"]
    assert lines("phones/optional_silence.txt") == ["SIL"] and lines("phones/nonsilence.csl") == ["3:4:5:6:7"]
    assert lines("phones/sets.int") == list("1234567")
    assert lines("phones/roots.txt")[2] == "shared split AH"
    assert lines("phones/extra_questions.int") == ["1 2", "3 4 5 6 7"]
    words = dict(map(str.split, lines("words.txt")))
    assert lines("oov.txt") == ["<UNK>"] and lines("oov.int") == [words["<UNK>"]] and {"<s>", "</s>", "#0"} <= {*words}
    assert lines("lexicon.txt") == LEXICON.splitlines()


def test_those_who_read_it(lexicon: Path) -> None:
    run("lexicon", "lang")
    topology = read_object("lang/topo", HmmTopology.read)
    assert topology.phones == [1, 2, 3, 4, 5, 6, 7] and len(topology.entries[0]) == 2
    found, expected = read_lang("lang"), make_lang(read_lexicon("lexicon"), silence=Silence("SIL", 0.5))
    assert found.words.names == expected.words.names
    for one, other in ((found.lexicon, expected.lexicon), (found.plain_lexicon, expected.plain_lexicon)):
        assert len(one.weights) == len(other.weights)
        np.testing.assert_array_equal(one.output_labels, other.output_labels)
    run("--chain=false", "lexicon", "lang3")
    speech = read_object("lang3/topo", HmmTopology.read)
    assert len(speech.entries[speech.entry_of_phone[3]]) == 4


def test_phones_that_depend_on_their_position(lexicon: Path) -> None:
    Path("lexicon").write_text("one W AH N\ntwo T UW\noh UW\n<SIL> SIL\n")
    run("--position-dependent-phones=true", "lexicon", "lang")
    table = {name: int(number) for name, number in map(str.split, lines("phones.txt"))}
    assert list(table)[:8] == ["<eps>", "SIL", "SIL_B", "SIL_E", "SIL_I", "SIL_S", "AH_B", "AH_E"]
    assert lines("lexicon.txt") == ["one W_B AH_I N_E", "two T_B UW_E", "oh UW_S", "<SIL> SIL_S"]
    assert lines("phones/silence.csl") == lines("phones/context_indep.csl") == ["1:2:3:4:5"]
    assert lines("phones/optional_silence.csl") == ["1"]
    assert lines("phones/sets.txt")[:2] == ["SIL SIL_B SIL_E SIL_I SIL_S", "AH_B AH_E AH_I AH_S"]
    assert lines("phones/roots.int")[1] == "shared split 6 7 8 9"
    boundaries = dict(map(str.split, lines("phones/word_boundary.int")))
    assert {name: boundaries[str(table[name])] for name in ("SIL", "SIL_S", "W_B", "AH_I", "N_E", "UW_S")} == {
        "SIL": "nonword", "SIL_S": "singleton", "W_B": "begin", "AH_I": "internal", "N_E": "end", "UW_S": "singleton"}
    assert len(boundaries) == 5 + 4 * 5 == len(read_object("lang/topo", HmmTopology.read).phones)
    questions = lines("phones/extra_questions.txt")
    assert "AH_B N_B T_B UW_B W_B" in questions and len(questions) == 11


def test_probabilities_are_kept(lexicon: Path) -> None:
    Path("lexicon").write_text("one 1.0 W AH N\ntwo 0.75 T UW\ntwo 0.25 T AH\n")
    run("lexicon", "lang")
    assert lines("lexicon.txt") == ["one 1 W AH N", "two 0.75 T UW", "two 0.25 T AH"]


def test_what_goes_wrong(lexicon: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words, message in ((["--silence-phones="], "at least one phone"), (["--unknown-word=x"], "is not in lexicon"),
                           (["--silence-phones=W,AH,N,T,UW,SPN"], "no phones"), (["--silence-prob=1.5"], "1.5")):
        run(*words, "lexicon", "lang", status=255)
        assert message in capfd.readouterr().err
    run("missing", "lang", status=255)
    assert not Path("lang").exists()
