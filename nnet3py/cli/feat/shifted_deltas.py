"""add-deltas-sdc: features and their slopes at several times, by which languages are told apart."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import ShapeError

if TYPE_CHECKING:
    import numpy as np


@kaldi_command("add-deltas-sdc", group="Transforming features", help="Append the slopes of features at several times.",
               usage="""
Put the slopes of features over time beside them, now and at several later times: shifted delta cepstra.

Usage: add-deltas-sdc [options] <feature-rspecifier> <feature-wspecifier>
e.g.: add-deltas-sdc --delta-window=1 --block-shift=3 --num-blocks=7 scp:feats.scp ark:-
See also: add-deltas, apply-cmvn-sliding
""", arguments=(2, 2), options=[
    option("truncate", int, 0, "Use this many columns of the features only (0: all)"),
    option("delta-window", int, 1, "Frames on either side from which a slope is computed"),
    option("block-shift", int, 3, "Frames from one slope to the next"),
    option("num-blocks", int, 7, "How many slopes"),
])
def add_deltas_sdc(args: list[str], options: Options) -> int:
    """Add shifted deltas to a table; 1 if it was empty."""
    from nnet3py.feat.frames import add_shifted_deltas
    from nnet3py.formats.holders import FLOAT_MATRIX

    if options.truncate < 0:
        raise OptionError(f"Invalid option --truncate={options.truncate}", "expected a number of columns, or 0 for all")

    def with_deltas(key: str, features: np.ndarray) -> np.ndarray | None:
        if not features.size:
            log.warning(f"Empty feature matrix for key {key}")
            return None
        if options.truncate > features.shape[1]:
            raise ShapeError(f"Cannot truncate features as dimension {features.shape[1]} is smaller than truncation "
                             f"dimension {options.truncate}.")
        return add_shifted_deltas(features[:, :options.truncate or None], options.delta_window, options.block_shift,
                                  options.num_blocks)

    done, _ = convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX, with_deltas)
    return 0 if done else 1
