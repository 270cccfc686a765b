"""Programs that select or add rows and columns of features: context, deltas, subsets, shifts in time.

splice-feats, add-deltas, add-deltas-sdc, select-feats, subset-feats, subsample-feats, shift-feats, concat-feats.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import Counts, convert_any, convert_table, first_words, write_value
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


DEFAULT_SUBSET = 10
_TRUNCATE = option("truncate", int, 0, "Use this many columns of the features only (0: all)", least=0)


def _convert_table(args: list[str], convert: Callable[[np.ndarray], np.ndarray]) -> Counts:
    """Convert a table of features; skip empty matrices with a warning."""
    from nnet3py.formats.holders import FLOAT_MATRIX

    def converted(key: str, features: np.ndarray) -> np.ndarray | None:
        if not features.size:
            log.warning(f"Empty feature matrix for key {key}")
            return None
        return convert(features)

    return convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX, converted)


@kaldi_command("splice-feats", "Transforming features", "Put frames beside their neighbors.", """
Put each frame beside its neighbors; at the ends of an utterance the outermost frame is repeated.

Usage: splice-feats [options] <feature-rspecifier> <feature-wspecifier>
e.g.: splice-feats --left-context=3 --right-context=3 scp:feats.scp ark:-
""", arguments=(2, 2), options=[
    option("left-context", int, 4, "Number of frames of left context", least=0),
    option("right-context", int, 4, "Number of frames of right context", least=0),
])
def splice_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import splice

    return _convert_table(args, lambda features: splice(features, options.left_context,
                                                        options.right_context)).report()


@kaldi_command("add-deltas", "Transforming features", "Append the slopes of features over time.", """
Put the slopes of features over time, the slopes of the slopes and so on beside them.

Usage: add-deltas [options] <feature-rspecifier> <feature-wspecifier>
e.g.: add-deltas --delta-order=2 scp:feats.scp ark:-
""", arguments=(2, 2), options=[
    _TRUNCATE,
    option("delta-order", int, 2, "Order of the highest deltas"),
    option("delta-window", int, 2, "Frames on either side from which a slope is computed"),
])
def add_deltas(args: list[str], options: Options) -> int:
    from nnet3py.feat import frames

    filters = frames.delta_filters(options.delta_order, options.delta_window)
    return _add_slopes(args, options.truncate, lambda features: frames.add_deltas(features, filters))


def _add_slopes(args: list[str], truncate: int, add: Callable[[np.ndarray], np.ndarray]) -> int:
    """Convert a table of features, of which the first ``truncate`` columns are used; 0: all."""
    def with_deltas(features: np.ndarray) -> np.ndarray:
        if truncate > features.shape[1]:
            raise ShapeError(f"Cannot truncate features as dimension {features.shape[1]} is smaller than truncation "
                             f"dimension {truncate}.")
        return add(features[:, :truncate or None])

    return _convert_table(args, with_deltas).report()


@kaldi_command("select-feats", "Transforming features", "Copy some columns of features.", """
Copy some columns of features. The selection is a list of numbers from 0 and of ranges, which may run backwards.

Usage: select-feats <selection> <feature-rspecifier> <feature-wspecifier>
e.g.: select-feats 0,24-22,3-12 scp:feats.scp ark,scp:feat-red.ark,feat-red.scp
See also: copy-feats, subset-feats, subsample-feats
""", arguments=(3, 3))
def select_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import parse_selection, select_columns
    from nnet3py.formats.holders import FLOAT_MATRIX

    columns = parse_selection(args[0])
    done, _ = convert_table(args[1], args[2], FLOAT_MATRIX, FLOAT_MATRIX,
                            lambda key, features: select_columns(features, columns))
    if not done:
        log.warning("Empty archive provided.")
    return 0


@kaldi_command("subset-feats", "Sound and features", "Copy the features of some utterances.", """
Copy the first matrices of a table, or those that a list names (the first word of each line), or all others.

Usage: subset-feats [options] <feature-rspecifier> <feature-wspecifier>
e.g.: subset-feats --n=10 ark:feats.ark ark:some.ark
or: subset-feats --include=utterances ark:feats.ark ark:some.ark
See also: select-feats, subsample-feats
""", arguments=(2, 2), options=[
    option("n", int, DEFAULT_SUBSET, "Number of matrices to copy, from the first on", least=0),
    option("include", str, "", "File with the keys of the matrices to copy"),
    option("exclude", str, "", "File with the keys of the matrices not to copy"),
])
def subset_feats(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter

    by_list = options.include or options.exclude
    if options.include and options.exclude:
        raise OptionError("should not have both --exclude and --include option!")
    if by_list and options.n != DEFAULT_SUBSET:
        raise OptionError("should not have both --n and --include or --exclude")
    listed = first_words(by_list) if by_list else set()
    wanted, left = bool(options.include), options.n
    # The reader is not read to its end: with enough matrices, the rest does not matter.
    with TableWriter(args[1], FLOAT_MATRIX) as writer, SequentialReader(args[0], FLOAT_MATRIX) as reader:
        for key, load in (reader.lazy() if by_list or left else ()):
            if not by_list or (key in listed) == wanted:
                writer.write(key, load())
                left -= 1
            if not by_list and not left:
                break
    return 0


@kaldi_command("subsample-feats", "Transforming features", "Copy every n-th frame of features.", """
Copy every n-th frame of features, or with a negative n every frame several times.

