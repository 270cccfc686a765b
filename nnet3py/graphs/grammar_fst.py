"""Grammars of several graphs: a top graph, and a graph for each nonterminal, joined while decoding.

phones.txt has, from ``nonterm_phones_offset`` on, #nonterm_bos, #nonterm_begin, #nonterm_end, #nonterm_reenter, and
then the user-defined nonterminals, such as #nonterm:contacts. This module has the labels of nonterminals, files of
grammars, and the changes to a graph of transition-ids that make it part of a grammar. Kaldi: ``GrammarFst``,
``PrepareForGrammarFst``, ``grammar-context-fst.h``, doc/grammar.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import FormatError, UsageError, within
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_binary import read_binary_fst, write_binary_fst

FIRST_LABEL = 10_000_000          # input labels of graphs from here on are pairs of a nonterminal and a phone
_ROUND = 1000                     # pairs are coded with a multiple of it, for human readers


@dataclass(frozen=True)
class Nonterminals:
    """Numbers of the nonterminals in phones.txt."""

    offset: int  # number of #nonterm_bos, which stands for the phone before the first phone of an utterance

    def __post_init__(self) -> None:
        if self.offset < 1:
            raise UsageError(f"--nonterm-phones-offset={self.offset}: expected the number of #nonterm_bos in "
                             "phones.txt")

    @property
    def bos(self) -> int:
        """The number of #nonterm_bos."""
        return self.offset

    @property
    def begin(self) -> int:
        """The number of #nonterm_begin, with which an FST for a nonterminal begins."""
        return self.offset + 1

    @property
    def end(self) -> int:
        """The number of #nonterm_end, with which an FST for a nonterminal ends."""
        return self.offset + 2

    @property
    def reenter(self) -> int:
        """The number of #nonterm_reenter, with which an FST continues after a nonterminal."""
        return self.offset + 3

    @property
    def first_of_user(self) -> int:
        """The number of the first user-defined nonterminal."""
        return self.offset + 4

    @property
    def multiple(self) -> int:
        """Factor of nonterminals in labels, a multiple of 1000 above all phones."""
        return _ROUND * (self.offset // _ROUND + 1)

    def label(self, nonterminal: int, phone: int) -> int:
        """Return the label of a nonterminal and the phone before it: FIRST_LABEL + nonterminal * multiple + phone."""
        return FIRST_LABEL + nonterminal * self.multiple + phone

    def pair(self, label: int) -> tuple[int, int]:
        """Return the nonterminal and the phone that a label encodes."""
        return divmod(label - FIRST_LABEL, self.multiple)


LEAVES = np.float32(4096.0)        # the final cost of states whose arcs lead into other graphs, a mark for decoders
_FORMAT = 1
_LARGEST_LABEL = 2**31 - 1
_TOP = "the top graph"
_HINT = "is --nonterm-phones-offset the number of #nonterm_bos in phones.txt?"


@dataclasses.dataclass(frozen=True, eq=False)
class GrammarFst:
    """A top graph and the graphs of nonterminals, all of transition-ids; :func:`prepared` describes their form.

    Attributes
    ----------
    nonterminals : Nonterminals, their numbers in phones.txt
    top : Fst, the graph in which decoding begins
    parts : dict, for each user-defined nonterminal its graph, in which nonterminals, also itself, may occur
    """

    nonterminals: Nonterminals
    top: Fst
    parts: Mapping[int, Fst]

    @classmethod
    def of(cls, nonterminals: Nonterminals, top: Fst, parts: Mapping[int, Fst]) -> GrammarFst:
        """Make a grammar of graphs that are not prepared yet.

        Raises FormatError for a graph that cannot be prepared; UsageError for a key of ``parts`` that is not a
        user-defined nonterminal.
        """
        for number in parts:
            if number < nonterminals.first_of_user or nonterminals.label(number, nonterminals.bos) > _LARGEST_LABEL:
                raise UsageError(f"{number} is not the number of a user-defined nonterminal; these begin with "
                                 f"{nonterminals.first_of_user}, and their labels must be below 2**31", _HINT)
        prepared_parts = {}
        for number, part in parts.items():
            with within(f"the graph of nonterminal {number}"):
                prepared_parts[number] = prepared(part, nonterminals, is_top=False)
        with within(_TOP):
            return cls(nonterminals, prepared(top, nonterminals), prepared_parts)

    @classmethod
    def read(cls, rxfilename: str) -> GrammarFst:
        """Read a file of ``make-grammar-fst``; FormatError for other files."""
        return read_object(rxfilename, _read)

    def write(self, wxfilename: str) -> None:
        """Write the grammar in Kaldi's form, which is binary."""
        def write(writer: TokenWriter) -> None:
            writer.token("<GrammarFst>")
            for number in (_FORMAT, len(self.parts), self.nonterminals.offset):
                writer.integer(number)
            write_binary_fst(writer, dataclasses.replace(self.top, stored=None), "const")
            for number, part in self.parts.items():
                writer.integer(number)
                write_binary_fst(writer, dataclasses.replace(part, stored=None), "const")
            writer.token("</GrammarFst>")

        write_object(wxfilename, write, binary=True)


def _read(reader: TokenReader) -> GrammarFst:
    reader.expect("<GrammarFst>")
    version, count, offset = (reader.integer() for _ in range(3))
    if version != _FORMAT or offset < 1:
        raise reader.error(f"expected a grammar of version {_FORMAT}, found version {version} with phones to {offset}")
    reader.check_count(count, 5, "graphs of nonterminals")
    top = read_binary_fst(reader)
    parts: dict[int, Fst] = {}
    for _ in range(count):
        number = reader.integer()
        if number in parts:
            raise reader.error(f"expected one graph for each nonterminal, found two for {number}")
        parts[number] = read_binary_fst(reader)
    reader.expect("</GrammarFst>")
    return GrammarFst.of(Nonterminals(offset), top, parts)


class _Arcs:
    """A graph's arcs as arrays (arcs,) while they are changed, and its final costs."""

    def __init__(self, fst: Fst) -> None:
        self.final = fst.final_weights.copy()
        self.sources = fst.sources.astype(np.int64)
        self.inputs, self.outputs = fst.input_labels.copy(), fst.output_labels.copy()
        self.weights, self.targets = fst.weights.copy(), fst.next_states.copy()

    def add_states(self, count: int, final: float = NO_WEIGHT) -> np.ndarray:
        """Add states; return their numbers, int64."""
        first = len(self.final)
        self.final = np.concatenate((self.final, np.full(count, final, dtype=np.float32)))
        return first + np.arange(count)

    def put_between(self, arcs: np.ndarray, group: np.ndarray, inputs: np.ndarray, outputs: np.ndarray) -> None:
        """Move arcs to new states, one for each group, and add an arc from the group's old source to its new state.

        ``group`` has a number from 0 for each of ``arcs``; ``inputs`` and ``outputs`` are the labels of the new arcs.
        The least cost of a group's arcs is moved to the new arc.
        """
        count = len(inputs)
        least, sources = np.full(count, np.inf, dtype=np.float32), np.zeros(count, dtype=np.int64)
        np.minimum.at(least, group, self.weights[arcs])
        sources[group] = self.sources[arcs]
        states = self.add_states(count)
        self.weights[arcs] -= least[group]
        self.sources[arcs] = states[group]
        for name, values in (("sources", sources), ("inputs", inputs), ("outputs", outputs), ("weights", least),
                             ("targets", states)):
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, values.astype(old.dtype))))

    def fst(self, start: int) -> Fst:
        return Fst.from_arcs(start, self.final, self.sources, self.inputs, self.outputs, self.weights, self.targets)


