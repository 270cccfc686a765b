"""nnet3-merge-egs."""
from __future__ import annotations

from nnet3py.cli.command import kaldi_command
from nnet3py.cli.option_groups import MERGE
from nnet3py.cli.options import Options

USAGE = """Merge training examples of equal structure into minibatches.

Usage:  nnet3-merge-egs [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-merge-egs --minibatch-size=512 ark:1.egs ark:-
 or:  nnet3-merge-egs --minibatch-size=128=64,32/256=40 ark:1.egs ark:-"""


@kaldi_command("nnet3-merge-egs", usage=USAGE, arguments=(2, 2), options=MERGE)
def merge_egs(args: list[str], options: Options) -> int:
    """Merge examples into minibatches."""
    from nnet3py import log
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.merger import ExampleMerger
    from nnet3py.egs.minibatch_size import MinibatchSizes
    from nnet3py.io.tables import SequentialReader, TableWriter

    source, target = args
    merger = ExampleMerger(MinibatchSizes(options.minibatch_size), options.compress)
    # The reader is closed first: a damaged archive then leaves no output that looks complete.
    with TableWriter(target, EXAMPLE) as writer, SequentialReader(source, EXAMPLE) as reader:
        examples = (example for _, example in reader)
        for key, minibatch in merger.merge(log.progress(examples, "Merging examples")):
            writer.write(key, minibatch)
    merger.log_report()
    return 0 if merger.num_minibatches else 1
