"""The normalization FST, as commands that make chain examples take it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.cli.process.options import option
from nnet3py.errors import within

if TYPE_CHECKING:
    from nnet3py.chain.normalization import Normalizer
    from nnet3py.transducers.fst import Fst

NORMALIZATION_SCALE = option("normalization-fst-scale", float, 1.0, "Factor of the costs of the normalization FST; "
                             "below 1 where --lm-scale of chain-get-supervision is not 0")


def read_normalizer(rxfilename: str, scale: float) -> Normalizer:
    """What normalizes with the FST in a file; Nnet3Error if it cannot be used."""
    from nnet3py.chain.normalization import Normalizer
    from nnet3py.io.object_files import read_object
    from nnet3py.transducers.fst_text import read_fst

    fst: Fst = read_object(rxfilename, read_fst)
    with within(rxfilename):
        return Normalizer(fst, scale)
