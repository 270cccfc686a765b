"""extract-segments and extract-feature-segments: parts of recordings and of their features, by segments files."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.foreign_files import Wave


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
    """Cut segments out of a table of recordings, and write them; a segment that cannot be cut is a warning.

    Parameters
    ----------
    args : the table, the segments file, the table to write
    holder : holder of both tables
    missing : beginning of the warning for a recording that is missing
    cut : function that cuts a segment out of a recording; it returns None, after a warning, if it cannot
    has_channels : whether recordings have channels; if not, a fifth field is ignored
    """
    from nnet3py.io.streams import complete_input
    from nnet3py.io.tables import RandomAccessReader, TableWriter

    done = total = 0
    with TableWriter(args[2], holder) as writer, RandomAccessReader(args[0], holder) as recordings, \
            complete_input(args[1]) as lines:
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
    """Return the segment in a line; for an invalid line, text to append to the warning, perhaps empty."""
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


@kaldi_command("extract-segments", "Sound and features", "Cut segments out of recordings.", """
Cut segments out of recordings.

A line of the segments file reads <segment-id> <recording-id> <start-time> <end-time> [<channel>]; times are in seconds,
an end of -1 is the end of the recording, and channels count from 0.

Usage: extract-segments [options] <wav-rspecifier> <segments-rxfilename> <wav-wspecifier>
e.g.: extract-segments scp:wav.scp segments ark:- | compute-mfcc-feats ark:- ark:mfcc.ark
See also: wav-copy, wav-to-duration
""", arguments=(3, 3), options=[
    option("min-segment-length", float, 0.1, "Leave out segments that are shorter, in seconds",
           above=-math.inf, below=math.inf),
    option("max-overshoot", float, 0.5, "A segment may end that many seconds after the recording; then it is cut",
           above=-math.inf, below=math.inf),
])
def extract_segments(args: list[str], options: Options) -> int:
    from nnet3py.formats.foreign_files import WAVE

    return cut_segments(args, WAVE, "Could not find recording",
                        lambda segment, wave: _cut_sound(segment, wave, options))


def _cut_sound(segment: Segment, wave: Wave, options: Options) -> Wave | None:
    """Return the segment's samples; None, with a warning, if it is not in the recording."""
    channels, count = wave.samples.shape
    start = int(segment.start * wave.rate)
    end = count if segment.end == TO_THE_END else int(segment.end * wave.rate)
    if start >= count:
        log.warning(f"Start sample out of range {start} [length:] {count}, skipping segment {segment.name}")
        return None
    if end > count:
        if end >= count + int(options.max_overshoot * wave.rate):
            log.warning(f"End sample too far out of range {end} [length:] {count}, skipping segment {segment.name}")
            return None
        end = count
    if end <= start + int(options.min_segment_length * wave.rate):
        log.warning(f"Segment {segment.name} too short, skipping it.")
        return None
    channel = segment.channel
    if channel is None:
        if channels != 1:
            raise UsageError(f"the recording {segment.recording} of segment {segment.name} has {channels} channels",
                             "name one in the fifth field of the segments file")
        channel = 0
    if channel >= channels:
        log.warning(f"Invalid channel {channel} >= {channels}.  processing segment {segment.name}")
        return None
    return wave._replace(samples=wave.samples[channel:channel + 1, start:end])


_ROUNDING = 1e-4            # frames, added before rounding down: 0.29 s is frame 28.999999999999996


@kaldi_command("extract-feature-segments", "Sound and features", "Cut segments out of features of recordings.", """
Cut segments out of features of recordings. Ranges in script files do the same without a copy, as in
'utt1 feats.ark:15[20:87]'.

A line of the segments file reads <segment-id> <recording-id> <start-time> <end-time>; times are in seconds, and an end
of -1 is the end of the features.

Usage: extract-feature-segments [options] <feats-rspecifier> <segments-rxfilename> <feats-wspecifier>
e.g.: extract-feature-segments scp:feats.scp segments ark:segmented.ark
See also: extract-segments, subset-feats, concat-feats
""", arguments=(3, 3), options=[
    option("min-segment-length", float, 0.1, "Leave out segments that are shorter, in seconds"),
    option("max-overshoot", float, 0.0, "A segment may end that many seconds after the features; then it is cut"),
    option("frame-shift", int, 10, "Milliseconds from one frame to the next", least=1),
    option("frame-length", int, 25, "Length of the features' windows in milliseconds", least=1),
    option("snip-edges", bool, True, "Leave out the last frames of a segment, whose sound lies only partly in it"),
])
def extract_feature_segments(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX

    return cut_segments(args, FLOAT_MATRIX, "Did not find features for utterance",
                        lambda segment, features: _cut_features(segment, features, options), has_channels=False)


def _cut_features(segment: Segment, features: np.ndarray, options: Options) -> np.ndarray | None:
    """Return the segment's frames; None, with a warning, if it is not in the features."""
    count = len(features)
    rate = 1000.0 / options.frame_shift
    start = math.floor(segment.start * rate + _ROUNDING)
    if start >= count:
        log.warning(f"Start frame out of range {start} [length:] {count}, skipping segment {segment.name}")
        return None
    end = count
    if segment.end != TO_THE_END:
        end = math.floor(segment.end * rate + _ROUNDING)
        if options.snip_edges:
            end -= max(0, math.ceil((options.frame_length - options.frame_shift) / options.frame_shift))
        if end > count:
            if end > count + options.max_overshoot * rate:
                log.warning(f"End frame too far out of range {end} [length:] {count}, skipping segment {segment.name}")
                return None
            end = count
    seconds = (count / rate if segment.end == TO_THE_END else segment.end) - segment.start
    if end <= start or seconds < options.min_segment_length:
        log.warning(f"Segment {segment.name} too short, skipping it.")
        return None
    return features[start:end]
