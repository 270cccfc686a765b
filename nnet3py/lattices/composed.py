"""What compositions with language models have in common: a lattice made of copies of another's states and arcs."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.lattices.states import trimmed
from nnet3py.transducers.compact_lattice import CompactLattice, taken
from nnet3py.transducers.fst import NO_WEIGHT


class ComposedArcs(NamedTuple):
    """The arcs of a composed lattice, in any order.

    Attributes
    ----------
    sources, targets : int64 (arcs,), composed states
    arcs : int64 (arcs,), the lattice's arc that each is a copy of
    costs : float32 (arcs,), what is added to its graph cost
    """

    sources: np.ndarray
    targets: np.ndarray
    arcs: np.ndarray
    costs: np.ndarray


def composed_lattice(lattice: CompactLattice, states: np.ndarray, end_costs: np.ndarray,
                     arcs: ComposedArcs) -> CompactLattice:
    """The composed lattice, trimmed; it begins with composed state 0.

    Parameters
    ----------
    states : int64 (composed states,), the lattice's state that each is a copy of
    end_costs : float32 (composed states,), what is added to the graph costs of final weights; where it is not finite,
        the state is not final
    """
    weights = lattice.weights[arcs.arcs]
    weights[:, 0] += arcs.costs
    finals = lattice.final_weights[states]
    finals[:, 0] += end_costs
    finals[~np.isfinite(end_costs)] = NO_WEIGHT
    _, ids = taken(lattice.string_starts, lattice.ids, arcs.arcs)
    _, final_ids = taken(lattice.final_string_starts, lattice.final_ids, states)
    return trimmed(CompactLattice.from_arcs(
        0, finals, arcs.sources, lattice.labels[arcs.arcs], weights, lattice.lengths[arcs.arcs], ids, arcs.targets,
        lattice.final_lengths[states], final_ids))
