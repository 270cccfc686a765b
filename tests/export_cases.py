"""Networks to export, random numbers for them, and what nnet3py computes: shared by the tests of nnet3py/export/."""
from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from paths import DATA, ROOT

import nnet3py
from nnet3py.components.base import Component
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.models import graph_of
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import perturb

# of the largest value: float32 sums in another order; standard deviations of columns that hardly vary are less exact
TOLERANCE, POOLED = 1e-5, 2e-4
LENGTHS = (9, 23, 40)       # all three residues of a frame subsampling factor of 3; no case needs more frames at once
GOLDEN = Path(os.environ.get("NNET3PY_GOLDEN", ROOT.parent / "shared" / "golden"))
NOT_EXPORTED = {"distribute"}
# what looped computation does not do, with small chunks or at all
NOT_LOOPED = {"descriptor-if-defined-failover", "net-xvector"}
SUBSAMPLED = ("net-lstm", "net-blstm", "net-tdnnf")       # cases tried with a frame subsampling factor of 3, too


def all_cases() -> set[str]:
    """The reference cases that can be exported and have one input."""
    names = {path.parent.name for path in (GOLDEN / "cases").glob("*/nnet.raw")}
    return names - NOT_EXPORTED - {"multi-input-output"}


def small_cases() -> list[str]:
    """Networks that lie beside the tests."""
    return sorted(str(path.parent.relative_to(DATA)) for folder in ("cases", "nets")
                  for path in (DATA / folder).glob("*/nnet.raw"))


def tolerance(name: str) -> float:
    """What the outputs of a case may differ by, of the largest value."""
    return POOLED if "statistics" in name or "xvector" in name else TOLERANCE


def with_numbers(nnet: Nnet) -> Nnet:
    """The network with other parameters (some are 0 at first), and statistics for batch normalization; in place."""
    rng = np.random.default_rng(0)
    for component in nnet.components:
        for each in (component, *component.children):
            _give_statistics(each, rng)
    logging.getLogger("nnet3py").setLevel(logging.ERROR)
    perturb(nnet, 0.2, 3)
    return nnet


def _give_statistics(component: Component, rng: np.random.Generator) -> None:
    if type(component).__name__ != "BatchNormComponent" or component.count[0] != 0:       # type: ignore[attr-defined]
        return
    mean = 0.3 * rng.standard_normal(component.block_dim)                                 # type: ignore[attr-defined]
    component.count[0] = 100.0                                                            # type: ignore[attr-defined]
    component.sum[...] = 100 * mean                                                       # type: ignore[attr-defined]
    component.sumsq[...] = 100 * (mean**2 + rng.uniform(0.3, 2.0, mean.size))             # type: ignore[attr-defined]
    component.compute_derived()                                                           # type: ignore[attr-defined]


def read_case(name: str) -> Nnet:
    """A network from beside the tests, or (by a name without a folder) a reference case."""
    folder = DATA / name if "/" in name else GOLDEN / "cases" / name
    return with_numbers(nnet3py.read_nnet(folder / "nnet.raw"))


def random_inputs(nnet: Nnet, frames: int, num_sequences: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Features (sequences, frames, dim), and i-vectors (sequences, dim) where the network has them."""
    rng = np.random.default_rng(frames)
    feats = rng.standard_normal((num_sequences, frames, nnet.input_dim("input"))).astype(np.float32)
    dim = nnet.input_dim("ivector")
    return feats, rng.standard_normal((num_sequences, dim)).astype(np.float32) if dim > 0 else None


def computed(nnet: Nnet, feats: np.ndarray, ivectors: np.ndarray | None, factor: int = 1) -> np.ndarray:
    """What nnet3py gives for each sequence as one chunk."""
    return np.stack([nnet3py.compute(nnet, x, None if ivectors is None else ivectors[n], frames_per_chunk=1000,
                                     frame_subsampling_factor=factor) for n, x in enumerate(feats)])


def assert_close(found: np.ndarray, expected: np.ndarray, allowed: float) -> None:
    """Equal to within a part of the largest value."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= allowed * np.abs(expected).max()


def made_session(nnet: Nnet, **options: Any) -> Any:
    """What onnxruntime makes of an exported network, which passes the checks of onnx."""
    import onnx

    from nnet3py.export.export_onnx import onnx_model
    from nnet3py.export.onnx_stream import session

    model = onnx_model(graph_of(nnet, ExportOptions(**options)))
    onnx.shape_inference.infer_shapes(model, strict_mode=True)
    return session(model.SerializeToString())


CHAIN = """
input-node name=ivector dim=3
input-node name=input dim=4
component name=lda type=FixedAffineComponent input-dim=15 output-dim=15
component-node name=lda component=lda input=Append(Offset(input, -1), input, Offset(input,1), ReplaceIndex(ivector,t,0))
component name=tdnn1.affine type=NaturalGradientAffineComponent input-dim=15 output-dim=8
component-node name=tdnn1.affine component=tdnn1.affine input=lda
component name=tdnn1.relu type=RectifiedLinearComponent dim=8
component-node name=tdnn1.relu component=tdnn1.relu input=tdnn1.affine
component name=tdnn1.batchnorm type=BatchNormComponent dim=8
component-node name=tdnn1.batchnorm component=tdnn1.batchnorm input=tdnn1.relu
component name=tdnnf2.linear type=TdnnComponent input-dim=8 output-dim=4 use-bias=false time-offsets=-3,0
component-node name=tdnnf2.linear component=tdnnf2.linear input=tdnn1.batchnorm
component name=tdnnf2.affine type=TdnnComponent input-dim=4 output-dim=8 time-offsets=0,3
component-node name=tdnnf2.affine component=tdnnf2.affine input=tdnnf2.linear
component name=tdnnf2.noop type=NoOpComponent dim=8
component-node name=tdnnf2.noop component=tdnnf2.noop input=Sum(Scale(0.66, tdnn1.batchnorm), tdnnf2.affine)
component name=prefinal-l type=LinearComponent input-dim=8 output-dim=6
component-node name=prefinal-l component=prefinal-l input=tdnnf2.noop
component name=output.affine type=NaturalGradientAffineComponent input-dim=6 output-dim=5
component-node name=output.affine component=output.affine input=prefinal-l
output-node name=output input=output.affine
component name=output-xent.log-softmax type=LogSoftmaxComponent dim=5
component-node name=output-xent.log-softmax component=output-xent.log-softmax input=output.affine
output-node name=output-xent input=output-xent.log-softmax
"""


def chain_nnet() -> Nnet:
    """A small network as chain models have them: i-vector, TDNN-F with bypass, two outputs."""
    return with_numbers(Nnet.from_config(CHAIN, seed=1))
