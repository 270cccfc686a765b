"""copy-feats-to-htk and copy-feats-to-sphinx: features as files of other programs."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import UsageError, within

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from nnet3py.io.tokens import TokenWriter

_USER_KIND = 9              # of HTK: features of any sort
_LARGEST_KIND, _LARGEST_PERIOD = 0xFFFF, 0x7FFFFFFF

OUTPUT_DIR = option("output-dir", str, ".", "Folder of the files, which must exist")


def _write_files(rspecifier: str, options: Options, write: Callable[[TokenWriter, np.ndarray], None], what: str) -> int:
    """A file for each matrix, named after its key; 1 if there was none."""
    from nnet3py.formats.holders import read_matrices
    from nnet3py.io.streams import open_output
    from nnet3py.io.tokens import TokenWriter

    count = 0
    for key, matrix in read_matrices(rspecifier):
        if "/" in key or "\\" in key:
            raise UsageError(f"the key {key} cannot be the name of a file", "keys here must have no slashes")
        with within(f"key {key}"), open_output(f"{options.output_dir or '.'}/{key}.{options.output_ext}") as stream:
            write(TokenWriter(stream, True), matrix)
        count += 1
    log.log(f"{count} {what} feature files generated in the direcory: {options.output_dir}")
    return 0 if count else 1


@kaldi_command("copy-feats-to-htk", group="Sound and features", help="Write features as files of HTK.", usage="""
Write features as files of HTK, one for each utterance: <output-dir>/<key>.<output-ext>.

Usage: copy-feats-to-htk [options] <feats-rspecifier>
e.g.: copy-feats-to-htk --output-dir=htk --output-ext=fea scp:feats.scp
See also: copy-feats, copy-feats-to-sphinx
""", arguments=(1, 1), options=[
    OUTPUT_DIR,
    option("output-ext", str, "fea", "Ending of the names of the files"),
    option("sample-period", int, 100000, "Time from one frame to the next, in units of 100 ns"),
    option("sample-kind", int, _USER_KIND, "HTK's number of the kind of features; 9 is of any sort, 6 MFCC"),
])
def copy_feats_to_htk(args: list[str], options: Options) -> int:
    """Write the files; 1 if there was none."""
    from nnet3py.formats.foreign_files import htk_holder

    if not 0 <= options.sample_kind <= _LARGEST_KIND or not 0 < options.sample_period <= _LARGEST_PERIOD:
        raise OptionError(f"--sample-kind={options.sample_kind} and --sample-period={options.sample_period} cannot be "
                          "written", f"expected a kind up to {_LARGEST_KIND}, and a period above 0")
    return _write_files(args[0], options, htk_holder(options.sample_kind, options.sample_period).write, "HTK")


@kaldi_command("copy-feats-to-sphinx", group="Sound and features", help="Write features as files of Sphinx.", usage="""
Write features as files of Sphinx, one for each utterance: <output-dir>/<key>.<output-ext>.

Usage: copy-feats-to-sphinx [options] <feats-rspecifier>
e.g.: copy-feats-to-sphinx --output-dir=sphinx --output-ext=mfc scp:feats.scp
See also: copy-feats, copy-feats-to-htk
""", arguments=(1, 1), options=[
    OUTPUT_DIR,
    option("output-ext", str, "mfc", "Ending of the names of the files"),
])
def copy_feats_to_sphinx(args: list[str], options: Options) -> int:
    """Write the files; 1 if there was none."""
    from nnet3py.formats.foreign_files import write_sphinx_matrix

    return _write_files(args[0], options, write_sphinx_matrix, "Sphinx")