def prepared(fst: Fst, nonterminals: Nonterminals, is_top: bool = True) -> Fst:
    """Convert a graph of transition-ids to the form that decoding a grammar needs. Kaldi: PrepareForGrammarFst.

    Arcs that leave the graph (nonterminals and #nonterm_end) get source states of their own, whose final cost of 4096
    marks them. All arcs of such a state have one nonterminal and one target; they have no output labels. States whose
    arcs are #nonterm_begin or #nonterm_reenter have one arc for each phone before. A prepared graph stays as it is.
    Raises FormatError for labels that are not nonterminals, and for nonterminals in the wrong places.
    """
    labels = fst.input_labels
    if fst.start < 0 or not (labels >= FIRST_LABEL).any():
        if fst.start >= 0 and not is_top:
            raise FormatError("expected a graph that begins with #nonterm_begin and ends with #nonterm_end, found none "
                              "of them", hint="all sentences of its G must begin and end with them")
        return fst
    changed = _Arcs(fst)
    names, phones = _decoded(labels, nonterminals)
    calls, ends = names >= nonterminals.first_of_user, names == nonterminals.end
    _check_places(fst, nonterminals, names, is_top)
    leaving = np.flatnonzero(calls | ends)
    marked = changed.sources[leaving]
    changed.final[marked[changed.final[marked] == LEAVES]] = NO_WEIGHT
    _add_final_costs(changed, np.flatnonzero(ends))
    _separate_leaving(changed, leaving, np.where(calls, changed.targets, -1)[leaving], names[leaving])
    _separate_entries(changed, np.flatnonzero((names == nonterminals.begin) | (names == nonterminals.reenter)))
    changed.final[changed.sources[leaving]] = LEAVES
    return changed.fst(fst.start)


