"""nnet3-subset-egs, and the same for chain and discriminative examples."""
from __future__ import annotations

from typing import Any

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option

_OPTIONS = (
    option("srand", int, 0, "Seed of the order in which the examples are written"),
    option("n", int, 1000, "Number of examples to keep"),
    option("randomize-order", bool, True, "Write the examples in random order"),
)


@kaldi_command("nnet3-subset-egs", group="Examples", help="Select a random subset of training examples.", usage="""
Create a random subset of the examples in a table; it is held in memory.

Usage:  nnet3-subset-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-subset-egs --n=1000 ark:all.egs ark:subset.egs
""", arguments=(2, 2), options=_OPTIONS)
def subset_egs(args: list[str], options: Options) -> int:
    """Keep a random subset of examples; they are moved without being decoded."""
    from nnet3py.egs.raw_example import copying_holder

    return _subset(args, options, copying_holder(args[1]), "neural-network training examples")


@kaldi_command("nnet3-chain-subset-egs", group="Chain training", help="Select a random subset of chain examples.",
               usage="""
Create a random subset of the chain examples in a table; it is held in memory.

Usage:  nnet3-chain-subset-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-subset-egs --n=1000 ark:all.cegs ark:subset.cegs
""", arguments=(2, 2), options=_OPTIONS)
def chain_subset_egs(args: list[str], options: Options) -> int:
    """Keep a random subset of chain examples."""
    from nnet3py.egs.raw_example import RAW_CHAIN_EXAMPLE, copying_holder

    return _subset(args, options, copying_holder(args[1], raw=RAW_CHAIN_EXAMPLE), "nnet3+chain training examples")


@kaldi_command("nnet3-discriminative-subset-egs", group="Discriminative training",
               help="Select a random subset of examples of discriminative training.", usage="""
Create a random subset of the examples of discriminative training in a table; it is held in memory.

Usage:  nnet3-discriminative-subset-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-discriminative-subset-egs --n=1000 ark:all.degs ark:subset.degs
""", arguments=(2, 2), options=_OPTIONS)
def discriminative_subset_egs(args: list[str], options: Options) -> int:
    """Keep a random subset of discriminative examples."""
    from nnet3py.egs.raw_example import RAW_DISCRIMINATIVE_EXAMPLE, copying_holder

    return _subset(args, options, copying_holder(args[1], raw=RAW_DISCRIMINATIVE_EXAMPLE),
                   "neural-network discriminative training examples")


def _subset(args: list[str], options: Options, holder: Any, what: str) -> int:
    from nnet3py import log
    from nnet3py.egs.raw_example import subset
    from nnet3py.io.tables import SequentialReader, TableWriter

    source, target = args
    with SequentialReader(source, holder) as reader:
        kept, seen = subset(log.progress(reader, "Reading examples", share=reader.share_read), options.n, options.srand,
                            options.randomize_order)
    with TableWriter(target, holder) as writer:
        for key, value in kept:
            writer.write(key, value)
    log.log(f"Selected a subset of {len(kept)} out of {seen} {what} ", file=f"{log.program()}.cc", line=92)
    return 0 if seen else 1
