"""wav-copy, wav-to-duration and extract-segments: sound in WAVE files."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.feat.segments_file import TO_THE_END, Segment, cut_segments
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import between_tables, copy_table, log_copied
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.formats.foreign_files import Wave


@kaldi_command("wav-copy", group="Sound and features", help="Copy sound.", usage="""
Copy sound: a table of WAVE files, or one file. The output has 16 bits per sample.

Usage: wav-copy [options] <wav-rspecifier> <wav-wspecifier>
or:   wav-copy [options] <wav-rxfilename> <wav-wxfilename>
e.g.: wav-copy scp:wav.scp ark:wav.ark
or: wav-copy wav.ark:123456 one.wav
See also: wav-to-duration, extract-segments
""", arguments=(2, 2))
def wav_copy(args: list[str], options: Options) -> int:
    """Copy a table or a file; 1 if a table was empty."""
    from nnet3py.formats.foreign_files import WAVE, read_wave, write_wave
    from nnet3py.io.object_files import token_reader
    from nnet3py.io.streams import open_input, open_output
    from nnet3py.io.tokens import TokenWriter

    if between_tables(args):
        count = copy_table(args[0], args[1], WAVE)
        log.log(f"Copied {count} wave files")
        return 0 if count else 1
    with open_input(args[0]) as stream:
        wave = read_wave(token_reader(stream))
    with open_output(args[1]) as output:
        write_wave(TokenWriter(output, binary=True), wave)
    log_copied("wave file", args)
    return 0


@kaldi_command("wav-to-duration", group="Sound and features", help="Write how many seconds sound lasts.", usage="""
Write how many seconds sound lasts.

Usage: wav-to-duration [options] <wav-rspecifier> <duration-wspecifier>
e.g.: wav-to-duration scp:wav.scp ark,t:-
See also: wav-copy, feat-to-len
""", arguments=(2, 2), options=[
    option("read-entire-file", bool, False, "Count the samples instead of believing the header"),
])
def wav_to_duration(args: list[str], options: Options) -> int:
    """Write the durations; 1 if there were none."""
    from nnet3py.formats.foreign_files import WAVE, WAVE_DURATION
    from nnet3py.formats.holders import FLOAT
    from nnet3py.io.tables import SequentialReader, TableWriter

    lengths: list[float] = []
    with TableWriter(args[1], FLOAT) as writer:
        if options.read_entire_file:
            with SequentialReader(args[0], WAVE) as sounds:
                for key, wave in sounds:
                    writer.write(key, wave.duration)
                    lengths.append(wave.duration)
        else:
            with SequentialReader(args[0], WAVE_DURATION) as durations:
                for key, seconds in durations:
                    writer.write(key, seconds)
                    lengths.append(seconds)
    log.log(f"Printed duration for {len(lengths)} audio files.")
    if lengths:
        log.log(f"Mean duration was {sum(lengths) / len(lengths):g}, min and max durations were {min(lengths):g}, "
                f"{max(lengths):g}")
    return 0 if lengths else 1


@kaldi_command("extract-segments", group="Sound and features", help="Cut segments out of recordings.", usage="""
Cut segments out of recordings.

A line of the segments file reads <segment-id> <recording-id> <start-time> <end-time> [<channel>]; times are in seconds,
an end of -1 is the end of the recording, and channels count from 0.

Usage: extract-segments [options] <wav-rspecifier> <segments-rxfilename> <wav-wspecifier>
e.g.: extract-segments scp:wav.scp segments ark:- | compute-mfcc-feats ark:- ark:mfcc.ark
See also: wav-copy, wav-to-duration
""", arguments=(3, 3), options=[
    option("min-segment-length", float, 0.1, "Leave out segments that are shorter, in seconds"),
    option("max-overshoot", float, 0.5, "A segment may end that many seconds after the recording; then it is cut"),
])
def extract_segments(args: list[str], options: Options) -> int:
    """Write the segments; what cannot be cut is a warning."""
    from nnet3py.formats.foreign_files import WAVE

    return cut_segments(args, WAVE, "Could not find recording", lambda segment, wave: _cut(segment, wave, options))


def _cut(segment: Segment, wave: Wave, options: Options) -> Wave | None:
    """The segment's samples; None, with a warning, if it is not in the recording."""
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
