"""Confidence of a lattice's best word sequence, from the cost of the second best. Kaldi: SentenceLevelConfidence."""
from __future__ import annotations

import numpy as np

from nnet3py.lattices.best_path import best_paths, path_of
from nnet3py.lattices.determinize import determinize_pruned
from nnet3py.lattices.determinize_options import DeterminizeOptions
from nnet3py.lattices.states import top_sorted, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst

LARGEST = 1.0e10           # the confidence if there is only one word sequence


def confidence(lattice: CompactLattice) -> float | None:
    """How sure the best word sequence is. Kaldi: SentenceLevelConfidence.

    Parameters
    ----------
    lattice : determinized: its paths have different words

    Returns
    -------
    The cost of the second best path minus that of the best; 1e10 if there is only one; None if there is none.
    """
    costs = [path.cost for path in map(path_of, best_paths(lattice, 2)) if path is not None]
    if not costs:
        return None
    return LARGEST if len(costs) == 1 else float(min(max(costs[1] - costs[0], np.float32(0.0)), np.float32(LARGEST)))


def determinized_for_confidence(lattice: Fst) -> CompactLattice:
    """A lattice determinized just far enough to contain its two best word sequences: it may have few arcs."""
    lattice = top_sorted(trimmed(lattice))
    longest = np.zeros(lattice.num_states, dtype=np.int64)         # words on the way to each state
    sources, has_word = lattice.sources, lattice.output_labels != 0
    for arc in range(lattice.num_arcs):
        target = lattice.next_states[arc]
        longest[target] = max(longest[target], longest[sources[arc]] + has_word[arc])
    options = DeterminizeOptions(max_arcs=3 * int(longest.max(initial=0)) + 4, retry_cutoff=0.0)
    return trimmed(determinize_pruned(lattice, np.inf, options).lattice)
