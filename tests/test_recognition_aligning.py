"""Forced alignment with the model that comes with the package: a sound that says "set a timer for ten minutes"."""
from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

import nnet3py
from nnet3py.decoding.graph import word_line
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.formats.foreign_files import read_wave
from nnet3py.io.object_files import read_object
from nnet3py.recognition import aligning
from nnet3py.recognition.aligning import _cut, graph_of_words, spelled_alike
from nnet3py.recognition.model_folder import demo_folder

SOUND, TEXT = str(DATA / "demo.wav"), "set a timer for ten minutes"
LATER = 0.12       # seconds by which two ways to decode may put a border elsewhere: i-vectors and contexts differ


@pytest.fixture(scope="module")
def aligner() -> nnet3py.Aligner:
    return nnet3py.Aligner(demo_folder())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo_folder(), tmp_path / "model"))


def test_words_are_where_the_recognizer_hears_them(aligner: nnet3py.Aligner) -> None:
    aligned = aligner(SOUND, TEXT)
    heard = nnet3py.Recognizer(demo_folder()).transcribe(SOUND, phrases=[TEXT]).words
    assert aligned.text == TEXT and [word.word for word in heard] == [word.word for word in aligned.words]
    for ours, theirs in zip(aligned.words, heard, strict=True):
        assert abs(ours.start - theirs.start) < LATER and abs(ours.end - theirs.end) < LATER


def test_phones_fill_the_sound_and_belong_to_their_words(aligner: nnet3py.Aligner) -> None:
    aligned = aligner(SOUND, TEXT)
    model = nnet3py.read_model(demo_folder()).transition_model
    borders = [0, *(phone.end_frame for phone in aligned.phones)]
    assert [phone.first_frame for phone in aligned.phones] == borders[:-1]
    assert borders[-1] == len(aligned.transition_ids) == 90
    names = {1: "SIL"}
    for phone in aligned.phones:
        assert phone.end == pytest.approx(phone.end_frame * aligned.seconds_per_frame)
        numbers = set(model.transition_id_to_phone[aligned.transition_ids[phone.first_frame:phone.end_frame]].tolist())
        assert len(numbers) == 1 and names.setdefault(numbers.pop(), phone.phone) == phone.phone
    timer = aligned.words[2]
    assert [phone.phone for phone in timer.phones] == ["t_B", "aI_I", "m_I", "3_E"]
    assert (timer.phones[0].start, timer.phones[-1].end) == (timer.start, timer.end)
    assert (timer.phones[0].first_frame, timer.phones[-1].end_frame) == (timer.first_frame, timer.end_frame)
    inside = {phone for word in aligned.words for phone in word.phones}
    assert {phone.phone for phone in aligned.phones if phone not in inside} == {"SIL"}


def test_sound_samples_and_features_are_the_same(aligner: nnet3py.Aligner) -> None:
    expected = aligner(SOUND, TEXT)
    output = nnet3py.front_end(demo_folder())(SOUND)
    for given in (nnet3py.align(demo_folder(), SOUND, TEXT.split()), nnet3py.align(aligner, output, TEXT),
                  aligner(output.features, TEXT, ivector=output.ivector)):
        assert given.words == expected.words and given.log_likelihood == expected.log_likelihood
    with pytest.raises(ShapeError, match="ivector"):
        aligner(output.features, TEXT)


def test_the_right_text_is_likelier(aligner: nnet3py.Aligner) -> None:
    right = aligner(SOUND, TEXT).log_likelihood
    assert right > aligner(SOUND, "set a timer for two minutes").log_likelihood
    assert right > aligner(SOUND, "ten ten ten").log_likelihood + 0.5


