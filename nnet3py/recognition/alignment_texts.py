"""Alignments as text: TextGrid (Praat), JSON, CTM, subtitles. Light."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nnet3py.recognition.transcripts import Timed, as_ctm, as_srt, as_vtt

if TYPE_CHECKING:
    from nnet3py.recognition.aligning import AlignedText

_DIGITS = 6                 # of seconds


class _Span(Protocol):
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


class _Word(NamedTuple):
    word: str
    start: float
    end: float
    confidence: float


class _Words(NamedTuple):
    """The words of an alignment, as a result of recognition has them: one segment."""

    words: tuple[_Word, ...]
    speaker_name: str = ""

    @property
    def segments(self) -> Sequence[_Words]:
        return (self,)


def as_textgrid(name: str, aligned: AlignedText) -> str:
    """Praat's long text form, without ``name``: the tiers ``words``, with empty intervals between, and ``phones``."""
    end = aligned.phones[-1].end
    tiers = {"words": _intervals(((word, word.word) for word in aligned.words), end),
             "phones": _intervals(((phone, phone.phone) for phone in aligned.phones), end)}
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {end:g}",
             "tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, (tier, intervals) in enumerate(tiers.items(), 1):
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{tier}"',
                  "        xmin = 0", f"        xmax = {end:g}", f"        intervals: size = {len(intervals)}"]
        for place, (begin, until, text) in enumerate(intervals, 1):
            doubled = text.replace('"', '""')
            lines += [f"        intervals [{place}]:", f"            xmin = {begin:g}", f"            xmax = {until:g}",
                      f'            text = "{doubled}"']
    return "\n".join(lines) + "\n"


def _intervals(spans: Iterable[tuple[_Span, str]], end: float) -> list[tuple[float, float, str]]:
    """Start, end and text of what fills the time up to ``end`` without gaps."""
    intervals: list[tuple[float, float, str]] = []
    at = 0.0
    for span, text in spans:
        if span.start > at:
            intervals.append((at, span.start, ""))
        intervals.append((span.start, span.end, text))
        at = span.end
    return [*intervals, (at, end, "")] if end > at else intervals


def as_json(name: str, aligned: AlignedText) -> str:
    """An object in one line: name, text, words with times and phones, the log-likelihood of a frame."""
    words = [{"word": word.word, "start": word.start, "end": word.end, "phones": [
        {"phone": phone.phone, "start": phone.start, "end": phone.end} for phone in word.phones]}
        for word in aligned.words]
    return json.dumps({"name": name, "text": aligned.text, "log_likelihood": round(aligned.log_likelihood, _DIGITS),
                       "words": words}, ensure_ascii=False) + "\n"


def _of_words(form: Callable[[str, Timed], str]) -> Callable[[str, AlignedText], str]:
    def written(name: str, aligned: AlignedText) -> str:
        return form(name, _Words(tuple(_Word(word.word, word.start, word.end, 1.0) for word in aligned.words)))

    return written


FORMATS: dict[str, Callable[[str, AlignedText], str]] = {
    "textgrid": as_textgrid, "json": as_json, "ctm": _of_words(as_ctm), "srt": _of_words(as_srt),
    "vtt": _of_words(as_vtt)}
ENDINGS = {"textgrid": ".TextGrid", "json": ".json", "ctm": ".ctm", "srt": ".srt", "vtt": ".vtt"}
