"""Random order, random subsets and minibatches of training examples.

nnet3-shuffle-egs, nnet3-subset-egs and nnet3-merge-egs, and nnet3-chain-… and nnet3-discriminative-… of these names.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nnet3py import log
from nnet3py.cli.egs.options import MERGE
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import with_default
from nnet3py.cli.process.options import Options, option

_BUFFER_SIZE = option("buffer-size", int, 0,
                      "If positive, hold only that many examples and randomize only partially")
_OPTIONS = (option("srand", int, 0, "Seed of the random order; no effect with --buffer-size, as in Kaldi",
                   idle=lambda seed, options: "" if options.buffer_size <= 0 else
                   "with --buffer-size every seed gives the same order, as in Kaldi"), _BUFFER_SIZE)


@kaldi_command("nnet3-shuffle-egs", "Examples", "Put training examples into random order.", """
Copy examples (typically single frames or small groups of them) in random order.

Usage:  nnet3-shuffle-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-shuffle-egs --srand=1 ark:train.egs ark:shuffled.egs
""", arguments=(2, 2), options=_OPTIONS)
def shuffle_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.raw_example import copying_holder

    return _shuffle(args, options, copying_holder(args[1]))


@kaldi_command("nnet3-chain-shuffle-egs", "Chain training", "Put chain examples into random order.", """
Copy chain examples in random order.

Usage:  nnet3-chain-shuffle-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-shuffle-egs --srand=1 ark:train.cegs ark:shuffled.cegs
""", arguments=(2, 2), options=[option("srand", int, 0, "Seed of the random order"), _BUFFER_SIZE])
def chain_shuffle_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.raw_example import RAW_CHAIN_EXAMPLE, copying_holder

    return _shuffle(args, options, copying_holder(args[1], raw=RAW_CHAIN_EXAMPLE), buffer_seed=options.srand)


@kaldi_command("nnet3-discriminative-shuffle-egs", "Discriminative training",
               "Put examples of discriminative training into random order.", """
Copy examples of discriminative training in random order.

Usage:  nnet3-discriminative-shuffle-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-discriminative-shuffle-egs --srand=1 ark:train.degs ark:shuffled.degs
""", arguments=(2, 2), options=_OPTIONS)
def discriminative_shuffle_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.raw_example import RAW_DISCRIMINATIVE_EXAMPLE, copying_holder

    return _shuffle(args, options, copying_holder(args[1], raw=RAW_DISCRIMINATIVE_EXAMPLE))


def _shuffle(args: list[str], options: Options, holder: Any, buffer_seed: int = 1) -> int:
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


_SUBSET_OPTIONS = (
    option("srand", int, 0, "Seed of the order in which the examples are written"),
    option("n", int, 1000, "Number of examples to keep", least=0),
    option("randomize-order", bool, True, "Write the examples in random order"),
)


@kaldi_command("nnet3-subset-egs", "Examples", "Select a random subset of training examples.", """
Write a random subset of the examples in a table. The subset is held in memory.

Usage:  nnet3-subset-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-subset-egs --n=1000 ark:all.egs ark:subset.egs
""", arguments=(2, 2), options=_SUBSET_OPTIONS)
def subset_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.raw_example import copying_holder

    return _subset(args, options, copying_holder(args[1]), "neural-network training examples")


@kaldi_command("nnet3-chain-subset-egs", "Chain training", "Select a random subset of chain examples.", """
Write a random subset of the chain examples in a table. The subset is held in memory.

Usage:  nnet3-chain-subset-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-subset-egs --n=1000 ark:all.cegs ark:subset.cegs
""", arguments=(2, 2), options=_SUBSET_OPTIONS)
def chain_subset_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.raw_example import RAW_CHAIN_EXAMPLE, copying_holder

    return _subset(args, options, copying_holder(args[1], raw=RAW_CHAIN_EXAMPLE), "nnet3+chain training examples")


@kaldi_command("nnet3-discriminative-subset-egs", "Discriminative training",
               "Select a random subset of examples of discriminative training.", """
