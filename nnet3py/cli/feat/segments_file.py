"""Segments files: which parts of recordings, of their sound or features, are utterances of their own."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from nnet3py import log

TO_THE_END = -1.0


class Segment(NamedTuple):
    """A line of a segments file; times in seconds, ``end`` -1 for the end of the recording."""

    name: str
    recording: str
    start: float
    end: float
    channel: int | None


def cut_segments(args: list[str], holder: Any, missing: str, cut: Callable[[Segment, Any], Any],
                 has_channels: bool = True) -> int:
    """Read a table of recordings, cut the segments out of them, and write these; what cannot be cut is a warning.

    Parameters
    ----------
    args : the table, the segments file, the table to write
    holder : of both tables
    missing : the beginning of the warning for a recording that there is not
    cut : a segment of a recording; None, after a warning, if it cannot be cut
    has_channels : whether recordings have them; if not, a fifth field is not looked at
    """
    from nnet3py.io.streams import open_input
    from nnet3py.io.tables import RandomAccessReader, TableWriter

    done = total = 0
    with TableWriter(args[2], holder) as writer, RandomAccessReader(args[0], holder) as recordings, \
            open_input(args[1]) as lines:
        lines.without_mark()
        for line in iter(lines.readline, b""):
            total += 1
            text = line.decode("utf-8", "surrogateescape").rstrip("\n")
            segment = _parse_segment(text, has_channels)
            if isinstance(segment, str):
                log.warning(f"Invalid line in segments file{segment}: {text}")
                continue
            if segment.recording not in recordings:
                log.warning(f"{missing} {segment.recording}, skipping segment {segment.name}")
                continue
            part = cut(segment, recordings[segment.recording])
            if part is not None:
                writer.write(segment.name, part)
                done += 1
    log.log(f"Successfully processed {done} lines out of {total} in the segments file. ")
    return 0


def _parse_segment(text: str, has_channels: bool) -> Segment | str:
    """A line's segment, or what is wrong with it."""
    words = text.split()
    if len(words) not in (4, 5):
        return ""
    try:
        start = float(words[2])
    except ValueError:
        return " [bad start]"
    try:
        end = float(words[3])
    except ValueError:
        return " [bad end]"
    if not (math.isfinite(start) and math.isfinite(end)) or start < 0 or (end != TO_THE_END and end <= start):
        return " [empty or invalid segment]"
    if len(words) == 4 or not has_channels:
        return Segment(words[0], words[1], start, end, None)
    if not (words[4].isascii() and words[4].isdigit()):
        return " [bad channel]"
    return Segment(words[0], words[1], start, end, int(words[4]))
