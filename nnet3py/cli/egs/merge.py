"""nnet3-merge-egs, and the same for chain and discriminative examples."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nnet3py import log
from nnet3py.cli.egs.options import MERGE
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import with_default
from nnet3py.cli.process.options import Options


@kaldi_command("nnet3-merge-egs", group="Examples", help="Merge training examples into minibatches.", usage="""
Merge training examples of equal structure into minibatches.

Usage:  nnet3-merge-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-merge-egs --minibatch-size=512 ark:1.egs ark:-
 or:  nnet3-merge-egs --minibatch-size=128=64,32/256=40 ark:1.egs ark:-
""", arguments=(2, 2), options=MERGE)
def merge_egs(args: list[str], options: Options) -> int:
    """Merge examples into minibatches."""
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
    from nnet3py.egs.packed_example import PACKED_EXAMPLE, merge_packed
    from nnet3py.io.specifiers import parse_wspecifier

    sizes = MinibatchSizes(options.minibatch_size)
    if not parse_wspecifier(args[1]).binary:
        return _merge(args, EXAMPLE, ExampleMerger(sizes, options.compress))
    return _merge(args, PACKED_EXAMPLE, ExampleMerger(sizes, options.compress, merge_packed))


@kaldi_command("nnet3-chain-merge-egs", group="Chain training", help="Merge chain examples into minibatches.", usage="""
Merge chain examples of equal structure into minibatches.

Usage:  nnet3-chain-merge-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-merge-egs --minibatch-size=128 ark:1.cegs ark:-
 or:  nnet3-chain-merge-egs --minibatch-size=150=64,32/90=128 ark:1.cegs ark:-
""", arguments=(2, 2), options=with_default(MERGE, "minibatch-size", "64"))
def chain_merge_egs(args: list[str], options: Options) -> int:
    """Merge chain examples into minibatches."""
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE
    from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
    from nnet3py.egs.sequence_egs import language_ending, merge_chain_examples, name_language

    sizes = MinibatchSizes(options.minibatch_size)
    if not options.multilingual_eg:
        return _merge(args, CHAIN_EXAMPLE, ExampleMerger(sizes, options.compress, merge_chain_examples))
    return _merge(args, CHAIN_EXAMPLE, ExampleMerger(sizes, options.compress, merge_chain_examples, language_ending),
                  name_language)


@kaldi_command("nnet3-discriminative-merge-egs", group="Discriminative training",
               help="Merge examples of discriminative training into minibatches.", usage="""
Merge examples of discriminative training of equal structure into minibatches.

Usage:  nnet3-discriminative-merge-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-discriminative-merge-egs --minibatch-size=128 ark:1.degs ark:-
""", arguments=(2, 2), options=with_default(MERGE, "minibatch-size", "64"))
def discriminative_merge_egs(args: list[str], options: Options) -> int:
    """Merge discriminative examples into minibatches."""
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
    from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
    from nnet3py.egs.sequence_egs import merge_discriminative_examples

    return _merge(args, DISCRIMINATIVE_EXAMPLE, ExampleMerger(
        MinibatchSizes(options.minibatch_size), options.compress, merge_discriminative_examples))


def _merge(args: list[str], holder: Any, merger: Any, prepare: Callable[[str, Any], None] | None = None) -> int:
    """Merge the examples of a table; ``prepare(key, example)`` may change each before, in place."""
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
