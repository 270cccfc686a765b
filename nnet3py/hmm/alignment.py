"""Alignments, vectors of transition-ids, taken apart with a transition model. Kaldi: hmm-utils.h."""
from __future__ import annotations

import re

import numpy as np

from nnet3py.errors import FormatError, ShapeError
from nnet3py.hmm.transition_model import TransitionModel

_SYMBOL = re.compile(r"\s*(\S+)\s+(-?[0-9]{1,18})\s*")


def check_transition_ids(model: TransitionModel, ids: np.ndarray) -> None:
    """ShapeError if one of ``ids`` is not a transition-id of the model."""
    bad = (ids < 1) | (ids > model.num_transition_ids)
    if bad.any():
        raise ShapeError(f"Invalid transition-id {ids[np.argmax(bad)]}; the model has 1 to {model.num_transition_ids}",
                         "are these pdf-ids, or does the alignment belong to another model?")


def phone_starts(model: TransitionModel, ids: np.ndarray, reordered: bool | None = None) -> tuple[np.ndarray, bool]:
    """Where each phone begins: frames, int64 (phones,); and whether every phone is complete.

    A phone ends with a transition into its final state, which in "reordered" alignments stands before the self-loops
    of the last state; ``reordered`` says whether this is one, None that the alignment itself tells. An alignment that
    is cut anywhere still gives phones, and False. ShapeError for numbers that are not transition-ids. Kaldi:
    SplitToPhones.
    """
    check_transition_ids(model, ids)
    if not len(ids):
        return np.zeros(0, dtype=np.int64), True
    states, final, loops = model.transition_id_to_state[ids], model.is_final[ids], model.is_self_loop[ids]
    phones = model.transition_id_to_phone[ids]
    same_phone = phones[1:] == phones[:-1]
    if _is_reordered(states, loops) if reordered is None else reordered:
        # The phone ends after the self-loops that follow its final transition, if there are any.
        last_exit = np.maximum.accumulate(np.where(~loops, np.arange(len(ids)), -1))
        leaving = (last_exit >= 0) & final[last_exit] & (states == states[last_exit])
        ends = leaving[:-1] & ~(loops[1:] & (states[1:] == states[:-1]))
        complete = bool(leaving[-1])
    else:
        ends, complete = final[:-1], bool(final[-1])
    complete = complete and bool(same_phone[~ends].all())
    starts = np.concatenate(([0], np.flatnonzero(ends | ~same_phone) + 1))
    return starts, complete and _begin_at_first_state(model, ids[starts])


def _is_reordered(states: np.ndarray, loops: np.ndarray) -> bool:
    """Whether self-loops come after the transition that leaves their state; False if nothing tells."""
    borders = np.flatnonzero(states[1:] != states[:-1])
    telling = borders[loops[borders] | loops[borders + 1]]
    if len(telling):
        return bool(loops[telling[0]])
    return bool(loops[-1]) and not loops[0]


def _begin_at_first_state(model: TransitionModel, first_ids: np.ndarray) -> bool:
    topology = model.topology
    emitting = np.array([topology.entries[topology.entry_of_phone[phone]][0].forward_pdf_class >= 0
                         for phone in model.transition_id_to_phone[first_ids].tolist()])
    return not np.any(emitting & (model.transition_id_to_hmm_state[first_ids] != 0))


def describe_transitions(model: TransitionModel, phone_names: dict[int, str], counts: np.ndarray | None) -> str:
    """All transitions as a text: each state's phone and pdfs, each transition's probability and target.

    ``counts`` float (pdfs,): how often each pdf occurred, or None. Raises ShapeError for other counts, and for a phone
    without a name. Kaldi: TransitionModel::Print.
    """
    if counts is not None and len(counts) != model.num_pdfs:
        raise ShapeError(f"expected the counts of {model.num_pdfs} pdfs, found {len(counts)}")
    topology, lines = model.topology, []
    with np.errstate(under="ignore"):
        probabilities = np.exp(model.log_probs)
    for number, (phone, hmm_state, forward, loop) in enumerate(model.tuples.tolist(), 1):
        if phone not in phone_names:
            raise ShapeError(f"the symbol table has no name for phone {phone}")
        pdfs = f"pdf = {forward}" if topology.is_hmm else f"forward-pdf = {forward} self-loop-pdf = {loop}"
        lines.append(f"Transition-state {number}: phone = {phone_names[phone]} hmm-state = {hmm_state} {pdfs}\n")
        transitions = topology.entries[topology.entry_of_phone[phone]][hmm_state].transitions
        for index, (target, _) in enumerate(transitions):
            transition = int(model.first_transition_id[number]) + index
            is_loop = target == hmm_state
            count = "" if counts is None else f" count of pdf = {counts[loop if is_loop else forward]:g}"
            where = "[self-loop]" if is_loop else f"[{hmm_state} -> {target}]"
            lines.append(f" Transition-id = {transition} p = {probabilities[transition]:g}{count} {where}\n")
    return "".join(lines)


def read_symbol_table(text: str, path: str = "") -> dict[int, str]:
    """Names by number, of lines ``NAME NUMBER``. FormatError for another line."""
    names: dict[int, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _SYMBOL.fullmatch(line)
        if match is not None:
            names[int(match[2])] = match[1]
        elif line.strip():
            raise FormatError(f"line {number} of a symbol table is not NAME NUMBER: {line[:80]!r}", path=path)
    return names
