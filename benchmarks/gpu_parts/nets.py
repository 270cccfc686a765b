"""The networks of the GPU benchmark, as configs, and minibatches of random data for them."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    dim: int = 1536             # TDNN-F: of a layer
    bottleneck: int = 160
    layers: int = 16
    prefinal: int = 256
    cells: int = 1024           # TDNN-LSTM
    projection: int = 256
    pdfs: int = 3000
    sequences: int = 64         # of a training minibatch
    frames: int = 60            # of a sequence that have an output; the context comes on top


LARGE = Sizes()
# for numba's simulator
TINY = Sizes(dim=8, bottleneck=4, layers=2, prefinal=4, cells=4, projection=2, pdfs=5, sequences=2, frames=6)


def tdnnf(sizes: Sizes) -> str:
    """The config of a factorized TDNN: time strides of 1, a layer without, then strides of 3."""
    strides = ([1, 1, 1, 0] + [3] * sizes.layers)[:sizes.layers]
    dims = f"dim={sizes.dim} bottleneck-dim={sizes.bottleneck} l2-regularize=0.01"
    layers = "\n".join(f"tdnnf-layer name=tdnnf{i} time-stride={stride} {dims}" for i, stride in enumerate(strides, 2))
    return _config(f"""input name=input dim=40
relu-batchnorm-layer name=tdnn1 dim={sizes.dim} input=Append(-1,0,1) l2-regularize=0.01
{layers}
linear-component name=prefinal dim={sizes.prefinal} orthonormal-constraint=-1.0
output-layer name=output dim={sizes.pdfs} max-change=1.5""")


def tdnn_lstm(sizes: Sizes) -> str:
    """The config of a TDNN with two projected LSTM layers."""
    lstm = (f"cell-dim={sizes.cells} recurrent-projection-dim={sizes.projection} "
            f"non-recurrent-projection-dim={sizes.projection} delay=-3")
    return _config(f"""input name=input dim=40
relu-batchnorm-layer name=tdnn1 dim={sizes.cells} input=Append(-2,-1,0,1,2)
fast-lstmp-layer name=lstm1 {lstm}
relu-batchnorm-layer name=tdnn2 dim={sizes.cells} input=Append(-3,0,3)
fast-lstmp-layer name=lstm2 {lstm}
output-layer name=output dim={sizes.pdfs} max-change=1.5""")


def _config(xconfig: str) -> str:
    from nnet3py.xconfig import expand

    return expand(xconfig).final


def minibatch(nnet: Any, sizes: Sizes, seed: int = 0) -> Any:
    """A merged example: random features, a random class for each output frame."""
    from nnet3py.compiler.build_graph import compute_simple_nnet_context
    from nnet3py.egs.example import NnetExample, NnetIo
    from nnet3py.formats.general import SparseMatrix

    rng = np.random.default_rng(seed)
    left, right = compute_simple_nnet_context(nnet)
    inputs = _indexes(sizes.sequences, range(-left, sizes.frames + right))
    outputs = _indexes(sizes.sequences, range(sizes.frames))
    labels = SparseMatrix(np.arange(len(outputs) + 1), rng.integers(0, sizes.pdfs, len(outputs)),
                          np.ones(len(outputs)), sizes.pdfs)
    return NnetExample([NnetIo("input", inputs, rng.standard_normal((len(inputs), 40)).astype(np.float32)),
                        NnetIo("output", outputs, labels)])


def _indexes(sequences: int, times: range) -> np.ndarray:
    """Indexes of all times of all sequences, the sequence changing slowest: int32 (rows, 3)."""
    indexes = np.zeros((sequences, len(times), 3), np.int32)
    indexes[..., 0], indexes[..., 1] = np.arange(sequences)[:, None], np.array(times)
    return indexes.reshape(-1, 3)
