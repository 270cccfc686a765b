"""HMM topologies: the states of each phone's HMM and their transitions; the usual topologies made from lists of phones.

Kaldi: ``HmmTopology``, the scripts gen_topo.pl, and that of chain models.
"""
from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3py.errors import FormatError, UsageError
from nnet3py.io.tokens import TokenReader, TokenWriter

logger = logging.getLogger(__name__)

NO_PDF = -1                     # the pdf class of a state that emits nothing
_LARGEST_PHONE = 10_000_000     # a table as long as the largest phone is part of the binary form
_TOLERANCE = 0.01               # largest difference from 1 of the sum of a state's probabilities without a warning


@dataclass
class HmmState:
    """A state of an HMM."""

    # forward_pdf_class, self_loop_pdf_class: pdf classes of the phone; -1 for a state that emits nothing
    forward_pdf_class: int = NO_PDF
    self_loop_pdf_class: int = NO_PDF
    # list of (destination state, probability), in the file's order, in which transition-ids are numbered
    transitions: list[tuple[int, float]] = field(default_factory=list)


@dataclass
class HmmTopology:
    """HMMs of all phones.

    Attributes
    ----------
    entries : list of the states of each distinct HMM
    entry_of_phone : dict, from phone to index into ``entries``
    """

    entries: list[list[HmmState]]
    entry_of_phone: dict[int, int]

    @property
    def phones(self) -> list[int]:
        """The phones, ascending."""
        return sorted(self.entry_of_phone)

    @property
    def is_hmm(self) -> bool:
        """True if every state has the same pdf class for its self-loop and for leaving; files are shorter then."""
        return all(s.forward_pdf_class == s.self_loop_pdf_class for entry in self.entries for s in entry)

    def num_pdf_classes(self, phone: int) -> int:
        """Return the number of pdf classes of a phone, which are numbered from 0. Kaldi: NumPdfClasses."""
        states = self.entries[self.entry_of_phone[phone]]
        return 1 + max(max(state.forward_pdf_class, state.self_loop_pdf_class) for state in states)

    # -- reading ---------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader: TokenReader) -> HmmTopology:
        """Read from ``<Topology>`` to ``</Topology>``; FormatError for other contents."""
        reader.expect("<Topology>")
        topology = _read_binary(reader) if reader.binary else _read_text(reader)
        try:
            topology.check()
        except FormatError as error:
            raise reader.error(error.message) from error
        return topology

    def check(self) -> None:
        """Raise FormatError for states or transitions that cannot be those of an HMM."""
        if not self.entry_of_phone or min(self.entry_of_phone) <= 0:
            raise FormatError("expected a topology with phones above 0")
        if set(self.entry_of_phone.values()) != set(range(len(self.entries))):
            raise FormatError("expected each entry of the topology to belong to a phone")
        for number, entry in enumerate(self.entries):
            problem = _problem(entry)
            if problem:
                raise FormatError(f"entry {number} of the topology: {problem}")

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, writer: TokenWriter) -> None:
        """Write the topology, text or binary."""
        writer.token("<Topology>")
        writer.newline_if_text()
        if writer.binary:
            self._write_binary(writer)
        else:
            for number, entry in enumerate(self.entries):
                self._write_text_entry(writer, number, entry)
        writer.token("</Topology>")
        writer.newline_if_text()

    def _write_binary(self, writer: TokenWriter) -> None:
        phones = self.phones
        entry_of = np.full(phones[-1] + 1, -1, dtype=np.int32)
        entry_of[phones] = [self.entry_of_phone[phone] for phone in phones]
        writer.integer_vector(phones)
        writer.integer_vector(entry_of)
        is_hmm = self.is_hmm
        if not is_hmm:
            writer.integer(-1)
        writer.integer(len(self.entries))
        for entry in self.entries:
            writer.integer(len(entry))
            for state in entry:
                writer.integer(state.forward_pdf_class)
                if not is_hmm:
                    writer.integer(state.self_loop_pdf_class)
                writer.integer(len(state.transitions))
                for destination, probability in state.transitions:
                    writer.integer(destination)
                    writer.float32(probability)

    def _write_text_entry(self, writer: TokenWriter, number: int, entry: list[HmmState]) -> None:
        phones = [phone for phone in self.phones if self.entry_of_phone[phone] == number]
        writer.raw(b"<TopologyEntry> \n<ForPhones> \n" + b"%d " * len(phones) % tuple(phones) + b"\n</ForPhones> \n")
        is_hmm = self.is_hmm
        for index, state in enumerate(entry):
            writer.tagged("<State>", TokenWriter.integer, index)
            if state.forward_pdf_class != NO_PDF:
                writer.token("<PdfClass>" if is_hmm else "<ForwardPdfClass>")
                writer.integer(state.forward_pdf_class)
                if not is_hmm:
                    writer.tagged("<SelfLoopPdfClass>", TokenWriter.integer, state.self_loop_pdf_class)
            for destination, probability in state.transitions:
                writer.tagged("<Transition>", TokenWriter.integer, destination)
                writer.float32(probability)
            writer.raw(b"</State> \n")
        writer.raw(b"</TopologyEntry> \n")


