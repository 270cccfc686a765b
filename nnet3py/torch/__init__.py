"""Kaldi's training for PyTorch: the LF-MMI loss with its supervision, natural gradient, the orthonormal constraint.

>>> from nnet3py.torch import ChainLoss
>>> loss = ChainLoss("den.fst", num_pdfs, leaky_hmm_coefficient=0.1)
>>> loss(module(batch["input"]), batch["output"]).backward()

The three most important names: ``ChainLoss``, ``ChainSystem`` with functions that make supervision from alignments,
lattices or phones (both in ``chain.py``), and ``NaturalGradient``, an optimizer (``natural_gradient.py``).
``memory.py`` shares the memory of tensors with nnet3py's operations. Needs the extra ``torch``. docs/pytorch.md is for
users.

The package must not import ``export/`` or ``cli/``. k2 has an LF-MMI loss, but without Kaldi's leaky HMM and
normalization, so that results would differ.
"""
from __future__ import annotations

from nnet3py.public_names import give_names
from nnet3py.torch.chain import (
    ChainLoss,
    ChainSums,
    ChainSystem,
    supervision_from_alignments,
    supervision_from_lattices,
    supervision_from_phones,
)
from nnet3py.torch.natural_gradient import NaturalGradient, orthonormal_constraint_

__all__ = ["ChainLoss", "ChainSums", "ChainSystem", "NaturalGradient", "orthonormal_constraint_",
           "supervision_from_alignments", "supervision_from_lattices", "supervision_from_phones"]

give_names(__name__, {}, {
    "LFMMI LFMMILoss LfMmiLoss MmiLoss LFMMIObjective": "from nnet3py.torch import ChainLoss",
    "NGD NaturalGradientAffineTransform natural_gradient": "from nnet3py.torch import NaturalGradient",
    "constrain_orthonormal": "from nnet3py.torch import orthonormal_constraint_",
    "supervision": "supervision_from_alignments, supervision_from_lattices, supervision_from_phones",
    "to_torch": "nnet3py.to_torch(nnet)", "from_torch": "nnet3py.from_torch(module, 'final.mdl')",
    "ExampleDataset DataLoader Dataset ChainDataset": "from nnet3py.torch_data import ExampleDataset",
    "chain_objf ChainObjective": "loss = ChainLoss(den_fst, num_pdfs); loss(output, supervision), then loss.sums"})
