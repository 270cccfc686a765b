"""extract-feature-segments and concat-feats: features cut into segments, and put one after the other."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.feat.segments_file import TO_THE_END, Segment, cut_segments
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import ShapeError

if TYPE_CHECKING:
    import numpy as np

_ROUNDING = 1e-4            # frames by which a time may miss the frame that it means: 0.29 s is 28.999999999999996


@kaldi_command("extract-feature-segments", group="Sound and features",
               help="Cut segments out of features of recordings.", usage="""
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
    option("frame-shift", int, 10, "Milliseconds from one frame to the next"),
    option("frame-length", int, 25, "Milliseconds of sound of which a frame was computed"),
    option("snip-edges", bool, True, "Leave out the last frames of a segment, whose sound lies only partly in it"),
])
def extract_feature_segments(args: list[str], options: Options) -> int:
    """Write the segments; what cannot be cut is a warning."""
    from nnet3py.formats.holders import FLOAT_MATRIX

    if options.frame_shift <= 0 or options.frame_length <= 0:
        raise OptionError(f"--frame-shift={options.frame_shift} and --frame-length={options.frame_length} must be "
                          "above 0")
    return cut_segments(args, FLOAT_MATRIX, "Did not find features for utterance",
                        lambda segment, features: _cut(segment, features, options), has_channels=False)


def _cut(segment: Segment, features: np.ndarray, options: Options) -> np.ndarray | None:
    """The segment's frames; None, with a warning, if it is not in the features."""
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


@kaldi_command("concat-feats", group="Transforming features", help="Put features one after the other in time.",
               usage="""
Put feature matrices one after the other in time, as the program cat does with files.

Usage: concat-feats [options] <in-rxfilename1> <in-rxfilename2> [<in-rxfilename3> ...] <out-wxfilename>
e.g.: concat-feats mfcc/foo.ark:12343 mfcc/foo.ark:56789 -
See also: paste-feats, copy-feats, append-vector-to-feats
""", arguments=(3, None), options=[BINARY])
def concat_feats(args: list[str], options: Options) -> int:
    """Write the whole; ShapeError if the dimensions differ."""
    import numpy as np

    from nnet3py.formats.holders import read_matrix_file
    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object

    parts = [read_matrix_file(name) for name in args[:-1]]
    dims = [part.shape[1] for part in parts if len(part)]
    for name, part in zip(args, parts, strict=False):
        if len(part) and part.shape[1] != dims[0]:
            raise ShapeError(f"{name} has {part.shape[1]} columns, and the features before it {dims[0]}")
    whole = np.concatenate([part for part in parts if len(part)]) if dims else parts[0]
    write_object(args[-1], lambda writer: write_matrix(writer, whole), options.binary)
    return 0