def _decoded(labels: np.ndarray, nonterminals: Nonterminals) -> tuple[np.ndarray, np.ndarray]:
    """Return the nonterminal and the phone that each label encodes, int64 (arcs,); both 0 for other labels.

    FormatError for labels that encode neither.
    """
    special = labels >= FIRST_LABEL
    names, phones = np.divmod(labels.astype(np.int64) - FIRST_LABEL, nonterminals.multiple)
    wrong = special & ((names <= nonterminals.bos) | (phones < 1) | (phones > nonterminals.bos))
    if wrong.any():
        raise FormatError(f"the graph has the label {labels[wrong.argmax()]}, which does not encode a nonterminal and "
                          "the phone before it", hint=_HINT)
    return np.where(special, names, 0), np.where(special, phones, 0)


def _check_places(fst: Fst, nonterminals: Nonterminals, names: np.ndarray, is_top: bool) -> None:
    """Raise FormatError for nonterminals in the wrong places."""
    sources, ends = fst.sources, names == nonterminals.end
    for name, what in ((nonterminals.begin, "#nonterm_begin"), (nonterminals.reenter, "#nonterm_reenter")):
        has = np.zeros(fst.num_states, dtype=bool)
        has[sources[names == name]] = True
        mixed = has & fst.is_final
        mixed[sources[has[sources] & (names != name)]] = True
        if mixed.any():
            raise FormatError(f"state {mixed.argmax()} of the graph has arcs of {what}; expected that it has no other "
                              "arcs and is not final", hint="check G, and that prepare-lang or Kaldi's prepare_lang.sh "
                              "wrote L")
        if name == nonterminals.begin:
            if (has & (np.arange(fst.num_states) != fst.start)).any() or is_top and has.any():
                raise FormatError("the top graph has #nonterm_begin" if is_top else
                                  "the graph of a nonterminal has #nonterm_begin elsewhere than at its start",
                                  hint="only graphs of nonterminals have it, at the beginning of all sentences")
            if not is_top and not has[fst.start]:
                raise FormatError("the graph does not begin with #nonterm_begin", hint="all sentences of its G must "
                                  "begin with it and end with #nonterm_end")
        elif not has[fst.next_states[names >= nonterminals.first_of_user]].all():
            raise FormatError("after a nonterminal the graph does not go on with #nonterm_reenter",
                              hint="L must have, after each nonterminal, the phones that may come before, as "
                              "prepare-lang and Kaldi's prepare_lang.sh write it")
    targets = fst.next_states[ends]
    if is_top and len(targets):
        raise FormatError("the top graph has #nonterm_end", hint="only graphs of nonterminals end with it")
    if not fst.is_final[targets].all() or (np.diff(fst.arc_starts)[targets] > 0).any():
        raise FormatError("the graph has arcs after #nonterm_end, or a state that is not final; expected its end there",
                          hint="all sentences of its G must end with #nonterm_end")


