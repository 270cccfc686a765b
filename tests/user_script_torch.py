"""A program of somebody who checks types, with PyTorch: modules of networks, LF-MMI, natural gradient, data sets.

``test_types.py`` runs it where PyTorch is installed, and has mypy check it strictly. Runs in an empty folder.
"""
from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import DataLoader

import nnet3py
from nnet3py.chain import estimate_phone_lm, make_den_fst
from nnet3py.hmm.topology import chain_topology
from nnet3py.hmm.tree import initial_transition_model, monophone_tree
from nnet3py.torch import (
    ChainLoss,
    ChainSums,
    ChainSystem,
    NaturalGradient,
    orthonormal_constraint_,
    supervision_from_alignments,
    supervision_from_phones,
)
from nnet3py.torch_data import ExampleDataset, tensors

CONFIG = """
input-node name=input dim=3
component name=affine type=NaturalGradientAffineComponent input-dim=3 output-dim=DIM
component-node name=affine component=affine input=input
output-node name=output input=affine
"""


def absolute(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss of tensors."""
    return (output - target).abs().mean()


def main() -> None:
    """All of it."""
    topology = chain_topology([1, 2, 3])
    tree = monophone_tree(topology)
    model = initial_transition_model(tree, topology)
    den_fst = make_den_fst(tree, model, estimate_phone_lm([[1, 2, 3], [3, 1, 2], [2, 2, 1]]))
    system = ChainSystem(tree, model, den_fst, frame_subsampling_factor=3)
    supervision = supervision_from_alignments([np.array([[1, 9], [2, 12], [3, 9]])], system)
    supervision_from_phones([np.array([1, 2, 3])], [10], system)

    nnet = nnet3py.Nnet.from_config(CONFIG.replace("DIM", str(system.num_pdfs)), seed=1)
    module: torch.nn.Module = nnet3py.to_torch(nnet)
    loss = ChainLoss(den_fst, system.num_pdfs, leaky_hmm_coefficient=0.1)
    module.train()
    optimizer = NaturalGradient(module, lr=0.001, momentum=0.5)
    output: torch.Tensor = module(torch.zeros(1, 10, 3))
    value: torch.Tensor = loss(output, supervision)
    value.backward()  # type: ignore[no-untyped-call]
    sums: ChainSums | None = loss.sums
    optimizer.step(num_frames=sums.weight if sums is not None else 1.0)
    again: torch.Tensor = optimizer.step(lambda: loss(module(torch.zeros(1, 10, 3)), supervision))
    weight: torch.Tensor = orthonormal_constraint_(torch.eye(3))
    trained: nnet3py.Nnet = nnet3py.from_torch(module, nnet)
    print(output.shape, value.item() > 0, again.item() > 0, weight.shape, trained != nnet)

    feats, wanted = torch.randn(8, 4, 3), torch.zeros(8, 4, system.num_pdfs)
    nnet3py.train(nnet, feats, wanted, loss=torch.nn.MSELoss())
    nnet3py.train(nnet, DataLoader(torch.utils.data.TensorDataset(feats, wanted), batch_size=4),
                  loss=nnet3py.Loss(absolute, tensors=True))
    trainer = nnet3py.Trainer(nnet, loss=loss, learning_rate=0.001, frame_subsampling_factor=3)
    print(trainer.step(torch.zeros(1, 30, 3), supervision) > 0)

    frames = nnet3py.IoSpecification.frames("input", 1, 0, 4).indexes
    example = nnet3py.NnetExample([nnet3py.NnetIo("input", frames, np.ones((4, 3), np.float32))])
    nnet3py.write_egs("ark:egs.ark", [("a", example), ("b", example)])
    data = ExampleDataset("ark:egs.ark", batch_size=2, shuffle=True)
    for batch in data:
        matrix = batch["input"]
        assert isinstance(matrix, torch.Tensor)                 # of a chain example an output is a supervision
        print(matrix.shape, sorted(tensors(example)))
    print([sorted(batch) for batch in DataLoader(data, batch_size=None)])


if __name__ == "__main__":
    main()
