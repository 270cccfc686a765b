"""Results as text, JSON, subtitles and CTM."""
from __future__ import annotations

import json

from nnet3py.recognition.results import Result, Word
from nnet3py.recognition.transcripts import FORMATS, LINE, LINES, cues
from nnet3py.transducers.compact_lattice import CompactLattice


def result(*segments: list[Word]) -> Result:
    made = [Result(tuple(words), words[0].start if words else 0.0, words[-1].end if words else 0.0,
                   CompactLattice.empty(), None) for words in segments]
    return Result.joined(made)


SHORT = result([Word("a", 0.0, 0.5, 1.0), Word("b&<c>", 3661.25, 3662.0, 0.25)], [], [Word("d", 4000, 4001.0, 0.5)])


def test_text_has_a_line_for_each_segment() -> None:
    assert FORMATS["text"]("name", SHORT) == "a b&<c>\nd\n" and FORMATS["text"]("name", result([])) == "\n"


def test_json() -> None:
    found = json.loads(FORMATS["json"]("x/y", SHORT))
    assert found["name"] == "x/y" and found["text"] == "a b&<c> d" and len(found["segments"]) == 2
    assert found["segments"][1] == {"start": 4000, "end": 4001.0, "text": "d", "words": [
        {"word": "d", "start": 4000, "end": 4001.0, "confidence": 0.5}]}


def test_ctm() -> None:
    assert FORMATS["ctm"]("my file", SHORT).splitlines()[1] == "my_file 1 3661.25 0.75 b&<c> 0.25"


def test_subtitles() -> None:
    srt = FORMATS["srt"]("name", SHORT)
    assert srt.split("\n\n")[1] == "2\n01:01:01,250 --> 01:01:02,000\nb&<c>"
    vtt = FORMATS["vtt"]("name", SHORT)
    assert vtt.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:00.500\na\n\n") and "b&amp;&lt;c&gt;" in vtt


def test_subtitles_are_not_too_long() -> None:
    words = [Word("word" * (1 + number % 3), 0.4 * number, 0.4 * number + 0.3, 1.0) for number in range(100)]
    shown = list(cues(result(words)))
    assert " ".join(" ".join(cue.text for cue in shown).split()) == result(words).text and len(shown) > 3
    for cue, text in zip(shown, FORMATS["srt"]("", result(words)).split("\n\n"), strict=False):
        lines = text.splitlines()[2:]
        assert lines == cue.text.split("\n") and len(lines) <= LINES and max(map(len, lines)) <= LINE
        assert cue.end - cue.start <= 7
    long = [Word("x" * 100, 0.0, 1.0, 1.0)]
    assert list(cues(result(long))) == [(0.0, 1.0, "x" * 100)]
