"""Alignments (vectors of transition-ids): split into phones, made from phones with lengths, converted to other models.

Kaldi: ``hmm-utils.h``, convert-ali. Where a phone has several HMM states, Kaldi distributes its frames over them at
random; here they are distributed evenly.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.hmm.topology import NO_PDF, HmmState
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency

_SYMBOL = re.compile(r"\s*(\S+)\s+(-?[0-9]{1,18})\s*")


def check_transition_ids(model: TransitionModel, ids: np.ndarray) -> None:
    """Raise ShapeError if one of ``ids`` is not a transition-id of the model."""
    bad = (ids < 1) | (ids > model.num_transition_ids)
    if bad.any():
        raise ShapeError(f"Invalid transition-id {ids[np.argmax(bad)]}; the model has 1 to {model.num_transition_ids}",
                         "are these pdf-ids, or does the alignment belong to another model?")


def phone_starts(model: TransitionModel, ids: np.ndarray, reordered: bool | None = None) -> tuple[np.ndarray, bool]:
    """Return the first frame of each phone, int64 (phones,), and whether every phone is complete. Kaldi: SplitToPhones.

    ``ids`` is int32 (frames,). A phone ends with a transition into its final state; in ``reordered`` alignments the
    self-loops of its last state follow (None: found out from ``ids``). An alignment with incomplete phones is split as
    well. Raises ShapeError for numbers that are not transition-ids.
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
    """Return whether self-loops come after the transition that leaves their state; False if that cannot be found out.
    """
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
    """Describe all transitions as text: each state's phone and pdfs, each transition's probability and target.

    ``phone_names`` are by number, ``counts`` the occurrences of each pdf, if given. Raises ShapeError for counts of
    another length, or a phone without a name. Kaldi: TransitionModel::Print.
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
    """Parse lines ``NAME NUMBER``; return a dict from number to name. FormatError for another line."""
    names: dict[int, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _SYMBOL.fullmatch(line)
        if match is not None:
            names[int(match[2])] = match[1]
        elif line.strip():
            raise FormatError(f"line {number} of a symbol table is not NAME NUMBER: {line[:80]!r}", path=path)
    return names


NO_PHONE = 0     # in a window of phones, beyond the utterance


@dataclass(frozen=True)
class _States:
    """Transition-ids of the HMM states that a phone in context passes; ``loops`` is 0 for a state without self-loop."""

    leaving: np.ndarray
    loops: np.ndarray


class PhoneAligner:
    """Alignments of a model, made from phones with lengths.

    With ``reorder`` a state's self-loops come after the transition that leaves it, as usual in Kaldi.
    """

    def __init__(self, model: TransitionModel, tree: ContextDependency, reorder: bool = True) -> None:
        self.model, self.tree, self.reorder = model, tree, reorder
        self._states: dict[tuple[tuple[int, ...], tuple[tuple[int, int], ...]], _States] = {}

    def align(self, phones: Sequence[int], lengths: Sequence[int]) -> np.ndarray:
        """Return the transition-ids, int32 (frames,), of phones with lengths in frames.

        Nnet3Error for a phone that the model does not have, or a length that its HMM cannot have.
        """
        if len(phones) != len(lengths):
            raise Nnet3Error(f"expected a length for each of {len(phones)} phones, found {len(lengths)}")
        ids, counts = [], []
        for window, phone, length in zip(self._windows(phones), phones, lengths, strict=True):
            states = self._states_of(window, self._path(int(phone), int(length)))
            durations = _spread(int(length), states.loops > 0)
            pair = np.stack([states.leaving, states.loops], axis=1)
            repeats = np.stack([np.ones_like(durations), durations - 1], axis=1)
            if not self.reorder:
                pair, repeats = pair[:, ::-1], repeats[:, ::-1]
            ids.append(pair.ravel())
            counts.append(repeats.ravel())
        if not ids:
            return np.zeros(0, dtype=np.int32)
        return np.repeat(np.concatenate(ids), np.concatenate(counts)).astype(np.int32)

    def min_length(self, phone: int) -> int:
        """Return the least number of frames that a phone can have. Kaldi: MinLength."""
        return len(self._shortest[self._entry_number(phone)])

    # -- converting ------------------------------------------------------------------------------------------------

    def convert(self, old_model: TransitionModel, ids: np.ndarray, factor: int = 1, repeat_frames: bool = False,
                phone_map: dict[int, int] | None = None) -> np.ndarray:
        """Convert an alignment of another model, int32; a frame of the result is ``factor`` frames of the old one.

        Phones that would become too short get frames from the nearest phones that are longer than their least length.
        Kaldi: ConvertAlignment. Raises Nnet3Error for phones that remain too short, or an alignment that does not
        consist of whole phones.

        Parameters
        ----------
        old_model : TransitionModel of ``ids``
        ids : int32 (frames,), transition-ids
        factor : int, frames of the old alignment in a frame of the new one
        repeat_frames : bool, return as many frames as before: ``factor`` alignments, each begun one frame later,
            interleaved
        phone_map : dict, new phones by old phones; None: they are the same
        """
        starts, complete = phone_starts(old_model, ids)
        if not complete:
            raise Nnet3Error("the alignment does not consist of whole phones", "was it made with another model?")
        old_phones = old_model.transition_id_to_phone[ids[starts]].tolist()
        if phone_map is not None and set(old_phones) - set(phone_map):
            raise Nnet3Error(f"the map of phones lacks phone {min(set(old_phones) - set(phone_map))}")
        phones = old_phones if phone_map is None else [phone_map[phone] for phone in old_phones]
        lengths = np.diff(starts, append=len(ids))
        if not repeat_frames:
            return self._converted(old_model, ids, phones, lengths, factor, factor - 1)
        # The alignment with the largest shift has the first frame of each group of `factor` frames.
        parts = [self._converted(old_model, ids, phones, lengths, factor, shift) for shift in range(factor - 1, -1, -1)]
        interleaved = np.full((len(parts[0]), factor), -1, dtype=np.int32)
        for column, part in enumerate(parts):
            interleaved[:len(part), column] = part
        return interleaved[interleaved >= 0]

    def _converted(self, old_model: TransitionModel, ids: np.ndarray, phones: list[int], lengths: np.ndarray,
                   factor: int, shift: int) -> np.ndarray:
        if factor == 1:
            kept = self._with_same_states(old_model, ids, phones, lengths)
            return self.align(phones, lengths.tolist()) if kept is None else kept
        ends = (np.concatenate(([0], np.cumsum(lengths))) + shift) // factor
        return self.align(phones, self._lengthened(phones, np.diff(ends).tolist()))

    def _with_same_states(self, old_model: TransitionModel, ids: np.ndarray, phones: list[int],
                          lengths: np.ndarray) -> np.ndarray | None:
        """Return the alignment with the same HMM state in each frame; None if the HMM of a phone is another."""
        topologies = old_model.topology, self.model.topology
        old_phones = old_model.transition_id_to_phone[ids[np.cumsum(lengths) - lengths]].tolist()
        for old, new in set(zip(old_phones, phones, strict=True)):
            if topologies[0].entries[topologies[0].entry_of_phone[old]] != self._entry(new):
                return None
        phone_of_frame = np.repeat(np.arange(len(phones)), lengths)
        states = old_model.transition_id_to_state[ids]
        is_start = np.concatenate(([True], (states[1:] != states[:-1]) | np.diff(phone_of_frame).astype(bool)))
        starts = np.flatnonzero(is_start)
        leaving = np.flatnonzero(~old_model.is_self_loop[ids])
        if len(leaving) != len(starts):     # a transition to the same state that is not its self-loop: an unusual HMM
            return None
        windows, result = self._windows(phones), []
        hmm_states, indexes = old_model.transition_id_to_hmm_state[ids], old_model.transition_id_to_index[ids]
        for start, end, leave in zip(starts, [*starts[1:], len(ids)], leaving, strict=True):
            windows_ = self._states_of(windows[phone_of_frame[start]], ((int(hmm_states[leave]), int(indexes[leave])),))
            run = np.full(end - start, windows_.loops[0], dtype=np.int32)
            run[0 if self.reorder else -1] = windows_.leaving[0]
            result.append(run)
        return np.concatenate(result)

    def _lengthened(self, phones: list[int], lengths: list[int]) -> list[int]:
        """Return lengths of phones that are long enough for their HMMs, the sum unchanged.

        Frames are moved from the nearest phones that are longer than their least length.
        """
        least = [self.min_length(phone) for phone in phones]
        lengths = list(lengths)
        while any(length < needed for length, needed in zip(lengths, least, strict=True)):
            for number, needed in enumerate(least):
                if lengths[number] < needed:
                    longer = _nearest_longer_phone(number, lengths, least)
                    if longer is None:
                        raise Nnet3Error(f"{sum(lengths)} frames are too few for {len(phones)} phones")
                    lengths[number] += 1
                    lengths[longer] -= 1
        return lengths

    # -- the HMMs --------------------------------------------------------------------------------------------------

    def _windows(self, phones: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the window of phones around each phone, as the tree needs it."""
        width, position = self.tree.context_width, self.tree.central_position
        padded = [NO_PHONE] * position + [int(phone) for phone in phones] + [NO_PHONE] * (width - 1 - position)
        return [tuple(padded[number:number + width]) for number in range(len(phones))]

    def _entry_number(self, phone: int) -> int:
        number = self.model.topology.entry_of_phone.get(phone)
        if number is None:
            raise Nnet3Error(f"the model has no phone {phone}", "are the numbers those of its phones.txt?")
        return number

    def _entry(self, phone: int) -> list[HmmState]:
        return self.model.topology.entries[self._entry_number(phone)]

    def _path(self, phone: int, length: int) -> tuple[tuple[int, int], ...]:
        """Return the emitting states of a phone of ``length`` frames, as (state, index of the transition out of it)."""
        entry = self._entry_number(phone)
        usual, shortest = self._usual[entry], self._shortest[entry]
        path = usual if len(usual) <= length else shortest
        states = self.model.topology.entries[entry]
        can_wait = any(target == state for state, _ in path for target, _ in states[state].transitions)
        if len(path) > length or (len(path) < length and not can_wait):
            raise Nnet3Error(f"phone {phone} cannot have {length} frames: its HMM needs {len(path)}"
                             f"{' or more' if can_wait else ''}")
        return path

    @cached_property
    def _usual(self) -> list[tuple[tuple[int, int], ...]]:
        return [_usual_path(entry) for entry in self.model.topology.entries]

    @cached_property
    def _shortest(self) -> list[tuple[tuple[int, int], ...]]:
        return [_shortest_path(entry) for entry in self.model.topology.entries]

    def _states_of(self, window: tuple[int, ...], path: tuple[tuple[int, int], ...]) -> _States:
        states_before = self._states.get((window, path))
        if states_before is None:
            phone = window[self.tree.central_position]
            entry = self._entry(phone)
            numbers = []
            for state, _ in path:
                forward, loop = (self.tree.pdf(window, pdf_class) for pdf_class in
                                 (entry[state].forward_pdf_class, entry[state].self_loop_pdf_class))
                numbers.append(self.model.transition_state(phone, state, forward, loop))
            leaving = self.model.first_transition_id[numbers] + np.array([index for _, index in path], dtype=np.int32)
            states_before = _States(leaving, self.model.self_loop_of[numbers])
            self._states[window, path] = states_before
        return states_before


