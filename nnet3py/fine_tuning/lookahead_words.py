"""New words in HCLr.fst, the first part of a lookahead graph, which is composed with a grammar during decoding.

Old states, arcs and labels stay. At each state where a word can begin, one more arc without labels leads to the first
phones of the new words, which depend on the left phone; new words with the same beginning share states. The last phone
of a new word leads to the successors of old words with the same last phone. Costs are those of most old words.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.decoding.layout import ARC_WORDS, FIRST_ARC, NUM_ARCS, NUM_EPSILONS, STATE_WORDS
from nnet3py.decoding.lookahead import Lookahead
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.graph_words import GraphWords, by_state, places_among, sorted_unique
from nnet3py.hmm.topology import NO_PDF
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_binary import const_tables

_WALKS = 32                   # random paths of a word from each state, to estimate the cost of beginning a word
_MOST_WALKS = 500_000         # such paths in all
_LONGEST = 400                # arcs of a word
_NUM_OUTPUT_EPSILONS = STATE_WORDS - 1

NewWord = tuple[int, Sequence[int]]          # its label, and its phones, numbers with their position in the word


def with_words(lookahead: Lookahead, words: GraphWords, model: TransitionModel, tree: ContextDependency,
               new_words: Collection[NewWord]) -> Lookahead:
    """Add words to HCL.

    Parameters
    ----------
    lookahead : the old HCL
    words : word boundaries of a graph with the same states (:meth:`LookaheadGraph.hcl_of_words`)
    model, tree : transition model and tree of its phones, at most left biphones
    new_words : labels, which HCL lacks, and phones; a label occurs once for each pronunciation

    Raises Nnet3Error, with the reason, if words cannot be added.
    """
    return _HclWithWords(lookahead, words, _Hmms.of(words, model, tree), new_words).result()


def obstacle_to_new_words(model: TransitionModel, tree: ContextDependency) -> str:
    """Return the reason why words cannot be added, or "": wider context than the left phone, or long HMMs."""
    if tree.context_width > 2 or tree.central_position != tree.context_width - 1:
        return "phones depend on more than the phone before them"
    for entry in model.topology.entries:
        emitting = [state for state in entry if state.forward_pdf_class != NO_PDF]
        if len(emitting) != 1 or len(entry) != 2 or len(emitting[0].transitions) > 2:
            return "phones have more than one HMM state"
    return ""


@dataclass(frozen=True, eq=False)
class _Hmms:
    """Transition-ids of phones in the context of a left phone, and the costs of HMM transitions in a graph."""

    model: TransitionModel
    tree: ContextDependency
    self_loop_scale: float

    @classmethod
    def of(cls, words: GraphWords, model: TransitionModel, tree: ContextDependency) -> _Hmms:
        """Estimate the ``--self-loop-scale`` that a graph was made with. Raises Nnet3Error if words cannot be added."""
        problem = obstacle_to_new_words(model, tree)
        if problem:
            raise Nnet3Error(f"a graph cannot get new words: {problem}")
        loops = np.flatnonzero(words.phones.is_loop)
        expected = -model.log_probs[words.phones.ids[loops]]
        ratios = words.phones.graph.weights[loops][expected > 0] / expected[expected > 0]
        return cls(model, tree, float(np.median(ratios)) if len(ratios) else 1.0)

    def ids(self, left: int, phone: int) -> tuple[int, int]:
        """Return the transition-ids with which a phone after a left phone begins, and of its self-loop; 0: no loop."""
        window = (left, phone)[-self.tree.context_width:]
        state = self.model.topology.entries[self.model.topology.entry_of_phone[phone]][0]
        forward = self.tree.pdf(window, state.forward_pdf_class)
        loop = self.tree.pdf(window, state.self_loop_pdf_class)
        number = self.model.transition_state(phone, 0, forward, loop)
        first, last = self.model.first_transition_id[number:number + 2].tolist()
        staying = int(self.model.self_loop_of[number])
        return next(each for each in range(first, last) if each != staying), staying

    def staying(self, loops: np.ndarray) -> np.ndarray:
        """Return the scaled costs of self-loops, given by their transition-ids: float64 (loops,)."""
        return -self.self_loop_scale * self.model.log_probs[loops].astype(np.float64)

    def leaving(self, loops: np.ndarray) -> np.ndarray:
        """Return the scaled costs of leaving the HMM states that have these self-loops: float64 (loops,).

        ``loops`` : transition-ids; 0, for a state without a self-loop, has the cost 0
        """
        states = self.model.transition_id_to_state[loops]
        return -self.self_loop_scale * self.model.non_self_loop_log_probs[states].astype(np.float64) * (loops > 0)


@dataclass
class _Branch:
    """Node of the prefix tree of new words."""

    labels: list[int] = field(default_factory=list)             # labels of all words in the subtree, sorted
    branches: dict[int, _Branch] = field(default_factory=dict)  # next phone -> subtree
    ending: list[int] = field(default_factory=list)             # labels of the words that end at this node

    @classmethod
    def of(cls, new_words: Collection[NewWord]) -> _Branch:
        """Make the prefix tree of the pronunciations of some words; return its root."""
        root = cls()
        for label, phones in sorted(new_words):
            branch = root
            for phone in phones:
                branch.labels.append(label)
                branch = branch.branches.setdefault(phone, cls())
            branch.labels.append(label)
            branch.ending.append(label)
        return root


class _Arc(NamedTuple):
    source: int
    input: int
    output: int
    cost: float
    target: int


class _Ending(NamedTuple):
    """Continuation after the last phone of a word, copied from a state of the old graph."""

    arcs: list[tuple[int, int, int, float]]  # target state, input label, output label and cost of each arc
    final: float                             # cost of ending there
    like: int                                # the state of the old graph


class _HclWithWords:
    def __init__(self, lookahead: Lookahead, words: GraphWords, hmms: _Hmms, new_words: Collection[NewWord]) -> None:
        self._lookahead, self._words, self._hmms = lookahead, words, hmms
        self._root = _Branch.of(new_words)
        self._graph = lookahead.to_fst()
        self._first = self._graph.num_states
        self._arcs: list[_Arc] = []
        self._finals: list[float] = []
        # of each new state: labels that can come next, and old states whose next labels can come next, too
        self._reach: list[tuple[list[int], set[int]]] = []
        self._endings: dict[int, int] = {}
        loops = np.zeros(self._first, dtype=np.int64)
        places = np.flatnonzero(words.phones.is_loop)
        loops[words.phones.graph.sources[places]] = words.phones.ids[places]
        self._loops = loops
        self._leaving = hmms.leaving(loops)
        states, lefts = words.phones.phones_before()
        self._left = np.zeros(self._first, dtype=np.int64)
        self._left[states] = lefts

    def result(self) -> Lookahead:
        """Return HCL with the new words added."""
        beginnings = self._beginnings()
        costs = self._costs_of_beginning(beginnings)
        entries = self._add_beginnings(self._left[beginnings])
        new_arcs = np.array(self._arcs, dtype=[("source", int), ("input", int), ("output", int), ("cost", float),
                                               ("target", int)])
        added = Fst.from_arcs(0, np.array(self._finals), new_arcs["source"] - self._first, new_arcs["input"],
                              new_arcs["output"], new_arcs["cost"], new_arcs["target"])
        states, arcs = (np.frombuffer(table.tobytes(), dtype=np.int32).reshape(-1, width) for table, width in zip(
            const_tables(added), (STATE_WORDS, ARC_WORDS), strict=True))
        old_states, old_arcs = self._with_entries(beginnings, entries, costs)
        states = states.copy()
        states[:, FIRST_ARC] += len(old_arcs)
        return self._lookahead.with_graph(np.concatenate((old_states, states)), np.concatenate((old_arcs, arcs)),
                                          *self._intervals(beginnings))

    # -- the old graph -------------------------------------------------------------------------------------------------

    def _beginnings(self) -> np.ndarray:
        """Return the states where words begin and the labels of all earlier words have been output."""
        states = sorted_unique(self._words.phones.graph.sources[self._words.begins])
        states = states[self._words.open_words[states] == 0]
        if not len(states):
            raise Nnet3Error("the graph has no state where a word begins after the label of the previous word")
        return states

    def _costs_of_beginning(self, states: np.ndarray) -> np.ndarray:
        """Return the median cost of a path of one word from each state, without HMM costs: float64 (states,)."""
        of_state, of_words = self._costs_of_words(states)
        if not len(of_state):
            raise Nnet3Error("no word of the graph could be followed to its end")
        usual = np.full(len(states), np.median(of_words))
        order = np.lexsort((of_words, of_state))
        starts = np.searchsorted(of_state[order], np.arange(len(states) + 1))
        has_some = np.diff(starts) > 0
        usual[has_some] = of_words[order][((starts[:-1] + starts[1:]) // 2)[has_some]]
        return usual

    def _costs_of_words(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draw random paths of one word from each state.

        Returns, for each path, the index of its first state in ``states``, and its cost without HMM costs.
        """
        words, graph, chance = self._words, self._words.phones.graph, np.random.default_rng(0)
        times = max(1, min(_WALKS, _MOST_WALKS // len(states)))
        of_state, here = np.repeat(np.arange(len(states)), times), np.repeat(states, times)
        costs, is_over = np.zeros(len(here)), np.zeros(len(here), dtype=bool)
        finished = [(of_state[:0], costs[:0])]
        next_arcs = by_state(graph.sources, np.flatnonzero(words.begins))
        for _ in range(_LONGEST):
            arcs, counts = next_arcs(here)
            chosen = ((np.cumsum(counts) - counts) + chance.random(len(here)) * counts).astype(np.int64)[counts > 0]
            of_state, costs, is_over = of_state[counts > 0], costs[counts > 0], is_over[counts > 0]
            taken = arcs[chosen]
            here = graph.next_states[taken]
            costs = costs + graph.weights[taken]
            is_next = words.phones.begun[taken] > 0
            is_next &= is_over | words.is_nonword[taken]      # phone of the next word, or a silence
            is_over = is_over | words.ends[taken]
            is_done = is_over & ~is_next & (words.open_words[here] == 0)
            finished.append((of_state[is_done], costs[is_done]))
            stays = ~is_done & ~is_next
            if not stays.any():
                break
            of_state, here, is_over = of_state[stays], here[stays], is_over[stays]
            costs = costs[stays] - self._leaving[here]
            next_arcs = words.leaving
        return (np.concatenate([numbers for numbers, _ in finished]),
                np.concatenate([values for _, values in finished]))

    @cached_property
    def _after_words(self) -> dict[int, int]:
        """A state of the old graph directly after a word, with typical costs of its arcs, by the word's last phone."""
        words, graph = self._words, self._words.phones.graph
        ended = sorted_unique(graph.next_states[words.ends])
        is_ended = np.zeros(self._first, dtype=bool)
        is_ended[ended] = True
        late = (words.phones.ids == 0) & (graph.output_labels > 0) & is_ended[graph.sources]       # homophones
        by_phone: dict[int, int] = {}
        silences = np.flatnonzero(words.is_nonword)
        silence_costs = np.full(self._first, np.inf)
        np.minimum.at(silence_costs, graph.sources[silences],
                      graph.weights[silences] - self._leaving[graph.sources[silences]])
        for states in (ended, sorted_unique(graph.next_states[late])):
            states = states[words.open_words[states] == 0]
            order = np.lexsort((silence_costs[states], self._left[states]))
            states = states[order]
            phones, starts, counts = np.unique(self._left[states], return_index=True, return_counts=True)
            for phone, start, count in zip(phones.tolist(), starts.tolist(), counts.tolist(), strict=True):
                of_phone = states[start:start + count]
                with_silence = int(np.isfinite(silence_costs[of_phone]).sum())
                by_phone.setdefault(phone, int(of_phone[(with_silence or count) // 2]))
        if not by_phone:
            raise Nnet3Error("the graph has no state directly after a word")
        return by_phone

    def _ending(self, phone: int) -> _Ending:
        """Return the continuation after words with this last phone; if there are none, that of the most similar phone.
        """
        phone = phone if phone in self._after_words else self._most_alike(phone)
        like = self._after_words[phone]
        graph, leaving = self._graph, float(self._leaving[like])
        arcs = [(int(graph.next_states[arc]), int(graph.input_labels[arc]), int(graph.output_labels[arc]),
                 float(graph.weights[arc]) - (leaving if graph.next_states[arc] != like else 0.0))
                for arc in range(int(graph.arc_starts[like]), int(graph.arc_starts[like + 1]))
                if int(graph.input_labels[arc]) != self._loops[like] or not self._loops[like]]
        final = float(graph.final_weights[like])
        return _Ending(arcs, final - leaving if final != NO_WEIGHT else float(NO_WEIGHT), like)

    def _most_alike(self, phone: int) -> int:
        following = [self._hmms.model.topology.phones[place] for place in range(len(self._hmms.model.topology.phones))]
        ids = [self._hmms.ids(phone, other) for other in following]
        return max(self._after_words, key=lambda left: (sum(
            self._hmms.ids(left, other) == its for other, its in zip(following, ids, strict=True)), -left))

    # -- the new words -------------------------------------------------------------------------------------------------

    def _state(self, labels: list[int], after: Collection[int] = (), final: float = float(NO_WEIGHT)) -> int:
        """Add a state, and return its number.

        ``labels``: labels of words that can be output next. ``after``: states of the old graph; their next labels can
        be output next, too. ``final``: cost of ending at the state.
        """
        self._finals.append(final)
        self._reach.append((labels, set(after)))
        return self._first + len(self._finals) - 1

    def _add_beginnings(self, lefts: np.ndarray) -> np.ndarray:
        """Add all new words; return, for each of the phones ``lefts``, the state where they begin after it."""
        firsts = sorted(self._root.branches)
        entry_of_ids: dict[tuple[tuple[int, int], ...], int] = {}
        state_of: dict[tuple[int, tuple[int, int]], int] = {}
        entry_of_left: dict[int, int] = {}
        for left in sorted_unique(lefts).tolist():
            ids = tuple(self._hmms.ids(left, phone) for phone in firsts)
            if ids not in entry_of_ids:
                entry = entry_of_ids[ids] = self._state(sorted(set(self._root.labels)))
                for phone, its in zip(firsts, ids, strict=True):
                    branch = self._root.branches[phone]
                    output = _common_label(branch.labels)
                    if (phone, its) not in state_of:
                        state_of[phone, its] = self._add_phone(branch, phone, its[1], bool(output))
                    self._arcs.append(_Arc(entry, its[0], output, 0.0, state_of[phone, its]))
            entry_of_left[left] = entry_of_ids[ids]
        return np.array([entry_of_left[left] for left in lefts.tolist()])

    def _add_phone(self, branch: _Branch, phone: int, loop: int, has_label: bool) -> int:
        """Add the state of a phone, and everything after it up to the ends of words; return the state.

        ``branch``: node of the prefix tree that the phone leads to. ``loop``: transition-id of the phone's self-loop; 0
        for none. ``has_label``: whether the word's label was output on an earlier arc.
        """
        labels = [] if has_label else sorted(set(branch.labels))
        state = self._state(labels)
        if loop:
            self._arcs.append(_Arc(state, loop, 0, float(self._hmms.staying(np.array([loop]))[0]), state))
        leaving = float(self._hmms.leaving(np.array([loop]))[0])
        after: set[int] = set()
        for following, its in sorted(branch.branches.items()):
            entering, staying = self._hmms.ids(phone, following)
            output = 0 if has_label else _common_label(its.labels)
            target = self._add_phone(its, following, staying, has_label or bool(output))
            self._arcs.append(_Arc(state, entering, output, leaving, target))
            after |= self._reach[target - self._first][1]
        if branch.ending:
            ending = self._end_of_word(phone)
            after |= self._reach[ending - self._first][1]
            for label in [0] if has_label else sorted(set(branch.ending)):
                self._arcs.append(_Arc(state, 0, label, leaving, ending))
        self._reach[state - self._first] = (labels, after if has_label else set())
        return state

    def _end_of_word(self, phone: int) -> int:
        """Return the state after new words with this last phone; add it unless it exists already."""
        if phone not in self._endings:
            ending = self._ending(phone)
            state = self._endings[phone] = self._state([], [ending.like], ending.final)
            self._arcs += [_Arc(state, label, output, cost, state if target == ending.like else target)
                           for target, label, output, cost in ending.arcs]
        return self._endings[phone]

    # -- tables --------------------------------------------------------------------------------------------------------

    def _with_entries(self, states: np.ndarray, entries: np.ndarray,
                      costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Insert an arc without labels before the first arc of some states of the old graph.

        ``states``, ``entries``, ``costs``: source, target and cost of each new arc.

        Returns the new tables of states and arcs of the old graph.
        """
        old_states, old_arcs = self._lookahead.states, self._lookahead.arcs
        rows = np.stack((np.zeros(len(states)), np.zeros(len(states)), np.zeros(len(states)), entries),
                        axis=1).astype(np.int32)
        rows[:, 2] = costs.astype(np.float32).view(np.int32)
        arcs = np.insert(old_arcs, old_states[states, FIRST_ARC].astype(np.int64), rows.astype(old_arcs.dtype), axis=0)
        new_states = old_states.copy()
        more = np.zeros(len(old_states), dtype=new_states.dtype)
        more[states] = 1
        for column in (NUM_ARCS, NUM_EPSILONS, _NUM_OUTPUT_EPSILONS):
            new_states[:, column] += more
        new_states[:, FIRST_ARC] = np.cumsum(new_states[:, NUM_ARCS]) - new_states[:, NUM_ARCS]
        return new_states, arcs

    def _intervals(self, beginnings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for all states, the intervals of the labels that can be output next, for the lookahead.

        ``beginnings`` has the states of HCL in which words begin. The labels of new words are added to those of each
        state of HCL from which such a state is reached without an output label.

        Returns int (states + 1,), index of each state's first interval; and int32 (intervals, 2), begin and end.
        """
        starts, pairs = self._lookahead.interval_table()
        new = _intervals_of_labels(sorted(set(self._root.labels)))
        can_begin = self._before(beginnings)
        blocks = [_intervals_of_labels(labels) if not likes else _union([
            interval for like in likes for interval in (*pairs[starts[like]:starts[like + 1]].tolist(),
                                                        *(new if can_begin[like] else ()))])
                  for labels, likes in self._reach]
        insertions = np.repeat(starts[1:][can_begin], len(new))
        old = np.insert(pairs, insertions, np.tile(np.array(new, dtype=np.int32), (int(can_begin.sum()), 1)), axis=0)
        counts = np.concatenate((np.diff(starts) + can_begin * len(new), [len(block) for block in blocks]))
        added = np.array([pair for block in blocks for pair in block], dtype=np.int32).reshape(-1, 2)
        return np.concatenate(([0], np.cumsum(counts))), np.concatenate((old, added)).astype(np.int32)

    def _before(self, states: np.ndarray) -> np.ndarray:
        """Return whether each state of the graph has a path without output labels to one of ``states``: bool (states,).
        """
        graph = self._graph
        silent = np.flatnonzero(graph.output_labels == 0)
        silent = silent[np.argsort(graph.next_states[silent], kind="stable")]
        targets, sources = graph.next_states[silent], graph.sources[silent]
        is_before = np.zeros(graph.num_states, dtype=bool)
        while len(states):
            is_before[states] = True
            states = sources[places_among(states, targets)[0]]
            states = sorted_unique(states[~is_before[states]])
        return is_before


def _common_label(labels: Sequence[int]) -> int:
    """Return the first label if all labels are equal, else 0."""
    return labels[0] if len(set(labels)) == 1 else 0


def _intervals_of_labels(labels: Sequence[int]) -> list[tuple[int, int]]:
    """Return the disjoint half-open intervals that contain exactly these labels."""
    return _union([(label, label + 1) for label in labels])


def _union(intervals: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the union of half-open intervals, sorted and disjoint."""
    union: list[tuple[int, int]] = []
    for begin, end in sorted(map(tuple, intervals)):
        if union and begin <= union[-1][1]:
            union[-1] = union[-1][0], max(end, union[-1][1])
        else:
            union.append((begin, end))
    return union
