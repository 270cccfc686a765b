"""Subtitles of results, as the package srt writes them for vosk."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def subtitles(results: Iterable[dict[str, Any]], words_per_line: int = 7) -> str:
    """SubRip's text of results (as JSON gives them) with words, so many a subtitle; numbered from 1."""
    cues = []
    for result in results:
        words = result.get("result", [])
        for first in range(0, len(words), words_per_line):
            line = words[first:first + words_per_line]
            cues.append((line[0]["start"], line[-1]["end"], " ".join(word["word"] for word in line)))
    return "".join(f"{number}\n{_clock(start)} --> {_clock(end)}\n{text}\n\n"
                   for number, (start, end, text) in enumerate(cues, 1))


def _clock(seconds: float) -> str:
    """Hours, minutes, seconds and milliseconds, which are cut, not rounded."""
    microseconds = round(seconds * 1_000_000)
    minutes, milliseconds = divmod(microseconds // 1000, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02},{milliseconds % 1000:03}"