def _problem(entry: list[HmmState]) -> str | None:
    """Describe what is wrong with the states of an entry as text; None if they are valid."""
    last = len(entry) - 1
    if last < 1:
        return f"expected at least 2 states, found {len(entry)}"
    if entry[last].transitions or entry[last].forward_pdf_class != NO_PDF:
        return "expected a last state without transitions and pdf"
    reached = {0}
    classes = set()
    for index, state in enumerate(entry):
        pair = {state.forward_pdf_class, state.self_loop_pdf_class}
        if min(pair) < NO_PDF or (NO_PDF in pair and len(pair) > 1):
            return f"state {index} has the pdf classes {sorted(pair)}"
        classes |= pair - {NO_PDF}
        destinations = [destination for destination, _ in state.transitions]
        if len(set(destinations)) != len(destinations):
            return f"state {index} has two transitions to one state"
        if any(not 0 <= destination <= last for destination in destinations):
            return f"state {index} has a transition to a state that does not exist"
        if any(not 0.0 < probability < float("inf") for _, probability in state.transitions):
            return f"state {index} has a transition of probability 0 or less"
        if state.forward_pdf_class == NO_PDF and last in destinations:
            return f"state {index} emits nothing and leads to the final state"
        reached.update(destination for destination in destinations if destination != index)
        total = sum(probability for _, probability in state.transitions)
        if index < last and not total:
            return f"state {index} has no transition"
        if index < last and abs(total - 1.0) > _TOLERANCE:
            logger.warning("The probabilities of state %d of a topology sum to %g", index, total)
    if len(reached) != len(entry):
        return f"no transition leads to state {min(set(range(len(entry))) - reached)}"
    if classes != set(range(len(classes))):
        return f"expected pdf classes from 0 on without gaps, found {sorted(classes)[:10]}"
    return None


# -- the two forms -----------------------------------------------------------------------------------------------------


def _read_binary(reader: TokenReader) -> HmmTopology:
    phones = reader.integer_vector()
    entry_of = reader.integer_vector()
    covered = np.flatnonzero(entry_of != -1)
    if not np.array_equal(covered, phones) or not len(phones):
        raise reader.error("expected a topology whose table of entries covers just its phones")
    count = reader.integer()
    is_hmm = count != -1
    if not is_hmm:
        count = reader.integer()
    reader.check_count(count, 5, "topology entries")
    entries = []
    for _ in range(count):
        num_states = reader.integer()
        reader.check_count(num_states, 10, "states")
        entries.append([_read_binary_state(reader, is_hmm) for _ in range(num_states)])
    reader.expect("</Topology>")
    return HmmTopology(entries, dict(zip(phones.tolist(), entry_of[phones].tolist(), strict=True)))


def _read_binary_state(reader: TokenReader, is_hmm: bool) -> HmmState:
    forward = reader.integer()
    self_loop = forward if is_hmm else reader.integer()
    count = reader.integer()
    reader.check_count(count, 10, "transitions")
    return HmmState(forward, self_loop, [(reader.integer(), reader.real()) for _ in range(count)])


