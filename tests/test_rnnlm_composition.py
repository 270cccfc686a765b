"""Whole lattices composed: each path costs what its words cost; Kaldi's lattices."""
from __future__ import annotations

import numpy as np
import pytest
from lattice_cases import random_lattice, ways
from rnnlm_cases import NAMES, rnnlm, rnnlm_lattices

from nnet3py.errors import Nnet3Error
from nnet3py.lattices.states import LatticeError
from nnet3py.rnnlm import composition
from nnet3py.rnnlm.composition import composed_with_rnnlm
from nnet3py.rnnlm.sentences import sentence_log_probs
from nnet3py.transducers.compact_lattice import CompactLattice

COST = 1.0e-4


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NAMES)
def test_paths_cost_what_their_words_cost(name: str, seed: int) -> None:
    lattice = random_lattice(seed, num_states=7, num_words=14)
    before = ways(lattice)
    costs = -np.array([each.sum() for each in sentence_log_probs(rnnlm(name), [way.words for way in before])])
    expected = sorted((way.words, way.ids, round(way.graph + cost, 2), way.acoustic)
                      for way, cost in zip(before, costs, strict=True))
    after = sorted((way.words, way.ids, round(way.graph, 2), way.acoustic)
                   for way in ways(composed_with_rnnlm(lattice, rnnlm(name), 0)))
    assert [(words, ids) for words, ids, *_ in after] == [(words, ids) for words, ids, *_ in expected]
    np.testing.assert_allclose([row[2:] for row in after], [row[2:] for row in expected], atol=0.011)


def test_cut_histories_make_fewer_states() -> None:
    lattice = rnnlm_lattices("decoded")["en-029-belinda-03"]
    whole, cut = (composed_with_rnnlm(lattice, rnnlm("lstm"), order) for order in (0, 2))
    assert cut.num_states < whole.num_states and len(ways(cut)) == len(ways(whole)) == len(ways(lattice))


def test_lattices_that_cannot_be_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert composed_with_rnnlm(CompactLattice.empty(), rnnlm("lstm"), 3).start == -1
    lattice = random_lattice(1, num_words=14)
    wrong = CompactLattice.from_arcs(0, [[np.inf] * 2, [0, 0]], [0], [18], [[0, 0]], [1], [1], [1])
    with pytest.raises(Nnet3Error, match="no word 18"):
        composed_with_rnnlm(wrong, rnnlm("lstm"), 3)
    cyclic = CompactLattice.from_arcs(0, [[np.inf] * 2, [0, 0]], [0, 1], [1, 2], [[0, 0]] * 2, [1, 1], [1, 1], [1, 0])
    with pytest.raises(LatticeError, match="cycl"):
        composed_with_rnnlm(cyclic, rnnlm("lstm"), 3)
    monkeypatch.setattr(composition, "_MOST_ARCS", 10)
    with pytest.raises(LatticeError, match="more than 10 arcs"):
        composed_with_rnnlm(lattice, rnnlm("lstm"), 0)
