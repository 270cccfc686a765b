"""nnet3py/export/limits.py: as many frames as the outputs need, and no more."""
from __future__ import annotations

import numpy as np
import pytest
from export_cases import chain_nnet, random_inputs

import nnet3py
from nnet3py.errors import Nnet3Error
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.limits import least_frames
from nnet3py.export.models import graph_of
from nnet3py.network.nnet import Nnet

# an x-vector of the frames from 3 to 2 before the end, each second one
POOLED = """
input-node name=input dim=4
component name=tdnn type=NaturalGradientAffineComponent input-dim=8 output-dim=6
component-node name=tdnn component=tdnn input=Append(Offset(input, -3), Offset(input, 2))
component name=extraction type=StatisticsExtractionComponent input-dim=6 input-period=2 output-period=2
component-node name=extraction component=extraction input=tdnn
component name=pooling type=StatisticsPoolingComponent input-dim=13 input-period=2 left-context=0 right-context=1000
component-node name=pooling component=pooling input=extraction
output-node name=output input=pooling
"""


def least(nnet: Nnet, **options: object) -> int:
    return least_frames(nnet, graph_of(nnet, ExportOptions(collapse=False, **options)))      # type: ignore[arg-type]


def test_contexts() -> None:
    nnet = chain_nnet()
    assert least(nnet) == 1
    assert least(nnet, edges="given") == 1 + 4 + 4
    with pytest.raises(Nnet3Error, match="needs frames before the first"):
        least(nnet, edges="none")


def test_frames_of_a_vector() -> None:
    """Frame 4, which is the first on the grid, looks at frame 6; with fewer frames the compiler refuses."""
    nnet = Nnet.from_config(POOLED, seed=0)
    assert least(nnet, edges="none") == 7
    torch = pytest.importorskip("torch")
    module = nnet3py.to_torch(nnet, edges="none")
    for frames in (7, 8, 20):
        feats, _ = random_inputs(nnet, frames, 2)
        request = nnet3py.ComputationRequest([nnet3py.IoSpecification.frames("input", 1, 0, frames)],
                                             [nnet3py.IoSpecification.frames("output", 1, 0, 1)])
        computer = nnet3py.Computer(nnet3py.compile(nnet, request), nnet)
        computer.accept_input("input", feats[1])
        computer.run()
        made = module(torch.from_numpy(feats))[1].detach().numpy()
        np.testing.assert_allclose(made, computer.output("output"), atol=1e-5)
    with pytest.raises(Nnet3Error, match="expected 7 frames or more"):
        module(torch.from_numpy(random_inputs(nnet, 6, 2)[0]))