Write a random subset of the examples of discriminative training in a table. The subset is held in memory.

Usage:  nnet3-discriminative-subset-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-discriminative-subset-egs --n=1000 ark:all.degs ark:subset.degs
""", arguments=(2, 2), options=_SUBSET_OPTIONS)
def discriminative_subset_egs(args: list[str], options: Options) -> int:
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


@kaldi_command("nnet3-merge-egs", "Examples", "Merge training examples into minibatches.", """
Merge training examples of equal structure into minibatches.

Usage:  nnet3-merge-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-merge-egs --minibatch-size=512 ark:1.egs ark:-
 or:  nnet3-merge-egs --minibatch-size=128=64,32/256=40 ark:1.egs ark:-
""", arguments=(2, 2), options=MERGE)
def merge_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
    from nnet3py.egs.packed_example import PACKED_EXAMPLE, merge_packed
    from nnet3py.io.specifiers import parse_wspecifier

    sizes = MinibatchSizes(options.minibatch_size)
    if not parse_wspecifier(args[1]).binary:
        return _merge(args, EXAMPLE, ExampleMerger(sizes, options.compress))
    return _merge(args, PACKED_EXAMPLE, ExampleMerger(sizes, options.compress, merge_packed))


@kaldi_command("nnet3-chain-merge-egs", "Chain training", "Merge chain examples into minibatches.", """
Merge chain examples of equal structure into minibatches.

Usage:  nnet3-chain-merge-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-merge-egs --minibatch-size=128 ark:1.cegs ark:-
 or:  nnet3-chain-merge-egs --minibatch-size=150=64,32/90=128 ark:1.cegs ark:-
""", arguments=(2, 2), options=with_default(MERGE, "minibatch-size", "64"))
def chain_merge_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE
    from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
    from nnet3py.egs.sequence_egs import language_ending, merge_chain_examples, name_language

    sizes = MinibatchSizes(options.minibatch_size)
    if not options.multilingual_eg:
        return _merge(args, CHAIN_EXAMPLE, ExampleMerger(sizes, options.compress, merge_chain_examples))
    return _merge(args, CHAIN_EXAMPLE, ExampleMerger(sizes, options.compress, merge_chain_examples, language_ending),
                  name_language)


@kaldi_command("nnet3-discriminative-merge-egs", "Discriminative training",
               "Merge examples of discriminative training into minibatches.", """
Merge examples of discriminative training of equal structure into minibatches.

Usage:  nnet3-discriminative-merge-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-discriminative-merge-egs --minibatch-size=128 ark:1.degs ark:-
""", arguments=(2, 2), options=with_default(MERGE, "minibatch-size", "64"))
def discriminative_merge_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
    from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
    from nnet3py.egs.sequence_egs import merge_discriminative_examples

    return _merge(args, DISCRIMINATIVE_EXAMPLE, ExampleMerger(
        MinibatchSizes(options.minibatch_size), options.compress, merge_discriminative_examples))


def _merge(args: list[str], holder: Any, merger: Any, prepare: Callable[[str, Any], None] | None = None) -> int:
    """Merge the examples of a table into minibatches; return 1 if none was made.

    ``prepare(key, example)``, if given, changes each example in place before it is merged.
    """
    from nnet3py.io.tables import SequentialReader, TableWriter

    def examples(reader: Iterable[tuple[str, Any]]) -> Iterable[Any]:
        for key, example in reader:
            if prepare is not None:
                prepare(key, example)
            yield example

    source, target = args
    # The reader is closed first: a damaged archive then leaves no output that looks complete.
    with TableWriter(target, holder) as writer, SequentialReader(source, holder) as reader:
        for key, minibatch in merger.merge(log.progress(examples(reader), "Merging examples", share=reader.share_read)):
            writer.write(key, minibatch)
    merger.log_report()
    return 0 if merger.num_minibatches else 1
