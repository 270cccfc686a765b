"""Determinization as decoders do it: first on words and phones, then on words. Kaldi: DeterminizeLatticePhonePruned."""
from __future__ import annotations

import dataclasses
import logging

import numpy as np

from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.determinize import Determinized, determinize_pruned
from nnet3py.lattices.determinize_options import DeterminizeOptions, PhoneDeterminizeOptions
from nnet3py.lattices.states import LatticeError, top_sorted, trimmed
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.lattice_conversion import expanded, factored

_log = logging.getLogger(__name__)


def determinize_phone_pruned(model: TransitionModel, lattice: Fst, beam: float,
                             options: PhoneDeterminizeOptions | None = None) -> Determinized:
    """Determinize a lattice as decoders do: first on words and phones, then on words.

    Parameters
    ----------
    model : knows the phones of the lattice's transition-ids
    lattice : state-level, scaled as paths are to be compared
    beam : how much worse than the best a path may be
    options : limits, and which of the steps are done

    Returns
    -------
    The lattice, trimmed, and how far it reaches.

    Raises
    ------
    LatticeError : a lattice with a cycle
    ShapeError : transition-ids that the model does not know

    Kaldi: DeterminizeLatticePhonePrunedWrapper.
    """
    options = options or PhoneDeterminizeOptions()
    limits = DeterminizeOptions(options.delta, options.max_mem)
    lattice = top_sorted(lattice)
    complete, effective_beam = True, beam
    if options.phone_determinize:
        phones = determinize_pruned(with_phones(model, lattice), beam, limits)
        first_phone = _first_phone(lattice)
        lattice = expanded(phones.lattice)
        words = np.where(lattice.output_labels >= first_phone, 0, lattice.output_labels)
        lattice = dataclasses.replace(lattice, output_labels=words.astype(np.int32))
        complete, effective_beam = phones.complete, phones.effective_beam
    if options.word_determinize:
        determinized = determinize_pruned(lattice, beam, limits)
        compact = determinized.lattice
        complete, effective_beam = complete and determinized.complete, min(effective_beam, determinized.effective_beam)
    else:
        if not options.phone_determinize:
            _log.warning("Both --phone-determinize and --word-determinize are set to false, copying lattice without "
                         "determinization.")
        compact = factored(lattice)
    if options.minimize:
        from nnet3py.lattices.minimize import minimized, with_strings_pushed, with_weights_pushed

        compact = minimized(with_weights_pushed(with_strings_pushed(compact)))
    return Determinized(trimmed(compact), complete, effective_beam)


def _first_phone(lattice: Fst) -> int:
    """The label before that of phone 1: phones follow the words."""
    return int(lattice.output_labels.max(initial=0)) + 1


def with_phones(model: TransitionModel, lattice: Fst) -> Fst:
    """The lattice with a label where each phone begins, after the words' labels; topologically sorted.

    It is on the arc with the phone's first transition-id, or, if that has a word, on an arc of its own after it. Arcs
    of the start state get none. ShapeError for transition-ids that the model does not know. Kaldi:
    DeterminizeLatticeInsertPhones.
    """
    ids = lattice.input_labels
    check_transition_ids(model, ids[ids != 0])
    begins = (ids != 0) & (model.transition_id_to_hmm_state[ids] == 0) & ~model.is_self_loop[ids]
    begins &= lattice.sources != lattice.start
    phones = model.transition_id_to_phone[ids]
    if _first_phone(lattice) + int(phones.max(initial=0)) > np.iinfo(np.int32).max:
        raise LatticeError(f"the lattice has word {_first_phone(lattice) - 1}, which leaves no room for phones")
    labels = _first_phone(lattice) + phones
    has_word = lattice.output_labels != 0
    words = np.where(begins & ~has_word, labels, lattice.output_labels)
    split = np.flatnonzero(begins & has_word)
    new_states = lattice.num_states + np.arange(len(split))
    targets = lattice.next_states.astype(np.int64)
    targets[split] = new_states
    none = np.full((len(split), 2), NO_WEIGHT, dtype=np.float32)
    return top_sorted(Fst.from_arcs(
        lattice.start, np.concatenate((lattice.final_weights, none)), np.concatenate((lattice.sources, new_states)),
        np.concatenate((ids, np.zeros(len(split)))), np.concatenate((words, labels[split])),
        np.concatenate((lattice.weights, np.zeros((len(split), 2)))),
        np.concatenate((targets, lattice.next_states[split])), lattice.arc_type))
