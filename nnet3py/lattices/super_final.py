"""A single final state for a lattice. Kaldi: CreateSuperFinal."""
from __future__ import annotations

import numpy as np

from nnet3py.lattices.states import infinite_weights
from nnet3py.transducers.compact_lattice import CompactLattice, taken


def with_super_final(lattice: CompactLattice) -> tuple[CompactLattice, int]:
    """The lattice with one final state, without arcs and with weight 0, and the number of that state.

    It is a new one, to which arcs without a word lead from those that were final, unless there is such a state
    already. -1 for a lattice without final states.
    """
    final = np.flatnonzero(lattice.is_final)
    if not len(final):
        return lattice, -1
    if len(final) == 1:
        state = int(final[0])
        if (lattice.arc_starts[state] == lattice.arc_starts[state + 1] and not lattice.final_lengths[state]
                and not lattice.final_weights[state].any()):
            return lattice, state
    size = lattice.num_states
    weights = infinite_weights(size + 1)
    weights[-1] = 0.0
    _, final_ids = taken(lattice.final_string_starts, lattice.final_ids, final)
    return CompactLattice.from_arcs(
        lattice.start, weights, np.concatenate((lattice.sources, final)),
        np.concatenate((lattice.labels, np.zeros(len(final), dtype=np.int32))),
        np.concatenate((lattice.weights, lattice.final_weights[final])),
        np.concatenate((lattice.lengths, lattice.final_lengths[final])), np.concatenate((lattice.ids, final_ids)),
        np.concatenate((lattice.next_states, np.full(len(final), size, dtype=np.int32)))), size
