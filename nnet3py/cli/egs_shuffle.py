"""nnet3-shuffle-egs."""
from __future__ import annotations

from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import Options, option

USAGE = """Copy examples (typically single frames or small groups of them) in random order.

Usage:  nnet3-shuffle-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-shuffle-egs --srand=1 ark:train.egs ark:shuffled.egs"""


@kaldi_command("nnet3-shuffle-egs", usage=USAGE, arguments=(2, 2), options=[
    option("srand", int, 0, "Seed of the random order; without effect with --buffer-size"),
    option("buffer-size", int, 0, "If positive, hold only so many examples and randomize only partially"),
])
def shuffle_egs(args: list[str], options: Options) -> int:
    """Put examples into random order; they are moved without being decoded."""
    from nnet3py import log
    from nnet3py.egs.raw_example import copying_holder
    from nnet3py.egs.reorder import shuffle, shuffle_with_buffer
    from nnet3py.io.tables import SequentialReader, TableWriter

    source, target = args
    holder = copying_holder(target)
    buffered = options.buffer_size > 0
    count = 0
    # The reader is closed first: a damaged archive then leaves no output that looks complete.
    with TableWriter(target, holder) as writer, SequentialReader(source, holder) as reader:
        entries = shuffle_with_buffer(reader, options.buffer_size) if buffered else shuffle(reader, options.srand)
        for key, value in log.progress(entries, "Shuffling examples"):
            writer.write(key, value)
            count += 1
    how = "using a buffer (partial randomization)" if buffered else ""
    log.log(f"Shuffled order of {count} neural-network training examples {how}", file="nnet3-shuffle-egs.cc", line=105)
    return 0 if count else 1
