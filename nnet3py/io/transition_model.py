"""Transition models: what stands before the network in an acoustic model. Kaldi: ``TransitionModel``."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.io.matrices import read_vector, write_vector
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.io.topology import HmmTopology


class TransitionModel:
    """A topology, the pdfs of its states in context, and transition probabilities.

    Transition-states and transition-ids count from 1; element 0 of the arrays that they index stands for nothing.

    Attributes
    ----------
    topology : HmmTopology
    tuples : int32 (states, 4): phone, HMM state, forward pdf, self-loop pdf of each transition-state
    log_probs : float32 (transition-ids + 1,); element 0 is 0
    transition_id_to_state : int32 (transition-ids + 1,), transition-states; 0 at 0
    transition_id_to_pdf : int32 (transition-ids + 1,), pdf-ids; -1 at 0
    is_self_loop : bool (transition-ids + 1,)
    """

    def __init__(self, topology: HmmTopology, tuples: np.ndarray, log_probs: np.ndarray) -> None:
        """FormatError if the parts do not belong together."""
        self.topology = topology
        self.tuples = np.asarray(tuples, dtype=np.int32)
        self.log_probs = np.asarray(log_probs, dtype=np.float32)
        self._derive()

    @property
    def num_transition_states(self) -> int:
        """Transition-states, which count from 1."""
        return len(self.tuples)

    @property
    def num_transition_ids(self) -> int:
        """Transition-ids, which count from 1."""
        return len(self.transition_id_to_state) - 1

    @property
    def num_pdfs(self) -> int:
        """Pdfs, which count from 0; the output dimension of an acoustic model."""
        return int(self.tuples[:, 2:].max()) + 1

    @property
    def num_phones(self) -> int:
        """The largest phone, as Kaldi has it; not how many there are."""
        return max(self.topology.entry_of_phone)

    @property
    def transition_id_to_phone(self) -> np.ndarray:
        """int32 (transition-ids + 1,); 0 at 0."""
        phones = np.concatenate(([0], self.tuples[:, 0])).astype(np.int32)
        return phones[self.transition_id_to_state]

    def _derive(self) -> None:
        """Number the transitions: by transition-state, then in the order of the topology."""
        entries = self.topology.entries
        first_state = np.cumsum([0, *map(len, entries)])
        transitions = [[destination for destination, _ in state.transitions] for entry in entries for state in entry]
        places = self._places(first_state)
        counts = np.array([len(one) for one in transitions])[places]
        states = np.repeat(np.arange(len(self.tuples)), counts)
        destinations = np.array([d for place in places.tolist() for d in transitions[place]], dtype=np.int64)
        loops = destinations == self.tuples[states, 1]
        pdfs = np.where(loops, self.tuples[states, 3], self.tuples[states, 2])
        self.transition_id_to_state = np.concatenate(([0], states + 1)).astype(np.int32)
        self.transition_id_to_pdf = np.concatenate(([-1], pdfs)).astype(np.int32)
        self.is_self_loop = np.concatenate(([False], loops))
        if len(self.log_probs) != len(self.transition_id_to_pdf):
            raise FormatError(f"expected {len(self.transition_id_to_pdf)} log-probabilities in the transition model, "
                              f"found {len(self.log_probs)}")
        if not (np.isfinite(self.log_probs[1:]).all() and (self.log_probs[1:] <= 0).all()):
            raise FormatError("expected log-probabilities of 0 or less in the transition model")

    def _places(self, first_state: np.ndarray) -> np.ndarray:
        """The state of the topology, counted through all entries, that each tuple is about."""
        if not len(self.tuples):
            raise FormatError("expected a transition model with states, found none")
        if self.tuples.min() < 0:
            raise FormatError(f"expected states of phones and pdfs, found {self.tuples.min()} in the transition model")
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
        """Read from ``<TransitionModel>`` to ``</TransitionModel>``; FormatError for what is no transition model."""
        reader.expect("<TransitionModel>")
        topology = HmmTopology.read(reader)
        token = reader.token()
        if token not in ("<Tuples>", "<Triples>"):
            raise reader.error(f"expected <Tuples> or <Triples>, found '{token[:40]}'")
        width = 4 if token == "<Tuples>" else 3
        count = reader.integer()
        reader.check_count(count, 2 * width, "transition states")
        numbers = reader.integers(count * width).reshape(count, width)
        closing = reader.token()
        if closing not in ("</Tuples>", "</Triples>"):
            raise reader.error(f"expected </{token[1:]}, found '{closing[:40]}'")
        reader.expect("<LogProbs>")
        log_probs = read_vector(reader)
        reader.expect("</LogProbs>")
        reader.expect("</TransitionModel>")
        try:
            return cls(topology, numbers[:, [0, 1, 2, 2]] if width == 3 else numbers, log_probs)
        except FormatError as error:
            raise reader.error(error.message) from error

    def write(self, writer: TokenWriter) -> None:
        """Write it, text or binary."""
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
