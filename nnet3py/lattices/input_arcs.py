"""A lattice and a transition model as plain Python values, for going through them arc by arc."""
from __future__ import annotations

from typing import NamedTuple

from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.aligned_output import Ids, Weight
from nnet3py.lattices.states import top_sorted
from nnet3py.lattices.super_final import with_super_final
from nnet3py.transducers.compact_lattice import CompactLattice


class Transitions(NamedTuple):
    """Properties of each transition-id, indexed by it."""

    phones: list[int]
    is_final: list[bool]
    is_self_loop: list[bool]

    @classmethod
    def of(cls, model: TransitionModel) -> Transitions:
        """Those of a transition model."""
        return cls(model.transition_id_to_phone.tolist(), model.is_final.tolist(), model.is_self_loop.tolist())

    def phone_end(self, ids: Ids, begin: int, reorder: bool) -> tuple[int, bool]:
        """Where the phone that begins at ``begin`` ends, 0 if that cannot be seen yet; and whether it is broken.

        It ends after a transition into its final state, and if ``reorder`` after the self-loops that follow; a later id
        shows that there are no more of them. A phone is broken if another begins before that.
        """
        phone, broken, end = self.phones[ids[begin]], False, begin
        while end < len(ids):
            broken = broken or self.phones[ids[end]] != phone
            end += 1
            if self.is_final[ids[end - 1]]:
                break
        else:
            return 0, broken
        while reorder and end < len(ids) and self.is_self_loop[ids[end]]:
            end += 1
        return (end if end < len(ids) else 0), broken

    def reaches_end(self, ids: Ids, reorder: bool) -> bool:
        """Whether the last phone of ``ids`` is complete."""
        last = len(ids) - 1
        while reorder and last > 0 and self.is_self_loop[ids[last]]:
            last -= 1
        return self.is_final[ids[last]]


class InputArcs(NamedTuple):
    """A lattice with one final state: the arcs of each state, as (word, transition-ids, weight, next state)."""

    start: int
    arcs: list[list[tuple[int, Ids, Weight, int]]]
    final: int

    @classmethod
    def of(cls, lattice: CompactLattice, model: TransitionModel) -> InputArcs:
        """Those of a lattice without cycles; ShapeError for a transition-id that the model does not have."""
        for ids in (lattice.ids, lattice.final_ids):
            check_transition_ids(model, ids)
        lattice, final = with_super_final(top_sorted(lattice))
        strings, bounds = lattice.ids.tolist(), lattice.string_starts.tolist()
        labels, targets = lattice.labels.tolist(), lattice.next_states.tolist()
        rows: list[tuple[int, Ids, Weight, int]] = []
        for arc, (graph, acoustic) in enumerate(lattice.weights):
            rows.append((labels[arc], tuple(strings[bounds[arc]:bounds[arc + 1]]), (graph, acoustic, ()), targets[arc]))
        starts = lattice.arc_starts.tolist()
        return cls(lattice.start, [rows[first:end] for first, end in zip(starts, starts[1:], strict=False)], final)
