"""Arcs of lattices as lines with their posterior probabilities. Kaldi: lattice-arc-post's ArcPosteriorComputer."""
from __future__ import annotations

import numpy as np

from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.forward_backward import forward_backward
from nnet3py.lattices.states import LatticeError, from_start, state_times, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice


def arc_lines(key: str, lattice: CompactLattice, model: TransitionModel | None, print_alignment: bool,
              least: float) -> list[str]:
    """A line for each arc with at least the given posterior; LatticeError for a lattice without paths."""
    lattice = from_start(trimmed(lattice))
    if lattice.start < 0:
        raise LatticeError("the lattice is empty")
    times = state_times(lattice)
    posteriors = forward_backward(lattice).posteriors
    sources = lattice.sources
    lines = []
    for arc in np.flatnonzero(posteriors >= least).tolist():
        ids = lattice.string(arc)
        fields = [key, str(times[sources[arc]]), str(len(ids)), f"{posteriors[arc]:.7g}", str(lattice.labels[arc])]
        if print_alignment:
            fields.append(",".join(map(str, ids.tolist())))
        if model is not None:
            check_transition_ids(model, ids)
            begun = ids[(model.transition_id_to_hmm_state[ids] == 0) & ~model.is_self_loop[ids]]
            fields.append(" ".join(map(str, model.transition_id_to_phone[begun].tolist())))
        lines.append("\t".join(fields) + "\n")
    return lines
