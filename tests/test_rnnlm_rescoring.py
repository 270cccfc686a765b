"""Lattices rescored: Kaldi's costs of word sequences."""
from __future__ import annotations

import pytest
from lattice_cases import LATTICE_DATA, check_same_words
from rnnlm_cases import rnnlm, rnnlm_lattices

from nnet3py.lattices.pruned_composition import ConstArpaLm, DeterministicLm, FstLm, PrunedCompositionOptions
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.rnnlm.rescoring import rescored_with_rnnlm, rescored_within_beam

COST = 2.0e-3             # Kaldi's costs are sums of floats
INSIDE = 0.9              # of the beam: what is near its border depends on rounding


@pytest.mark.parametrize(("name", "source", "result", "scale", "order"), [
    ("lstm", "no-lm", "rescore-lstm", 1.0, 3), ("tdnn", "decoded", "rescore-tdnn-order4", 0.6, 4)])
def test_all_paths(name: str, source: str, result: str, scale: float, order: int) -> None:
    expected, network = rnnlm_lattices(result), rnnlm(name, normalize=source == "no-lm")
    for key, lattice in rnnlm_lattices(source).items():
        check_same_words(rescored_with_rnnlm(lattice, network, scale, order), expected[key], COST, 4.0)
        assert rescored_with_rnnlm(lattice, network, 0.0, order) is lattice


@pytest.mark.parametrize(("name", "old", "result", "acoustic", "scale", "order", "beam"), [
    ("lstm", FstLm.read(str(LATTICE_DATA / "graph-grammar" / "G.fst")), "pruned-lstm", 1.0, 0.5, 3, 6.0),
    ("tdnn", ConstArpaLm.read(str(LATTICE_DATA / "const-arpa" / "G.carpa")), "pruned-tdnn-const-arpa", 0.5, 0.8, 4,
     4.0)])
def test_paths_within_a_beam(name: str, old: DeterministicLm, result: str, acoustic: float, scale: float, order: int,
                             beam: float) -> None:
    expected, network = rnnlm_lattices(result), rnnlm(name, normalize=name == "lstm")
    scales = Scales(1.0, acoustic)
    for key, lattice in rnnlm_lattices("decoded").items():
        found = rescored_within_beam(scaled(lattice, scales), old, network, scale, order,
                                     PrunedCompositionOptions(beam=beam))
        check_same_words(found, scaled(expected[key], scales), COST, INSIDE * beam)
