"""Transition models, which come before the network in the file of an acoustic model. Kaldi: ``TransitionModel``."""
from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from nnet3py.advice import AdvisingType, elsewhere
from nnet3py.cached_property import cached_property
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.formats.matrices import read_vector, write_vector
from nnet3py.hmm.topology import HmmTopology
from nnet3py.io.object_files import read_object
from nnet3py.io.tokens import TokenReader, TokenWriter

logger = logging.getLogger(__name__)

_LEAST_PROBABILITY = np.float32(1e-10)     # of leaving a state whose self-loop has probability 1


class TransitionModel(metaclass=AdvisingType):
    """A topology, the pdfs of its states in context, and transition probabilities.

    Transition-states and transition-ids count from 1; element 0 of the arrays that they index is unused.

    Attributes
    ----------
    topology : HmmTopology
    tuples : int32 (states, 4): phone, HMM state, forward pdf, self-loop pdf of each transition-state
    log_probs : float32 (transition-ids + 1,); element 0 is 0
    transition_id_to_state : int32 (transition-ids + 1,), transition-states; 0 at 0
    transition_id_to_pdf : int32 (transition-ids + 1,), pdf-ids; -1 at 0
    is_self_loop : bool (transition-ids + 1,)
    is_final : bool (transition-ids + 1,), whether the transition leads to the final state of the phone's HMM
    first_transition_id : int32 (states + 2,), first id of each transition-state; one more than the last id at states +
        1
    """

    _FROM_FILE: ClassVar[str] = "nnet3py.read_transition_model('final.mdl') reads a file"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{"load from_file": _FROM_FILE})

    def __init__(self, topology: HmmTopology, tuples: np.ndarray, log_probs: np.ndarray) -> None:
        """Number the transitions; FormatError for tuples or probabilities that do not fit the topology.

        The arguments are the attributes of the same names.
        """
        self.topology = topology
        self.tuples = np.asarray(tuples, dtype=np.int32)
        self.log_probs = np.asarray(log_probs, dtype=np.float32)
        self._derive()

    def __repr__(self) -> str:
        return (f"<TransitionModel: {len(self.topology.entry_of_phone)} phones, {self.num_pdfs} pdfs, "
                f"{self.num_transition_ids} transition-ids>")

    def __eq__(self, other: object) -> bool:
        """Return whether two models have the same topology, transition-states and probabilities."""
        if not isinstance(other, TransitionModel):
            return NotImplemented
        return self is other or (self.topology == other.topology and np.array_equal(self.tuples, other.tuples)
                                 and np.array_equal(self.log_probs, other.log_probs))

    __hash__ = object.__hash__          # of the object: probabilities change

    @property
    def num_transition_states(self) -> int:
        """The number of transition-states, which count from 1."""
        return len(self.tuples)

    @property
    def num_transition_ids(self) -> int:
        """The number of transition-ids, which count from 1."""
        return len(self.transition_id_to_state) - 1

    @property
    def num_pdfs(self) -> int:
        """The number of pdfs, which count from 0; the output dimension of an acoustic model."""
        return int(self.tuples[:, 2:].max()) + 1

    @property
    def num_phones(self) -> int:
        """The number of the last phone."""
        return max(self.topology.entry_of_phone)

    @property
    def transition_id_to_phone(self) -> np.ndarray:
        """The phone of each transition-id, int32 (transition-ids + 1,); 0 at 0."""
        return self._of_state(self.tuples[:, 0], 0)

    @property
    def transition_id_to_hmm_state(self) -> np.ndarray:
        """The HMM state of each transition-id, int32 (transition-ids + 1,); -1 at 0."""
        return self._of_state(self.tuples[:, 1], -1)

    @property
    def transition_id_to_index(self) -> np.ndarray:
        """The index of each transition among those of its transition-state, int32 (transition-ids + 1,); 0 at 0."""
        index = np.arange(self.num_transition_ids + 1) - self.first_transition_id[self.transition_id_to_state]
        index[0] = 0
        return index.astype(np.int32)

    @cached_property
    def transition_id_to_pdf_class(self) -> np.ndarray:
        """The pdf class of each transition-id, int32 (transition-ids + 1,); -1 at 0."""
        states = [self.topology.entries[self.topology.entry_of_phone[phone]][state]
                  for phone, state in self.tuples[:, :2].tolist()]
        forward = self._of_state(np.array([state.forward_pdf_class for state in states]), -1)
        loops = self._of_state(np.array([state.self_loop_pdf_class for state in states]), -1)
        return np.where(self.is_self_loop, loops, forward)

    @cached_property
    def self_loop_of(self) -> np.ndarray:
        """The transition-id of each transition-state's self-loop, int32 (states + 1,); 0 for none."""
        ids = np.zeros(self.num_transition_states + 1, dtype=np.int32)
        loops = np.flatnonzero(self.is_self_loop)
        ids[self.transition_id_to_state[loops]] = loops
        return ids

    @cached_property
    def non_self_loop_log_probs(self) -> np.ndarray:
        """The log-probability of leaving each transition-state, float32 (states + 1,); 0 without self-loop."""
        with np.errstate(under="ignore"):
            leaving = 1.0 - np.exp(self.log_probs[self.self_loop_of]).astype(np.float64)
        leaving = np.where(self.self_loop_of > 0, leaving, 1.0).astype(np.float32)
        never = np.flatnonzero(leaving <= 0.0)
        if len(never):
            logger.warning("A self-loop of probability 1 was found, in %d transition-states, first in %d",
                           len(never), never[0])
        return np.log(np.maximum(leaving, _LEAST_PROBABILITY))

    def set_log_probs(self, log_probs: np.ndarray) -> None:
        """Replace the log-probabilities, float32 (transition-ids + 1,), in place; FormatError for invalid ones."""
        if log_probs.shape != self.log_probs.shape:
            raise FormatError(f"expected {len(self.log_probs)} log-probabilities of transitions, found "
                              f"{len(log_probs)}")
        _check_log_probs(log_probs)
        self.log_probs = np.asarray(log_probs, dtype=np.float32)
        self.__dict__.pop("non_self_loop_log_probs", None)     # was derived from the old ones

    def num_transition_indices(self, transition_state: int) -> int:
        """Return how many transitions leave a transition-state. Kaldi: NumTransitionIndices."""
        self._check_state(transition_state)
        return int(self.first_transition_id[transition_state + 1] - self.first_transition_id[transition_state])

    def transition_id(self, transition_state: int, index: int) -> int:
        """Return the id of a transition-state's transition ``index``, from 0. Kaldi: PairToTransitionId.

        Nnet3Error for a transition that does not exist.
        """
        if not 0 <= index < self.num_transition_indices(transition_state):
            raise Nnet3Error(f"transition-state {transition_state} has no transition {index}; it has "
                             f"{self.num_transition_indices(transition_state)}, counted from 0")
        return int(self.first_transition_id[transition_state]) + index

    def transition_state(self, phone: int, hmm_state: int, forward_pdf: int, self_loop_pdf: int | None = None) -> int:
        """Return the transition-state of a phone, HMM state and pdfs. Kaldi: TupleToTransitionState.

        ``self_loop_pdf`` None: the same as ``forward_pdf``. Nnet3Error if there is no such transition-state.
        """
        wanted = phone, hmm_state, forward_pdf, forward_pdf if self_loop_pdf is None else self_loop_pdf
        state = self._state_of_tuple.get(wanted)
        if state is None:
            raise Nnet3Error(f"the transition model has no state for (phone, HMM state, forward pdf, self-loop pdf) "
                             f"{wanted}", "was the alignment or the tree made for another model?")
        return state

    @cached_property
    def _state_of_tuple(self) -> dict[tuple[int, ...], int]:
        return {tuple(values): state + 1 for state, values in enumerate(self.tuples.tolist())}

    def _check_state(self, transition_state: int) -> None:
        if not 0 < transition_state <= self.num_transition_states:
            raise Nnet3Error(f"there is no transition-state {transition_state}; they are 1 to "
                             f"{self.num_transition_states}")

    def _of_state(self, values: np.ndarray, none: int) -> np.ndarray:
        """Return for each transition-id the value of its transition-state, int32 (transition-ids + 1,); ``none`` at 0.
        """
        return np.concatenate(([none], values)).astype(np.int32)[self.transition_id_to_state]

    def _derive(self) -> None:
        """Compute the arrays indexed by transition-id; ids are ordered by transition-state, then as in the topology."""
        entries = self.topology.entries
        first_state = np.cumsum([0, *map(len, entries)])
        transitions = [[destination for destination, _ in state.transitions] for entry in entries for state in entry]
        places = self._places(first_state)
        counts = np.array([len(of_state) for of_state in transitions])[places]
        states = np.repeat(np.arange(len(self.tuples)), counts)
        destinations = np.array([d for place in places.tolist() for d in transitions[place]], dtype=np.int64)
        loops = destinations == self.tuples[states, 1]
        pdfs = np.where(loops, self.tuples[states, 3], self.tuples[states, 2])
        self.transition_id_to_state = np.concatenate(([0], states + 1)).astype(np.int32)
        self.transition_id_to_pdf = np.concatenate(([-1], pdfs)).astype(np.int32)
        self.is_self_loop = np.concatenate(([False], loops))
        sizes = {phone: len(entries[entry]) for phone, entry in self.topology.entry_of_phone.items()}
        final_states = np.array([sizes[phone] - 1 for phone in self.tuples[:, 0].tolist()])
        self.is_final = np.concatenate(([False], destinations == final_states[states]))
        self.first_transition_id = np.cumsum([0, 1, *counts]).astype(np.int32)
        if len(self.log_probs) != len(self.transition_id_to_pdf):
            raise FormatError(f"expected {len(self.transition_id_to_pdf)} log-probabilities in the transition model, "
                              f"found {len(self.log_probs)}")
        _check_log_probs(self.log_probs)

    def _places(self, first_state: np.ndarray) -> np.ndarray:
        """Return the number of each tuple's HMM state, counted through all entries of the topology.

        ``first_state`` is the number of each entry's first state.
        """
        if not len(self.tuples):
            raise FormatError("expected a transition model with states, found none")
        if self.tuples.min() < 0:
            raise FormatError("expected phones, HMM states and pdfs of 0 or more in the transition model, found "
                              f"{self.tuples.min()}")
        phones, phone_of = np.unique(self.tuples[:, 0], return_inverse=True)
        entry_of_phone = [self.topology.entry_of_phone.get(phone, -1) for phone in phones.tolist()]
        if -1 in entry_of_phone:
            raise FormatError(f"phone {phones[entry_of_phone.index(-1)]} is not in the topology")
        entry_of = np.array(entry_of_phone)[phone_of]
        last_state = np.diff(first_state)[entry_of] - 1
        if (self.tuples[:, 1] >= last_state).any():
            raise FormatError("the transition model has a state that is not in the topology")
        return first_state[entry_of] + self.tuples[:, 1]

    # -- files -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader: TokenReader) -> TransitionModel:
        """Read from ``<TransitionModel>`` to ``</TransitionModel>``; FormatError for other contents."""
        if isinstance(reader, str | os.PathLike):
            raise UsageError("TransitionModel.read takes an open file",
                             "nnet3py.read_transition_model('final.mdl') reads one by its name")
        reader.expect("<TransitionModel>")
        topology = HmmTopology.read(reader)
        token = reader.token()
        reader.check_token(token, "<Tuples>", "<Triples>")
        width = 4 if token == "<Tuples>" else 3
        count = reader.integer()
        reader.check_count(count, 2 * width, "transition states")
        numbers = reader.integers(count * width).reshape(count, width)
        closing = reader.token()
        if closing not in ("</Tuples>", "</Triples>"):
            raise reader.unexpected(closing, f"</{token[1:]}")
        log_probs = reader.tagged("<LogProbs>", read_vector)
        reader.expect("</LogProbs>")
        reader.expect("</TransitionModel>")
        try:
            return cls(topology, numbers[:, [0, 1, 2, 2]] if width == 3 else numbers, log_probs)
        except FormatError as error:
            raise reader.error(error.message) from error

    def write(self, writer: TokenWriter) -> None:
        """Write the model, text or binary."""
        writer.token("<TransitionModel>")
        writer.newline_if_text()
        self.topology.write(writer)
        name, width = ("Triples>", 3) if self.topology.is_hmm else ("Tuples>", 4)
        writer.token("<" + name)
        writer.integer(len(self.tuples))
        writer.newline_if_text()
        numbers = self.tuples[:, :width]
        if writer.binary:
            writer.integers(numbers)
        else:
            writer.raw((b"%d " * width + b"\n") * len(numbers) % tuple(numbers.ravel().tolist()))
        writer.token("</" + name)
        writer.newline_if_text()
        writer.token("<LogProbs>")
        writer.newline_if_text()
        write_vector(writer, self.log_probs)
        writer.token("</LogProbs>")
        writer.newline_if_text()
        writer.token("</TransitionModel>")
        writer.newline_if_text()


def read_transition_model(path: str | os.PathLike[str]) -> TransitionModel:
    """Read a transition model, text or binary.

    >>> model = nnet3py.read_transition_model("exp/chain/0.trans_mdl")

    Parameters
    ----------
    path : str, any rxfilename of a file that begins with a transition model, such as an acoustic model

    Returns
    -------
    TransitionModel.

    Raises
    ------
    FormatError : bytes that are not a transition model
    Nnet3Error : a file that cannot be opened
    """
    return read_object(path, TransitionModel.read)


def _check_log_probs(log_probs: np.ndarray) -> None:
    wrong = ~(np.isfinite(log_probs[1:]) & (log_probs[1:] <= 0))
    if wrong.any():
        first = 1 + int(wrong.argmax())
        raise FormatError("expected log-probabilities of 0 or less in the transition model, found "
                          f"{log_probs[first]:g} for transition-id {first}")
