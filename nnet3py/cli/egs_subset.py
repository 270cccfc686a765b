"""nnet3-subset-egs."""
from __future__ import annotations

from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import Options, option

USAGE = """Create a random subset of the examples in a table; it is held in memory.

Usage:  nnet3-subset-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-subset-egs --n=1000 ark:all.egs ark:subset.egs"""


@kaldi_command("nnet3-subset-egs", usage=USAGE, arguments=(2, 2), options=[
    option("srand", int, 0, "Seed of the order in which the examples are written"),
    option("n", int, 1000, "Number of examples to keep"),
    option("randomize-order", bool, True, "Write the examples in random order"),
])
def subset_egs(args: list[str], options: Options) -> int:
    """Keep a random subset of examples; they are moved without being decoded."""
    from nnet3py import log
    from nnet3py.egs.raw_example import copying_holder
    from nnet3py.egs.reorder import subset
    from nnet3py.io.tables import SequentialReader, TableWriter

    source, target = args
    holder = copying_holder(target)
    with SequentialReader(source, holder) as reader:
        kept, seen = subset(log.progress(reader, "Reading examples"), options.n, options.srand,
                            options.randomize_order)
    with TableWriter(target, holder) as writer:
        for key, value in kept:
            writer.write(key, value)
    log.log(f"Selected a subset of {len(kept)} out of {seen} neural-network training examples ",
            file="nnet3-subset-egs.cc", line=92)
    return 0 if seen else 1
