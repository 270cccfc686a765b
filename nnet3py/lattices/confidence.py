"""How sure the best word sequence of a lattice is, by what the second best costs. Kaldi: SentenceLevelConfidence."""
from __future__ import annotations

import numpy as np

from nnet3py.io.compact_lattice import CompactLattice
from nnet3py.lattices.best_path import best_paths, path_of

LARGEST = 1.0e10           # the confidence if there is only one word sequence


def confidence(lattice: CompactLattice) -> float | None:
    """The cost of the second best path of a determinized lattice less that of the best; None if there is no path."""
    costs = [path.cost for path in map(path_of, best_paths(lattice, 2)) if path is not None]
    if not costs:
        return None
    return LARGEST if len(costs) == 1 else float(min(max(costs[1] - costs[0], np.float32(0.0)), np.float32(LARGEST)))
