"""Rescoring lattices with language models. Kaldi: ComposeCompactLatticeDeterministic and lattice-lmrescore*."""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import Nnet3Error
from nnet3py.fst.const_arpa import ConstArpa
from nnet3py.lattices.composed import ComposedArcs, composed_lattice
from nnet3py.lattices.composition import Composer
from nnet3py.lattices.determinize import determinize
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.lattices.states import LatticeError, top_sorted
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.lattice import expanded

_USES = ["nnet3py.fst.const_arpa_loops"]
_MODEL = "i4[] f4[] i8[]"
_compose = Loop("nnet3py.lattices.lm_loops", "compose",
                f"i8[] i4[] i4[] i8[] {_MODEL} i8 i8 i4[,] i4[] i4[] i4[] i8[] i8[] i8[,] f4[]", _USES)
_rehash = Loop("nnet3py.lattices.lm_loops", "rehash", "i8[] i8 i4[] i4[,] i4[] i8 i4[]", _USES)
_final_costs = Loop("nnet3py.lattices.lm_loops", "final_costs", f"i8[] {_MODEL} i8 i8 i4[,] i4[] f4[]", _USES)
_STATES, _ARCS, _MODEL_STATES = 1, 2, 3        # places of the counts
_FIRST = 1 << 10
_MOST_STATES = 1 << 28


def composed_with_const_arpa(lattice: CompactLattice, model: ConstArpa) -> CompactLattice:
    """The lattice with the model's costs added to its graph costs; trimmed. Paths that the model lacks are left out.

    Kaldi: ComposeCompactLatticeDeterministic with ConstArpaLmDeterministicFst.
    """
    if lattice.start < 0:
        return lattice
    lattice = top_sorted(lattice)
    rooms = _Rooms(lattice, model)
    while _compose(lattice.arc_starts, lattice.labels, lattice.next_states, *model.arrays, model.unk, model.order,
                   rooms.histories, rooms.lengths, rooms.model_table, rooms.table, rooms.keys, rooms.counts,
                   rooms.made, rooms.costs):
        rooms.enlarge(int(np.diff(lattice.arc_starts).max()))
    return rooms.result(lattice, model)


class _Rooms:
    """The arrays of a composition, which grow."""

    def __init__(self, lattice: CompactLattice, model: ConstArpa) -> None:
        self.histories = np.zeros((_FIRST, max(model.order - 1, 1)), dtype=np.int32)
        self.lengths = np.zeros(_FIRST, dtype=np.int32)
        self.keys, self.counts = np.empty(_FIRST, dtype=np.int64), np.array([0, 1, 0, 1], dtype=np.int64)
        self.made, self.costs = np.empty((_FIRST, 3), dtype=np.int64), np.empty(_FIRST, dtype=np.float32)
        start = model.state([model.bos])
        self.histories[0, :len(start)], self.lengths[0] = start, len(start)
        self.keys[0] = lattice.start << 32
        self._fill_tables()

    def _fill_tables(self) -> None:
        self.table = np.full(2 * len(self.keys), -1, dtype=np.int32)
        self.model_table = np.full(2 * len(self.lengths), -1, dtype=np.int32)
        _rehash(self.keys, self.counts[_STATES], self.table, self.histories, self.lengths, self.counts[_MODEL_STATES],
                self.model_table)

    def enlarge(self, most_arcs: int) -> None:
        """Make room for at least the arcs of one more state."""
        states, arcs, model_states = (int(self.counts[place]) + most_arcs + 2
                                      for place in (_STATES, _ARCS, _MODEL_STATES))
        if max(states, arcs, model_states) > _MOST_STATES:
            raise LatticeError(f"a lattice composed with a language model has more than {_MOST_STATES} states",
                               "prune it with lattice-prune, or use lattice-lmrescore-pruned")
        self.keys = _grown(self.keys, states)
        self.made, self.costs = _grown(self.made, arcs), _grown(self.costs, arcs)
        self.histories, self.lengths = _grown(self.histories, model_states), _grown(self.lengths, model_states)
        self._fill_tables()

    def result(self, lattice: CompactLattice, model: ConstArpa) -> CompactLattice:
        """The composed lattice."""
        keys = self.keys[:self.counts[_STATES]]
        made, costs = self.made[:self.counts[_ARCS]], self.costs[:self.counts[_ARCS]]
        size = int(self.counts[_MODEL_STATES])
        ends = np.empty(size, dtype=np.float32)
        unigrams, pool, scores, overflow = model.arrays
        _final_costs(unigrams, pool, scores, overflow, model.unk, model.eos, self.histories, self.lengths, ends)
        return composed_lattice(lattice, keys >> 32, ends[keys & 0xFFFFFFFF],
                                ComposedArcs(made[:, 0], made[:, 2], made[:, 1], costs))


def _grown(array: np.ndarray, needed: int) -> np.ndarray:
    """An array whose number of rows is a power of two, at least ``needed``, beginning with those of this one."""
    size = max(len(array), 1 << max(needed - 1, 1).bit_length())
    larger = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    larger[:len(array)] = array
    return larger


def rescored_with_const_arpa(lattice: CompactLattice, model: ConstArpa, scale: float) -> CompactLattice:
    """A lattice with the costs of a const-ARPA model added. Kaldi: lattice-lmrescore-const-arpa.

    Parameters
    ----------
    lattice : compact
    model : read by ``nnet3py.fst.const_arpa.ConstArpa.read``
    scale : of its costs; -1 takes them away

    Returns
    -------
    The lattice, determinized; empty if the model has no path of it.
    """
    if scale == 0.0:
        return lattice
    graph = scaled(lattice, Scales(1.0 / scale))
    composed = top_sorted(composed_with_const_arpa(graph, model))
    return scaled(determinize(expanded(composed)), Scales(scale))


def rescored_with_fst(lattice: CompactLattice, model: Composer, scale: float) -> CompactLattice:
    """A lattice with the costs of the best paths of a language model, an FST, added. Kaldi: lattice-lmrescore.

    Parameters
    ----------
    lattice : compact
    model : made of the FST, an acceptor of words; its back-off arcs are epsilons, which may be taken although the word
        has an arc of its own
    scale : of its costs; -1 takes them away

    Returns
    -------
    The lattice, determinized; empty if the model has no path of it.
    """
    if scale == 0.0:
        return lattice
    composed = model.compose(scaled(lattice, Scales(1.0 / scale)))
    return scaled(determinize(expanded(composed)), Scales(scale))


def as_acceptor_of_words(fst: Fst) -> Fst:
    """A language model as an acceptor of its output labels; Nnet3Error for one with other weights."""
    if fst.weights.ndim != 1:
        raise Nnet3Error("expected a language model whose arcs have one cost, found a lattice")
    return dataclasses.replace(fst, input_labels=fst.output_labels, stored=None)
