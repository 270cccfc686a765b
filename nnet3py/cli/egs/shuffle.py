"""nnet3-shuffle-egs, and the same for chain and discriminative examples."""
from __future__ import annotations

from typing import Any

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option

_BUFFER_SIZE = option("buffer-size", int, 0,
                      "If positive, hold only that many examples and randomize only partially")
_OPTIONS = (option("srand", int, 0, "Seed of the random order; no effect with --buffer-size, as in Kaldi",
                   idle=lambda seed, options: "" if options.buffer_size <= 0 else
                   "with --buffer-size every seed gives the same order, as in Kaldi"), _BUFFER_SIZE)


@kaldi_command("nnet3-shuffle-egs", group="Examples", help="Put training examples into random order.", usage="""
Copy examples (typically single frames or small groups of them) in random order.

Usage:  nnet3-shuffle-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-shuffle-egs --srand=1 ark:train.egs ark:shuffled.egs
""", arguments=(2, 2), options=_OPTIONS)
def shuffle_egs(args: list[str], options: Options) -> int:
    """Put examples into random order; they are moved without being decoded."""
    from nnet3py.egs.raw_example import copying_holder

    return _shuffle(args, options, copying_holder(args[1]))


@kaldi_command("nnet3-chain-shuffle-egs", group="Chain training", help="Put chain examples into random order.",
               usage="""
Copy chain examples in random order.

Usage:  nnet3-chain-shuffle-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-shuffle-egs --srand=1 ark:train.cegs ark:shuffled.cegs
""", arguments=(2, 2), options=[option("srand", int, 0, "Seed of the random order"), _BUFFER_SIZE])
def chain_shuffle_egs(args: list[str], options: Options) -> int:
    """Put chain examples into random order. The seed counts with and without a buffer; Kaldi's, only with one."""
    from nnet3py.egs.raw_example import RAW_CHAIN_EXAMPLE, copying_holder

    return _shuffle(args, options, copying_holder(args[1], raw=RAW_CHAIN_EXAMPLE), buffer_seed=options.srand)


@kaldi_command("nnet3-discriminative-shuffle-egs", group="Discriminative training",
               help="Put examples of discriminative training into random order.", usage="""
Copy examples of discriminative training in random order.

Usage:  nnet3-discriminative-shuffle-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-discriminative-shuffle-egs --srand=1 ark:train.degs ark:shuffled.degs
""", arguments=(2, 2), options=_OPTIONS)
def discriminative_shuffle_egs(args: list[str], options: Options) -> int:
    """Put discriminative examples into random order."""
    from nnet3py.egs.raw_example import RAW_DISCRIMINATIVE_EXAMPLE, copying_holder

    return _shuffle(args, options, copying_holder(args[1], raw=RAW_DISCRIMINATIVE_EXAMPLE))


def _shuffle(args: list[str], options: Options, holder: Any, buffer_seed: int = 1) -> int:
    from nnet3py import log
    from nnet3py.egs.raw_example import shuffle, shuffle_with_buffer
    from nnet3py.io.tables import SequentialReader, TableWriter

    source, target = args
    buffered = options.buffer_size > 0
    count = 0
    # The reader is closed first: a damaged archive then leaves no output that looks complete.
    with TableWriter(target, holder) as writer, SequentialReader(source, holder) as reader:
        entries = (shuffle_with_buffer(reader, options.buffer_size, buffer_seed) if buffered
                   else shuffle(reader, options.srand))
        for key, value in log.progress(entries, "Shuffling examples"):
            writer.write(key, value)
            count += 1
    how = "using a buffer (partial randomization)" if buffered else ""
    log.log(f"Shuffled order of {count} neural-network training examples {how}", file=f"{log.program()}.cc", line=105)
    return 0 if count else 1
