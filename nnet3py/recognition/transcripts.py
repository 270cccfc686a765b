"""Results as text, for people and other programs: plain text, JSON, subtitles (SubRip, WebVTT), CTM. Light."""
from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

# A subtitle: two lines of that many characters, shown that many seconds, without longer pauses in it.
LINE, LINES = 42, 2
_MOST_SECONDS, _PAUSE = 7.0, 1.0


class TimedWord(Protocol):
    """A word with times in seconds."""

    @property
    def word(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def confidence(self) -> float: ...


class Timed(Protocol):
    """Words with times, in segments: a result of recognition, or an alignment."""

    @property
    def words(self) -> Sequence[TimedWord]: ...
    @property
    def segments(self) -> Sequence[Timed]: ...
    @property
    def speaker_name(self) -> str: ...


class Recognized(Timed, Protocol):
    """Words that were recognized: a result, or a transcript."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def speaker(self) -> Iterable[float] | None: ...
    @property
    def segments(self) -> Sequence[Recognized]: ...


def as_text(name: str, result: Recognized) -> str:
    """The words of each segment in a line, after the speaker if known, without ``name``; or an empty line."""
    said = [segment for segment in result.segments if segment.words]
    return "\n".join(_spoken(segment.speaker_name) + segment.text for segment in said) + "\n"


def _spoken(speaker: str) -> str:
    return f"{speaker}: " if speaker else ""


def as_json(name: str, result: Recognized) -> str:
    """Write an object in one line: name, text, and segments with words; of a transcript also file, duration, model."""
    return json.dumps(as_dict(name, result), ensure_ascii=False) + "\n"


def as_dict(name: str, result: Recognized) -> dict[str, Any]:
    """Return what the JSON says."""
    of_sound = ("path", "file"), ("duration", "duration"), ("model", "model")
    sound = {key: getattr(result, attribute) for attribute, key in of_sound if hasattr(result, attribute)}
    return {"name": name, **sound, "text": result.text, "segments": [
        {"start": segment.start, "end": segment.end, "text": segment.text,
         **({"speaker_name": segment.speaker_name} if segment.speaker_name else {}),
         "words": [{"word": word.word, "start": word.start, "end": word.end, "confidence": round(word.confidence, 6)}
                   for word in segment.words],
         **({} if segment.speaker is None else {"speaker": [round(float(value), 6) for value in segment.speaker]})}
        for segment in result.segments if segment.words]}


def as_ctm(name: str, result: Timed) -> str:
    """A line for each word: name, channel 1, begin and duration in seconds, word, confidence."""
    name = "_".join(name.split()) or "-"
    return "".join(f"{name} 1 {word.start:.2f} {word.end - word.start:.2f} {word.word} {word.confidence:.2f}\n"
                   for word in result.words)


def as_srt(name: str, result: Timed) -> str:
    """Subtitles in SubRip's form."""
    return "".join(f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{cue.text}\n\n"
                   for number, cue in enumerate(cues(result), 1))


def as_vtt(name: str, result: Timed) -> str:
    """Subtitles in WebVTT's form."""
    return "WEBVTT\n\n" + "".join(
        f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_escaped(cue.text)}\n\n" for cue in cues(result))


FORMATS: dict[str, Callable[[str, Recognized], str]] = {
    "text": as_text, "json": as_json, "srt": as_srt, "vtt": as_vtt, "ctm": as_ctm}
ENDINGS = {"text": ".txt", "json": ".json", "srt": ".srt", "vtt": ".vtt", "ctm": ".ctm"}


class Cue(NamedTuple):
    """A subtitle: times in seconds, and one or two lines of text."""

    start: float
    end: float
    text: str


def cues(result: Timed) -> Iterator[Cue]:
    """Words that are shown together: of one segment, not too many, without a long pause; first the speaker if known."""
    for segment in result.segments:
        before, cue = _spoken(segment.speaker_name), list[TimedWord]()
        for word in segment.words:
            if cue and (word.end - cue[0].start > _MOST_SECONDS or word.start - cue[-1].end > _PAUSE
                        or len(_wrapped(before, [*cue, word])) > LINES):
                yield Cue(cue[0].start, cue[-1].end, "\n".join(_wrapped(before, cue)))
                before, cue = "", []
            cue.append(word)
        if cue:
            yield Cue(cue[0].start, cue[-1].end, "\n".join(_wrapped(before, cue)))


def _wrapped(before: str, cue: list[TimedWord]) -> list[str]:
    return textwrap.wrap(before + " ".join(word.word for word in cue), LINE, break_long_words=False,
                         break_on_hyphens=False)


def _clock(seconds: float, point: str) -> str:
    """Hours, minutes, seconds and milliseconds."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{point}{rest % 1000:03d}"


def _escaped(text: str) -> str:
    """Text in which nothing looks like a tag or an entity of WebVTT."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
