"""Models with a graph in two parts: the same words as with one, phrases, boosted words; beside vosk."""
from __future__ import annotations

import dataclasses
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from recognition_cases import CHUNK, PACKAGE, RATE, SOUNDS, dialogue, recognized, samples_of
from vosk_results import vosk_results

from nnet3py.decoding.composed_graphs import relabeled
from nnet3py.decoding.graph import read_fst_file
from nnet3py.decoding.lookahead import write_lookahead
from nnet3py.errors import UsageError
from nnet3py.fst.operations import arc_sorted
from nnet3py.io.streams import open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import write_binary_fst

NUM_WORDS = 10
PIECE = 2880                                # samples, of the length that streams decode at a time
WORD_COST = float(np.log(NUM_WORDS))        # that HCLG.fst has on each word; costs of being silent are others
SECONDS, CONFIDENCE, COST = 1.0e-3, 1.0e-3, 1.0e-3       # costs are sums in another order


def write_package(folder: Path) -> Path:
    """The package with its loop of digits taken apart into HCLr.fst and Gr.fst, as OpenFst writes these."""
    shutil.copytree(PACKAGE, folder)
    whole = read_fst_file(PACKAGE / "graph" / "HCLG.fst")
    weights = whole.weights - np.where(whole.output_labels > 0, np.float32(WORD_COST), np.float32(0))
    hcl = dataclasses.replace(whole, weights=weights.astype(np.float32), stored=None)
    words = np.arange(1, NUM_WORDS + 1)
    loop = Fst.from_arcs(0, [0.0], np.zeros(NUM_WORDS, int), words, words, np.full(NUM_WORDS, WORD_COST),
                         np.zeros(NUM_WORDS, int))
    (folder / "graph" / "HCLG.fst").unlink()
    with open_output(folder / "graph" / "HCLr.fst") as stream:
        labels = write_lookahead(TokenWriter(stream, binary=True), hcl)
    with open_output(folder / "graph" / "Gr.fst") as stream:
        write_binary_fst(TokenWriter(stream, binary=True), arc_sorted(relabeled(loop, labels)), "vector")
    (folder / "graph" / "disambig_tid.int").write_text("")
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_package(tmp_path_factory.mktemp("model") / "package")


@pytest.fixture(scope="module")
def lookahead(package: Path) -> Recognizer:
    return Recognizer(package, options={"chunk-length": CHUNK})


@cache
def sound() -> np.ndarray:
    return samples_of(SOUNDS[1])


def test_words_are_those_of_the_whole_graph(lookahead: Recognizer) -> None:
    assert lookahead.folder.is_lookahead
    for found, expected in zip(lookahead.transcribe(dialogue()).segments, recognized().segments, strict=True):
        assert found.text == expected.text
        for one, other in zip(found.words, expected.words, strict=True):
            assert (one.start, one.end, one.confidence) == pytest.approx(
                (other.start, other.end, other.confidence), abs=CONFIDENCE)
        if expected.nbest:
            assert found.nbest[0].cost == pytest.approx(expected.nbest[0].cost, abs=COST)


def test_phrases(lookahead: Recognizer) -> None:
    assert lookahead.transcribe(sound()).text == "seven zero three"
    for phrases in (["one two", "six"], ["seven zero"]):
        said = lookahead.transcribe(sound(), phrases=phrases).text
        assert said
        for phrase in sorted(phrases, key=len, reverse=True):
            said = said.replace(phrase, "")
        assert not said.strip()
    assert lookahead._graph_with(("six",), ()) is lookahead._graph_with(("six",), ())
    stream = lookahead.stream(RATE, phrases=["zero"])
    stream.accept_waveform(sound())
    assert set(stream.finish().text.split()) == {"zero"}


def test_boosted_words(lookahead: Recognizer) -> None:
    assert "three" not in lookahead.transcribe(sound(), boost={"three": -50.0}).text.split()
    text = lookahead.transcribe(sound(), boost={"two": 60.0}).text
    assert "two" in text.split()
    assert lookahead.transcribe(sound(), boost={"two": 0.0}).text == "seven zero three"
    both = lookahead.transcribe(sound(), phrases=["one", "two"], boost={"two": 30.0})
    assert set(both.text.split()) == {"two"}


@pytest.mark.parametrize(("phrases", "boost", "message"), [
    (["seven eleven"], {}, "does not know the word 'eleven'"), ([" "], {}, "found one without words"),
    (["<eps>"], {}, "does not know the word"), ([], {"eleven": 1.0}, "does not know the word 'eleven'"),
    ([], {"one": float("inf")}, "expected finite numbers")])
def test_what_cannot_be_said(lookahead: Recognizer, phrases: list[str], boost: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lookahead.stream(phrases=phrases, boost=boost)


def test_beside_vosk(package: Path, lookahead: Recognizer) -> None:
    stream = lookahead.stream()
    *theirs, _ = vosk_results(package, dialogue(), RATE, PIECE)
    for first, (has_ended, expected) in zip(range(0, len(dialogue()), PIECE), theirs, strict=True):
        assert stream.accept_waveform(dialogue()[first:first + PIECE]) == has_ended
        if has_ended:
            result = stream.result()
            assert result.text == expected["text"]
            for word, other in zip(result.words, expected["result"], strict=True):
                assert (word.start, word.end) == pytest.approx((other["start"], other["end"]), abs=SECONDS)
                assert word.confidence == pytest.approx(other["conf"], abs=CONFIDENCE)