@pytest.mark.parametrize(("text", "error", "message"), [
    ("set a tiner", UsageError, "does not know the word 'tiner'.*did you mean 'timer'"),
    ("xyzzyplugh", UsageError, "does not know the word 'xyzzyplugh'.*its words are in .*words.txt"),
    ("<eps>", UsageError, "does not know the word '<eps>'"), (" ", UsageError, "there are no words to align"),
    ("ten " * 90, Nnet3Error, "do not fit into the sound: it is too short for them"),
])
def test_texts_that_cannot_be_aligned(aligner: nnet3py.Aligner, text: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        aligner(SOUND, text)


def test_sounds_that_cannot_be_aligned(aligner: nnet3py.Aligner) -> None:
    with pytest.raises(Nnet3Error, match="shorter than a window"):
        aligner(np.zeros(10, np.int16), TEXT, 16000)
    with pytest.raises(UsageError, match="give it after them"):
        aligner(np.zeros(16000, np.int16), TEXT)


def test_a_graph_in_one_part_serves_if_its_grammar_has_the_words(folder: Path, aligner: nnet3py.Aligner) -> None:
    shutil.rmtree(folder / "graph-lookahead")
    aligned = nnet3py.align(folder, SOUND, TEXT)
    assert [word[:3] for word in aligned.words] == [word[:3] for word in aligner(SOUND, TEXT).words]
    with pytest.raises(Nnet3Error, match="no path for the words.*HCLr.fst"):
        graph_of_words(word_line(np.array([1, 2], np.int32)), [2, 1])


def test_a_folder_that_does_not_tell_words_apart_is_refused(folder: Path) -> None:
    (folder / "graph" / "phones.txt").unlink()
    assert nnet3py.align(folder, SOUND, TEXT).phones[0].phone == "1"
    (folder / "graph" / "phones" / "word_boundary.int").unlink()
    with pytest.raises(Nnet3Error, match="word_boundary.int or phones/align_lexicon.int"):
        nnet3py.align(folder, SOUND, TEXT)


def test_a_long_sound_is_aligned_in_pieces(aligner: nnet3py.Aligner, monkeypatch: pytest.MonkeyPatch) -> None:
    wave = read_object(SOUND, read_wave)
    samples, rate = wave.samples[0].astype(np.int16), wave.rate
    random = np.random.default_rng(0)
    pauses = [np.round(3 * random.standard_normal(int(rate * length))).astype(np.int16)
              for length in random.uniform(0.0, 1.0, 12)]
    sound = np.concatenate([block for pause in pauses for block in (pause, samples)])
    whole = aligner(sound, " ".join([TEXT] * len(pauses)), rate)
    monkeypatch.setattr(aligning, "PIECE", 12.0)
    monkeypatch.setattr(aligning, "MARGIN", 3.0)
    counted = []
    monkeypatch.setattr(aligning, "_cut", lambda *args, cut=aligning._cut: counted.append(cut(*args)) or counted[-1])
    pieces = aligner(sound, " ".join([TEXT] * len(pauses)), rate)
    assert len(counted) >= 2 and pieces.text == whole.text
    assert len(pieces.transition_ids) == len(whole.transition_ids)
    assert pieces.phones[-1].end == whole.phones[-1].end
    for piecewise, at_once in zip(pieces.words, whole.words, strict=True):
        assert abs(piecewise.start - at_once.start) <= LATER and abs(piecewise.end - at_once.end) <= LATER
    assert pieces.log_likelihood == pytest.approx(whole.log_likelihood, abs=0.05)       # starts and ends of sentences
    with pytest.raises(Nnet3Error, match="from .* seconds and word .* on: the words do not fit"):
        aligner(sound, " ".join([TEXT] * 4 * len(pauses)), rate)


def test_where_pieces_end() -> None:
    words = [(1, 10, 20), (2, 40, 10), (3, 55, 10), (4, 70, 20)]
    assert _cut(words, 80) == (3, 67)           # the last of the longest pauses of the second half, of 5 frames
    assert _cut(words, 60) == (1, 35) and _cut(words, 100) == (4, 95)
    assert _cut([], 80) == (0, 80) and _cut([(1, 30, 90)], 80) == (0, 30) and _cut([(1, 0, 90)], 80) == (0, 80)


def test_words_spelled_alike() -> None:
    words = ["timer", "time", "minutes", "<unk>", "tim", "ten"]
    assert spelled_alike("Tymer", words, 2) == ["timer", "time"]
    assert "<unk>" not in spelled_alike("<unx>", words) and "ten" not in spelled_alike("minutes", words)