def phones_of_frames(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the phones and their lengths, int64, from one phone per frame; a run of equal phones is one phone."""
    frames = np.asarray(frames)
    starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(frames)), dtype=bool), frames[1:] != frames[:-1])))
    return frames[starts], np.diff(starts, append=len(frames))


def _spread(length: int, can_wait: np.ndarray) -> np.ndarray:
    """Distribute frames evenly over states, more to the first; a state that cannot wait (no self-loop) gets 1."""
    durations = np.ones(len(can_wait), dtype=np.int64)
    waiting = np.flatnonzero(can_wait)
    if len(waiting):
        each, more = divmod(length - len(durations), len(waiting))
        durations[waiting] += each
        durations[waiting[:more]] += 1
    return durations


def _nearest_longer_phone(number: int, lengths: list[int], least: list[int]) -> int | None:
    """Return the phone nearest to phone ``number``, in frames, that is longer than its least length; the left of two.
    """
    best: tuple[int, int] | None = None
    for others in (range(number - 1, -1, -1), range(number + 1, len(lengths))):
        distance = 0
        for other in others:
            if lengths[other] > least[other]:
                if best is None or distance < best[0]:
                    best = distance, other
                break
            distance += lengths[other]
    return None if best is None else best[1]


def _usual_path(entry: list[HmmState]) -> tuple[tuple[int, int], ...]:
    """Return the emitting states on the path of the likeliest transitions, as (state, index of transition).

    A transition to a state that was passed already is not followed.
    """
    state, path, seen = 0, [], {0}
    while state != len(entry) - 1:
        ways = [(-probability, index, target) for index, (target, probability) in enumerate(entry[state].transitions)
                if target not in seen]
        if not ways:
            return _shortest_path(entry)
        _, index, target = min(ways)
        path.append((state, index))
        seen.add(target)
        state = target
    return tuple(step for step in path if entry[step[0]].forward_pdf_class != NO_PDF)


def _shortest_path(entry: list[HmmState]) -> tuple[tuple[int, int], ...]:
    """Return the path with the fewest emitting states, as (state, index of transition)."""
    best: dict[int, tuple[tuple[int, int], ...]] = {0: ()}
    changed = True
    while changed:
        changed = False
        for state in sorted(best):
            steps = best[state]
            for index, (target, _) in enumerate(entry[state].transitions):
                longer = (*steps, (state, index)) if entry[state].forward_pdf_class != NO_PDF else steps
                if target not in best or len(longer) < len(best[target]):
                    best[target] = longer
                    changed = True
    if len(entry) - 1 not in best:
        raise Nnet3Error("an HMM of the topology cannot be left: no path leads to its final state")
    return best[len(entry) - 1]
