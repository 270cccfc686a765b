"""A few utterances of the digits recipe, and small networks for them."""
from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np

from nnet3py.io.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.io.tables import SequentialReader, TableWriter, read_matrices

DATA = Path(__file__).resolve().parent.parent / "egs" / "digits" / "data" / "train"
NUM_PHONES = 28

CONFIG = """
input-node name=input dim=40
component name=n type=BatchNormComponent dim=40
component name=a type=NaturalGradientAffineComponent input-dim=120 output-dim=32 max-change=0.75
component name=r type=RectifiedLinearComponent dim=32
component name=b type=NaturalGradientAffineComponent input-dim=32 output-dim=28 param-stddev=0 bias-stddev=0
component name=l type=LogSoftmaxComponent dim=28
component-node name=n component=n input=input
component-node name=a component=a input=Append(Offset(n, -2), n, Offset(n, 2))
component-node name=r component=r input=a
component-node name=b component=b input=r
component-node name=l component=l input=b
output-node name=output input=l
"""


def write_digits(folder: Path, count: int = 3) -> list[str]:
    """feats.ark (float) and ali.ark of the first utterances, in ``folder``; returns their names."""
    with SequentialReader(f"ark:{DATA / 'ali.txt'}", INT_VECTOR) as reader:
        labels = dict(islice(reader, count))
    names = []
    with TableWriter(f"ark:{folder / 'feats.ark'}", FLOAT_MATRIX) as feats, \
            TableWriter(f"ark:{folder / 'ali.ark'}", INT_VECTOR) as targets:
        for name, matrix in islice(read_matrices(f"ark:{DATA / 'feats.ark'}"), count):
            feats.write(name, np.asarray(matrix, dtype=np.float32))
            targets.write(name, labels[name])
            names.append(name)
    return names