def _add_final_costs(changed: _Arcs, ends: np.ndarray) -> None:
    """Add the final costs after arcs of #nonterm_end to these arcs, so that decoders need not look them up."""
    costs = changed.final[changed.targets[ends]]
    if costs.any():
        changed.weights[ends] += costs
        changed.targets[ends] = changed.add_states(1, 0.0)[0]


def _separate_leaving(changed: _Arcs, arcs: np.ndarray, called_from: np.ndarray, names: np.ndarray) -> None:
    """Move arcs that leave the graph to states of their own, if there are other arcs beside them or they have words.

    ``called_from`` is the target of each arc, -1 for #nonterm_end; ``names`` are the nonterminals.
    """
    sources, outputs = changed.sources[arcs], changed.outputs[arcs]
    kinds, group = np.unique(np.stack((sources, names, called_from, outputs)), axis=1, return_inverse=True)
    group = group.reshape(-1)
    num_states = len(changed.final)
    others = np.bincount(changed.sources, minlength=num_states) - np.bincount(sources, minlength=num_states)
    kinds_of_state = np.bincount(kinds[0], minlength=num_states)
    mixed = (others > 0) | (changed.final != NO_WEIGHT) | (kinds_of_state > 1)
    moves = mixed[kinds[0]] | (kinds[3] != 0)
    number = np.cumsum(moves) - 1
    moved = moves[group]
    if moved.any():
        words = kinds[3][moves]
        changed.put_between(arcs[moved], number[group[moved]], np.zeros_like(words), words)
    changed.outputs[arcs] = 0


def _separate_entries(changed: _Arcs, arcs: np.ndarray) -> None:
    """Merge arcs with the same source and label into one arc, followed by epsilons to their targets."""
    if not len(arcs):
        return
    kinds, group, counts = np.unique(np.stack((changed.sources[arcs], changed.inputs[arcs])), axis=1,
                                     return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    moves = counts > 1
    moved = moves[group]
    if moved.any():
        labels = kinds[1][moves]
        changed.put_between(arcs[moved], (np.cumsum(moves) - 1)[group[moved]], labels, np.zeros_like(labels))
        changed.inputs[arcs[moved]] = 0


def of_part(fst: Fst, nonterminals: Nonterminals) -> Fst:
    """Prepare a graph for a grammar: as the top graph, or as a nonterminal's if it has #nonterm_begin.

    FormatError as for :func:`prepared`.
    """
    is_begin = _decoded(fst.input_labels, nonterminals)[0] == nonterminals.begin
    return prepared(fst, nonterminals, is_top=not is_begin.any())


def can_be_empty(part: Fst, nonterminals: Nonterminals) -> bool:
    """Return whether a nonterminal's graph has a path without transition-ids and without other nonterminals."""
    names, _ = _decoded(part.input_labels, nonterminals)
    ends = np.zeros(part.num_states, dtype=bool)
    ends[part.sources[names == nonterminals.end]] = True
    free = (part.input_labels == 0) | (names == nonterminals.begin)
    reached = np.arange(part.num_states) == part.start
    while True:
        targets = part.next_states[free & reached[part.sources]]
        if reached[targets].all():
            return bool((reached & ends).any())
        reached[targets] = True
