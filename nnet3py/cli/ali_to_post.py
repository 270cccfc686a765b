"""ali-to-post: alignments as posteriors of weight one."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import Options


@kaldi_command("ali-to-post", usage="""
Convert alignments to posteriors.  This is simply a format change
from integer vectors to Posteriors, which are vectors of lists of
pairs (int, float) where the float represents the posterior.  The
floats would all be 1.0 in this case.
The posteriors will still be in terms of whatever integer index
the input contained, which will be phones if the input was
phone alignments, or transition-ids or pdf-ids.

Usage:  ali-to-post [options] <alignments-rspecifier> <posteriors-wspecifier>
e.g.:
 ali-to-post ark:1.ali ark:1.post
See also: ali-to-pdf, ali-to-phones
""", arguments=(2, 2))
def ali_to_post(args: list[str], options: Options) -> int:
    """Convert a table; 1 if it was empty."""
    from nnet3py.io.holders import INT_VECTOR, POSTERIOR
    from nnet3py.io.posteriors import posterior_of_alignment
    from nnet3py.io.tables import SequentialReader, TableWriter

    count = 0
    with TableWriter(args[1], POSTERIOR) as writer, SequentialReader(args[0], INT_VECTOR) as alignments:
        for key, alignment in alignments:
            writer.write(key, posterior_of_alignment(alignment))
            count += 1
    log.log(f"Converted {count} alignments.")
    return 0 if count else 1
