"""Results and alignments as text: plain text, JSON, subtitles (SubRip, WebVTT), CTM, TextGrid (Praat). Light.
"""
from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from nnet3py.recognition.results import AlignedPhone, AlignedText, AlignedWord, Result, Word
    from nnet3py.recognition.transcribing import TranscribedSegment, Transcript

    Recognized: TypeAlias = Result | Transcript | TranscribedSegment

# Limits of a subtitle: characters a line, lines, seconds, and seconds of a pause within.
LINE, LINES = 42, 2
_MOST_SECONDS, _PAUSE = 7.0, 1.0


def as_text(name: str, result: Recognized) -> str:
    """Format a result as text: a line for each segment with words, which begins with ``SPEAKER: `` if that is known.

    A result without words is an empty line. ``name`` is not used.
    """
    said = [segment for segment in result.segments if segment.words]
    return "\n".join(_spoken(segment.speaker_name) + segment.text for segment in said) + "\n"


def _spoken(speaker: str) -> str:
    return f"{speaker}: " if speaker else ""


def as_json(name: str, result: Recognized) -> str:
    """Format a result as a JSON object in one line: name, text, and segments with words.

    For a transcript it also has file, duration and model.
    """
    return json.dumps(as_dict(name, result), ensure_ascii=False) + "\n"


def as_dict(name: str, result: Recognized) -> dict[str, Any]:
    """Return the JSON object of :func:`as_json` as a dict."""
    of_sound = ("path", "file"), ("duration", "duration"), ("model", "model")
    sound = {key: getattr(result, attribute) for attribute, key in of_sound if hasattr(result, attribute)}
    return {"name": name, **sound, "text": result.text, "segments": [
        {"start": segment.start, "end": segment.end, "text": segment.text,
         **({"speaker_name": segment.speaker_name} if segment.speaker_name else {}),
         "words": [{"word": word.word, "start": word.start, "end": word.end, "confidence": round(word.confidence, 6)}
                   for word in segment.words],
         **({} if segment.speaker is None else {"speaker": [round(float(value), 6) for value in segment.speaker]})}
        for segment in result.segments if segment.words]}


def as_ctm(name: str, result: Recognized) -> str:
    """Return a line for each word: name, channel 1, start and duration in seconds, word, confidence."""
    name = "_".join(name.split()) or "-"
    return "".join(f"{name} 1 {word.start:.2f} {word.end - word.start:.2f} {word.word} {word.confidence:.2f}\n"
                   for word in result.words)


def as_srt(name: str, result: Recognized) -> str:
    """Return subtitles in the format SubRip."""
    return "".join(f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{cue.text}\n\n"
                   for number, cue in enumerate(cues(result), 1))


def as_vtt(name: str, result: Recognized) -> str:
    """Return subtitles in the format WebVTT."""
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


def cues(result: Recognized) -> Iterator[Cue]:
    """Cut the segments of a result into subtitles, and yield these.

    A subtitle has at most ``LINES`` lines and seven seconds, and no pause above a second; the first of a segment begins
    with the speaker if known.
    """
    for segment in result.segments:
        before = _spoken(segment.speaker_name)
        cue: list[Word] = []
        for word in segment.words:
            if cue and (word.end - cue[0].start > _MOST_SECONDS or word.start - cue[-1].end > _PAUSE
                        or len(_wrapped(before, [*cue, word])) > LINES):
                yield Cue(cue[0].start, cue[-1].end, "\n".join(_wrapped(before, cue)))
                before, cue = "", []
            cue.append(word)
        if cue:
            yield Cue(cue[0].start, cue[-1].end, "\n".join(_wrapped(before, cue)))


def _wrapped(before: str, cue: list[Word]) -> list[str]:
    return textwrap.wrap(before + " ".join(word.word for word in cue), LINE, break_long_words=False,
                         break_on_hyphens=False)


def _clock(seconds: float, point: str) -> str:
    """Format a time as HH:MM:SS and milliseconds, with ``point`` before the milliseconds."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{point}{rest % 1000:03d}"


def _escaped(text: str) -> str:
    """Return text with characters of WebVTT's tags and entities escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_DIGITS = 6                 # decimals of the log-likelihood


def as_textgrid(name: str, aligned: AlignedText) -> str:
    """Format an alignment as Praat's TextGrid (long text format) with the tiers ``words`` and ``phones``.

    Pauses between words are empty intervals. ``name`` is not used.
    """
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


def _intervals(spans: Iterable[tuple[AlignedWord | AlignedPhone, str]], end: float) -> list[tuple[float, float, str]]:
    """Return (start, end, text) of intervals that fill the time from 0 to ``end``, with "" between spans."""
    intervals: list[tuple[float, float, str]] = []
    at = 0.0
    for span, text in spans:
        if span.start > at:
            intervals.append((at, span.start, ""))
        intervals.append((span.start, span.end, text))
        at = span.end
    return [*intervals, (at, end, "")] if end > at else intervals


def alignment_as_json(name: str, aligned: AlignedText) -> str:
    """Format an alignment as a JSON object in one line: name, text, log-likelihood per frame, words with phones."""
    words = [{"word": word.word, "start": word.start, "end": word.end, "phones": [
        {"phone": phone.phone, "start": phone.start, "end": phone.end} for phone in word.phones]}
        for word in aligned.words]
    return json.dumps({"name": name, "text": aligned.text, "log_likelihood": round(aligned.log_likelihood, _DIGITS),
                       "words": words}, ensure_ascii=False) + "\n"


def _of_words(form: Callable[[str, Recognized], str]) -> Callable[[str, AlignedText], str]:
    """Return a function that formats the words of an alignment by a format of results."""
    def written(name: str, aligned: AlignedText) -> str:
        from nnet3py.recognition.results import Word
        from nnet3py.recognition.transcribing import TranscribedSegment

        words = tuple(Word(word.word, word.start, word.end, 1.0) for word in aligned.words)
        return form(name, TranscribedSegment(words, 0.0, aligned.phones[-1].end))

    return written


ALIGNMENT_FORMATS: dict[str, Callable[[str, AlignedText], str]] = {
    "textgrid": as_textgrid, "json": alignment_as_json, "ctm": _of_words(as_ctm), "srt": _of_words(as_srt),
    "vtt": _of_words(as_vtt)}
ALIGNMENT_ENDINGS = {"textgrid": ".TextGrid", "json": ".json", "ctm": ".ctm", "srt": ".srt", "vtt": ".vtt"}
