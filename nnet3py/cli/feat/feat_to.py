"""feat-to-dim and feat-to-len: the numbers of columns and rows of feature matrices."""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options
from nnet3py.errors import FormatError
from nnet3py.io.specifiers import is_wspecifier


@kaldi_command("feat-to-dim", group="Sound and features", help="Print the dimension of features.", usage="""
Write how many columns features have: those of the first matrix into a file, or those of every utterance into a table.

Usage: feat-to-dim [options] <feat-rspecifier> (<dim-wspecifier>|<dim-wxfilename>)
e.g.: feat-to-dim scp:feats.scp -
""", arguments=(2, 2))
def feat_to_dim(args: list[str], options: Options) -> int:
    """Write the dimension of the first matrix, or those of all."""
    from nnet3py.formats.holders import GENERAL_MATRIX
    from nnet3py.io.streams import write_text
    from nnet3py.io.tables import SequentialReader

    if is_wspecifier(args[1]):
        return _write_sizes(args[0], args[1], axis=1)
    with SequentialReader(args[0], GENERAL_MATRIX) as features:
        first = next(iter(features), None)
    if first is None:
        raise FormatError("Could not read any features (empty archive?)", path=args[0])
    dim = first[1].shape[1]
    write_text(args[1], f"{dim}\n")
    return 0


@kaldi_command("feat-to-len", group="Sound and features", help="Print the number of frames of features.", usage="""
Write the number of frames of each utterance, or, without a second argument, print how many there are in all.

Usage: feat-to-len [options] <in-rspecifier> [<out-wspecifier>]
e.g.: feat-to-len scp:feats.scp ark,t:feats.lengths
or: feat-to-len scp:feats.scp
""", arguments=(1, 2))
def feat_to_len(args: list[str], options: Options) -> int:
    """Write the number of frames of each matrix, or print their sum."""
    from nnet3py.formats.holders import GENERAL_MATRIX
    from nnet3py.io.streams import write_text
    from nnet3py.io.tables import SequentialReader

    if len(args) == 2:
        return _write_sizes(args[0], args[1], axis=0)
    with SequentialReader(args[0], GENERAL_MATRIX) as features:
        total = sum(matrix.shape[0] for _, matrix in features)
    write_text("-", f"{total}\n")
    return 0


def _write_sizes(rspecifier: str, wspecifier: str, axis: int) -> int:
    from nnet3py.formats.holders import GENERAL_MATRIX, INT32
    from nnet3py.io.tables import SequentialReader, TableWriter

    with TableWriter(wspecifier, INT32) as writer, SequentialReader(rspecifier, GENERAL_MATRIX) as features:
        for key, matrix in features:
            writer.write(key, matrix.shape[axis])
    return 0