Usage: subsample-feats [options] <feature-rspecifier> <feature-wspecifier>
e.g.: subsample-feats --n=2 ark:- ark:-
""", arguments=(2, 2), options=[
    option("n", int, 1, "Take every n-th frame; if negative, repeat every frame -n times"),
    option("offset", int, 0, "Frame to begin with", least=0),
])
def subsample_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import subsample
    from nnet3py.formats.holders import FLOAT_MATRIX

    if options.n == 0 or (options.n < 0 and options.offset):
        raise OptionError(f"--n={options.n} and --offset={options.offset}",
                          "expected an n that is not 0, and an offset of 0 if n is negative")

    frames_in = frames_out = 0

    def subsampled(key: str, features: np.ndarray) -> np.ndarray | None:
        nonlocal frames_in, frames_out
        result = subsample(features, options.n, options.offset)
        frames_in, frames_out = frames_in + len(features), frames_out + len(result)
        if len(result):
            return result
        log.warning(f"For utterance {key}, output would have no rows, producing no output.")
        return None

    counts = convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX, subsampled)
    counts.report("Processed {done} feature matrices; {errors} with errors.")
    return counts.report(f"Processed {frames_in} input frames and {frames_out} output frames.")


@kaldi_command("shift-feats", "Transforming features", "Shift features in time.", """
Shift features in time, keeping the number of frames: the outermost frame is repeated.

Usage: shift-feats [options] <feature-rspecifier> <feature-wspecifier>
or:  shift-feats [options] <feats-rxfilename> <feats-wxfilename>
e.g.: shift-feats --shift=-1 ark:feats.ark ark:-
See also: copy-feats, splice-feats, subsample-feats
""", arguments=(2, 2), options=[
    BINARY,
    option("shift", int, 0, "Number of frames to shift by; negative: to earlier frames"),
])
def shift_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import shift
    from nnet3py.formats.holders import FLOAT_MATRIX

    def shifted(key: str, features: np.ndarray) -> np.ndarray | None:
        if not len(features):
            if not key:
                raise FormatError("Empty input matrix", path=args[0])
            log.warning(f"Empty feature matrix for key {key}")
            return None
        return shift(features, options.shift)

    return convert_any(args, FLOAT_MATRIX, FLOAT_MATRIX, shifted,
                       f"Shifted {{done}} features by {options.shift} frames; {{errors}} with errors.",
                       binary=options.binary)


@kaldi_command("add-deltas-sdc", "Transforming features", "Append the slopes of features at several times.", """
Put the slopes of features over time beside them, now and at several later times: shifted delta cepstra.

Usage: add-deltas-sdc [options] <feature-rspecifier> <feature-wspecifier>
e.g.: add-deltas-sdc --delta-window=1 --block-shift=3 --num-blocks=7 scp:feats.scp ark:-
See also: add-deltas, apply-cmvn-sliding
""", arguments=(2, 2), options=[
    _TRUNCATE,
    option("delta-window", int, 1, "Frames on either side from which a slope is computed"),
    option("block-shift", int, 3, "Frames from one slope to the next"),
    option("num-blocks", int, 7, "Number of slopes"),
])
def add_deltas_sdc(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import add_shifted_deltas

    return _add_slopes(args, options.truncate, lambda features: add_shifted_deltas(
        features, options.delta_window, options.block_shift, options.num_blocks))


@kaldi_command("concat-feats", "Transforming features", "Put features one after the other in time.", """
Put feature matrices one after the other in time, as the program cat does with files.

Usage: concat-feats [options] <in-rxfilename1> <in-rxfilename2> [<in-rxfilename3> ...] <out-wxfilename>
e.g.: concat-feats mfcc/foo.ark:12343 mfcc/foo.ark:56789 -
See also: paste-feats, copy-feats, append-vector-to-feats
""", arguments=(3, None), options=[BINARY])
def concat_feats(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file

    parts = [read_matrix_file(name) for name in args[:-1]]
    dims = [part.shape[1] for part in parts if len(part)]
    for name, part in zip(args, parts, strict=False):
        if len(part) and part.shape[1] != dims[0]:
            raise ShapeError(f"{name} has {part.shape[1]} columns, expected {dims[0]}, as the files before it have")
    whole = np.concatenate([part for part in parts if len(part)]) if dims else parts[0]
    write_value(args[-1], FLOAT_MATRIX, whole, options.binary)
    return 0
