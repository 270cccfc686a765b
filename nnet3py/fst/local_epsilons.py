"""Removing epsilons only where that does not enlarge the FST. Kaldi: ``RemoveEpsLocal``.

Two arcs in a row become one if at most one of them has an input label, and at most one an output label: where the state
between them is entered once (then all its exits that can be joined are), or has one exit.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.fst.arcs import changed, taken
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_operations import connected

_remove = Loop("nnet3py.fst.local_epsilons_loops", "remove",
               "i4[] i4[] f4[] i4[] f4[] i8[] i8[] i8[] i8[] i8[] b1 b1")
_collect = Loop("nnet3py.fst.local_epsilons_loops", "collect", "i8[] i8[] i4[] i8[] i8[]")
_NONE = -1


def without_local_epsilons(fst: Fst, use_log: bool = False, stochastic_in_log: bool = True) -> Fst:
    """The FST with arcs joined; it never has more arcs than before.

    Parameters
    ----------
    use_log : final costs that come together are summed as probabilities; otherwise the cheaper one is kept
    stochastic_in_log : where some exits of a state are moved, the remaining costs are shifted so that the sums of
        probabilities leaving states stay the same; otherwise, so that the least costs do
    """
    fst = connected(fst)
    states = np.arange(fst.num_states)
    begins, ends = fst.arc_starts[:-1], fst.arc_starts[1:]
    following = np.arange(1, fst.num_arcs + 1, dtype=np.int64)
    has_arcs = ends > begins
    following[ends[has_arcs] - 1] = _NONE
    first, last = np.where(has_arcs, begins, _NONE), np.where(has_arcs, ends - 1, _NONE)
    entering = np.bincount(fst.next_states, minlength=fst.num_states).astype(np.int64) + (states == fst.start)
    leaving = ends - begins + fst.is_final
    inputs, outputs, weights, targets, finals = (
        values.copy() for values in (fst.input_labels, fst.output_labels, fst.weights, fst.next_states,
                                     fst.final_weights))
    _remove(inputs, outputs, weights, targets, finals, first, last, following, entering, leaving, use_log,
            stochastic_in_log)
    arcs, arc_starts = np.empty(len(targets), dtype=np.int64), np.empty(fst.num_states + 1, dtype=np.int64)
    count = _collect(first, following, targets, arcs, arc_starts)
    joined = changed(fst, input_labels=inputs, output_labels=outputs, weights=weights, next_states=targets,
                     final_weights=finals)
    return connected(taken(joined, arcs[:count], arc_starts))