def _read_text(reader: TokenReader) -> HmmTopology:
    entries: list[list[HmmState]] = []
    entry_of_phone: dict[int, int] = {}
    while (token := reader.token()) != "</Topology>":
        if token != "<TopologyEntry>":
            raise reader.unexpected(token, "<TopologyEntry> or </Topology>")
        reader.expect("<ForPhones>")
        while (word := reader.token()) != "</ForPhones>":
            phone = int(word) if word.isascii() and word.isdigit() and len(word) < 10 else 0
            if not 0 < phone <= _LARGEST_PHONE:
                raise reader.unexpected(word, f"a phone (1 to {_LARGEST_PHONE}) or </ForPhones>")
            if phone in entry_of_phone:
                raise reader.error(f"phone {phone} is in the topology twice")
            entry_of_phone[phone] = len(entries)
        entries.append(_read_text_states(reader))
    return HmmTopology(entries, entry_of_phone)


def _read_text_states(reader: TokenReader) -> list[HmmState]:
    states: list[HmmState] = []
    while (token := reader.token()) != "</TopologyEntry>":
        if token != "<State>":
            raise reader.unexpected(token, "<State> or </TopologyEntry>")
        index = reader.integer()
        if index != len(states):
            raise reader.error(f"expected state {len(states)}, found state {index}")
        states.append(_read_text_state(reader))
    return states


def _read_text_state(reader: TokenReader) -> HmmState:
    state = HmmState()
    token = reader.token()
    if token == "<PdfClass>":
        state.forward_pdf_class = state.self_loop_pdf_class = reader.integer()
        token = reader.token()
    elif token == "<ForwardPdfClass>":
        state.forward_pdf_class = reader.integer()
        state.self_loop_pdf_class = reader.tagged("<SelfLoopPdfClass>", TokenReader.integer)
        token = reader.token()
    while token == "<Transition>":
        destination = reader.integer()
        state.transitions.append((destination, reader.float32()))
        token = reader.token()
    if token != "</State>":
        raise reader.unexpected(token, "<Transition> or </State>")
    return state


_STAY, _LEAVE = 0.75, 0.25          # of a state that leads to itself and to the next
_CHAIN = 0.5


def chain_topology(phones: Sequence[int]) -> HmmTopology:
    """Return the topology of chain models: one state per phone, a pdf class for its first frame and one for the rest.

    UsageError for phones of 0 or less, or given twice.
    """
    states = [HmmState(0, 1, [(0, _CHAIN), (1, _CHAIN)]), HmmState()]
    return _topology([(list(phones), states)])


def left_to_right_topology(nonsilence: Sequence[int], silence: Sequence[int], num_states: int = 3,
                           num_silence_states: int = 5) -> HmmTopology:
    """Return a topology of states in a row; the inner states of silence phones may follow each other in any order.

    UsageError for phones of 0 or less, phones given twice, and fewer than one state.
    """
    if min(num_states, num_silence_states) < 1:
        raise UsageError(f"expected 1 state or more a phone, found {num_states} and {num_silence_states}")
    return _topology([(list(nonsilence), _in_a_row(num_states)), (list(silence), _silence(num_silence_states))])


def _in_a_row(count: int) -> list[HmmState]:
    return [*(HmmState(n, n, [(n, _STAY), (n + 1, _LEAVE)]) for n in range(count)), HmmState()]


def _silence(count: int) -> list[HmmState]:
    if count == 1:
        return _in_a_row(1)
    last, share = count - 1, 1.0 / (count - 1)
    inner = [HmmState(n, n, [(target, share) for target in range(1, count)]) for n in range(1, last)]
    return [HmmState(0, 0, [(target, share) for target in range(last)]), *inner,
            HmmState(last, last, [(last, _STAY), (count, _LEAVE)]), HmmState()]


def _topology(groups: list[tuple[list[int], list[HmmState]]]) -> HmmTopology:
    phones = [phone for group, _ in groups for phone in group]
    if not phones or min(phones) < 1:
        raise UsageError(f"expected phones, which are above 0, found {min(phones) if phones else 'none'}")
    if len(set(phones)) != len(phones):
        raise UsageError(f"phone {next(phone for phone in phones if phones.count(phone) > 1)} is given twice")
    used = [(group, states) for group, states in groups if group]
    topology = HmmTopology([states for _, states in used],
                           {phone: number for number, (group, _) in enumerate(used) for phone in group})
    topology.check()
    return topology
