"""ali-to-post: alignments as posteriors of weight one."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options


@kaldi_command("ali-to-post", group="Alignments and posteriors", help="Turn alignments into posteriors.", usage="""
Turn vectors of integers, such as alignments, into posteriors: each integer gets the weight 1 in its frame.

Usage:  ali-to-post [options] <alignments-rspecifier> <posteriors-wspecifier>
e.g.:
 ali-to-post ark:1.ali ark:1.post
See also: ali-to-pdf, ali-to-phones
""", arguments=(2, 2))
def ali_to_post(args: list[str], options: Options) -> int:
    """Convert a table; 1 if it was empty."""
    from nnet3py.formats.holders import INT_VECTOR, POSTERIOR
    from nnet3py.formats.posteriors import posterior_of_alignment
    from nnet3py.io.tables import SequentialReader, TableWriter

    count = 0
    with TableWriter(args[1], POSTERIOR) as writer, SequentialReader(args[0], INT_VECTOR) as alignments:
        for key, alignment in alignments:
            writer.write(key, posterior_of_alignment(alignment))
            count += 1
    log.log(f"Converted {count} alignments.")
    return 0 if count else 1
