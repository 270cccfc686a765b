"""nnet3-get-egs-simple: training examples of whole matrices."""
from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options
from nnet3py.errors import UsageError, within


@kaldi_command("nnet3-get-egs-simple", group="Examples", help="Make training examples from whole matrices.", usage="""
Make training examples of whole matrices, for instance of images: one example for
each key, in which every named matrix is an input or output of the network, with
t = 0, 1, ... for its rows.

Usage:  nnet3-get-egs-simple [options] <name1>=<rspecifier1> [<name2>=<rspecifier2> ...] <egs-wspecifier>

e.g.: nnet3-get-egs-simple input=ark:images.ark output=ark:labels.ark ark:egs.ark
""", arguments=(2, None))
def get_egs_simple(args: list[str], options: Options) -> int:
    """Make examples; keys that some table lacks are reported."""
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.make import simple_example
    from nnet3py.formats.holders import GENERAL_MATRIX
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

    *sources, target = args
    names, rspecifiers = zip(*(_name_and_table(source) for source in sources), strict=True)
    num_read = num_written = num_errors = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(target, EXAMPLE))
        others = [stack.enter_context(RandomAccessReader(rspecifier, GENERAL_MATRIX)) for rspecifier in rspecifiers[1:]]
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        reader = stack.enter_context(SequentialReader(rspecifiers[0], GENERAL_MATRIX))
        for key, first in log.progress(reader, "Making examples", share=reader.share_read):
            num_read += 1
            matrices = [first, *(other.get(key) for other in others)]
            missing = [name for name, matrix in zip(names, matrices, strict=True) if matrix is None]
            if missing:
                log.warning(f"Could not find input for key {key} for io-name={missing[0]}")
                num_errors += 1
                continue
            with within(f"key {key}"):
                writer.write(key, simple_example(list(zip(names, matrices, strict=True))))
            num_written += 1
    log.log(f"Read {num_read} keys, wrote {num_written} examples, {num_errors} keys had errors.")
    return 0 if num_written else 1


def _name_and_table(argument: str) -> tuple[str, Any]:
    """The two parts of ``name=rspecifier``."""
    from nnet3py.io.specifiers import is_rspecifier

    name, _, rspecifier = argument.partition("=")
    if not name or any(letter.isspace() for letter in name) or not is_rspecifier(rspecifier):
        raise UsageError(f"Expected name=rspecifier, found '{argument}'", "such as input=ark:feats.ark")
    return name, rspecifier
