"""The loops of composing a lattice with an FST, and with a const-ARPA model. Imported only to be compiled.

The lattice's arcs are ``arc_starts``, ``words``, ``targets``. The arcs of an FST's state are sorted by input label.
A state of a const-ARPA model is a history of words: a row of ``histories``, its length in ``lengths``. The arrays of
that model are described in ``fst/const_arpa_loops.py``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline
from nnet3py.fst.const_arpa_loops import NOTHING, log_prob_after, next_state

FINISHED, NO_STATES, NO_ARCS, NO_END = range(4)
NO_ROOM = 1
QUEUE, STATES, ARCS, MODEL_STATES = range(4)    # places of the counts
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LONGEST_FAILURE = 1000                         # failure arcs in a row; more are taken for a cycle


@inline
def _slot(table, keys, key):
    """Return the index of a key in a hash table of states, or the free index where it can be inserted."""
    mask = np.uint64(len(table) - 1)
    place = (np.uint64(key) * _MULTIPLIER >> np.uint64(20)) & mask
    while table[place] >= 0 and keys[table[place]] != key:
        place = (place + np.uint64(1)) & mask
    return place


@inline
def _state(table, keys, counts, key):
    """Return the number of the composed state of a key; a new key is added."""
    place = _slot(table, keys, key)
    if table[place] < 0:
        number = counts[STATES]
        table[place] = number
        keys[number] = key
        counts[STATES] = number + 1
    return table[place]


@inline
def _first_match(starts, labels, state, label):
    """Return the first arc of a state whose label is at least ``label``."""
    low, high = starts[state], starts[state + 1]
    while low < high:
        middle = (low + high) >> 1
        if labels[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low


def compose(arc_starts, words, targets, is_final, starts, inputs, outputs, costs, nexts, phi, rho, table, keys, counts,
            made, made_costs):
    """Continue composing until done, or until an array is full.

    A composed state is a pair. Its key is (lattice state * 2 + epsilon flag) * FST states + FST state. The flag is 1
    after an epsilon of the FST: then epsilons of the lattice may not follow, so that no path is made twice. Each row of
    ``made`` is an arc: source, arc of the lattice (-1 for an epsilon of the FST), label, target; ``made_costs`` has the
    FST's graph and acoustic costs.
    """
    size = len(starts) - 1
    while counts[QUEUE] < counts[STATES]:
        if counts[STATES] * 2 + 4 > len(table):
            return NO_STATES
        source = counts[QUEUE]
        key = keys[source]
        state, moved, other = key // size // 2, (key // size) % 2, key % size
        before = counts[ARCS]
        has_words = is_final[state] != 0
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            word = words[arc]
            if word == 0:
                if moved == 0:
                    if counts[ARCS] >= len(made) or (counts[STATES] + 1) * 2 > len(table):
                        counts[ARCS] = before
                        return NO_ARCS
                    _put(table, keys, counts, made, made_costs, source, arc, 0, targets[arc] * 2 * size + other, 0.0,
                         0.0)
                continue
            has_words = True
            at, graph, acoustic = other, np.float32(0.0), np.float32(0.0)
            failures = 0
            while at >= 0:
                match = _first_match(starts, inputs, at, word)
                is_match = match < starts[at + 1] and inputs[match] == word
                if not is_match and rho > 0:
                    match = _first_match(starts, inputs, at, rho)
                    is_match = match < starts[at + 1] and inputs[match] == rho
                label = inputs[match] if is_match else 0
                while is_match and match < starts[at + 1] and inputs[match] == label:
                    if counts[ARCS] >= len(made) or (counts[STATES] + 1) * 2 > len(table):
                        counts[ARCS] = before
                        return NO_ARCS
                    output = word if outputs[match] == rho and label == rho and rho > 0 else outputs[match]
                    _put(table, keys, counts, made, made_costs, source, arc, output,
                         targets[arc] * 2 * size + nexts[match], graph + costs[match, 0], acoustic + costs[match, 1])
                    match += 1
                if is_match or phi <= 0:
                    break
                match = _first_match(starts, inputs, at, phi)
                if match >= starts[at + 1] or inputs[match] != phi:
                    break
                graph, acoustic = graph + costs[match, 0], acoustic + costs[match, 1]
                at = nexts[match]
                failures += 1
                if failures > _LONGEST_FAILURE:
                    return NO_END
        if has_words:
            for match in range(starts[other], starts[other + 1]):
                if inputs[match] != 0:
                    if inputs[match] > 0:
                        break
                    continue
                if counts[ARCS] >= len(made) or (counts[STATES] + 1) * 2 > len(table):
                    counts[ARCS] = before
                    return NO_ARCS
                _put(table, keys, counts, made, made_costs, source, -1, outputs[match],
                     (state * 2 + 1) * size + nexts[match], costs[match, 0], costs[match, 1])
        counts[QUEUE] += 1
    return FINISHED


@inline
def _put(table, keys, counts, made, made_costs, source, arc, label, key, graph, acoustic):
    """Append an arc that leads to the state with the given key."""
    target = _state(table, keys, counts, key)
    number = counts[ARCS]
    made[number, 0], made[number, 1], made[number, 2], made[number, 3] = source, arc, label, target
    made_costs[number, 0], made_costs[number, 1] = graph, acoustic
    counts[ARCS] = number + 1


def rehash(keys, count, table):
    """Insert all states into ``table``, which is filled with -1."""
    for number in range(count):
        table[_slot(table, keys, keys[number])] = number


@inline
def _mixed(value):
    """Return a hash whose bits depend on all bits of a number."""
    mixed = np.uint64(value) * _MULTIPLIER
    return mixed ^ (mixed >> np.uint64(29))


@inline
def _history_slot(table, histories, lengths, row):
    """Return the index of a history in a hash table of rows of ``histories``, or the free index to insert it at."""
    mask = np.uint64(len(table) - 1)
    mixed = _mixed(lengths[row] + 1)
    for place in range(lengths[row]):
        mixed = _mixed(mixed + np.uint64(histories[row, place]))
    at = mixed & mask
    while table[at] >= 0:
        other, same = table[at], lengths[table[at]] == lengths[row]
        for place in range(lengths[row]):
            same = same and histories[other, place] == histories[row, place]
        if same:
            break
        at = (at + np.uint64(1)) & mask
    return at


def compose_with_const_arpa(arc_starts, words, targets, unigrams, pool, scores, overflow, unk, order, histories,
                            lengths, model_table, table, keys, counts, made, made_costs):
    """Continue composing, breadth first, until done or until an array is full.

    A composed state is a pair. Its key is lattice state * 2 ** 32 + model state. Each row of ``made`` is an arc:
    source, arc of the lattice, target; ``made_costs`` has the model's cost of its word.
    """
    while counts[QUEUE] < counts[STATES]:
        source = counts[QUEUE]
        state, model_state = keys[source] >> 32, keys[source] & 0xFFFFFFFF
        num_arcs = arc_starts[state + 1] - arc_starts[state]
        if (counts[ARCS] + num_arcs > len(made) or (counts[STATES] + num_arcs) * 2 > len(table)
                or (counts[MODEL_STATES] + num_arcs + 1) * 2 > len(model_table)):
            return NO_ROOM
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            following, cost = model_state, np.float32(0.0)
            if words[arc] != 0:
                new = counts[MODEL_STATES]
                score = next_state(unigrams, pool, scores, overflow, unk, order, histories, lengths, model_state,
                                   words[arc], new)
                if score == NOTHING:
                    continue
                cost = -score
                place = _history_slot(model_table, histories, lengths, new)
                if model_table[place] < 0:
                    model_table[place] = new
                    counts[MODEL_STATES] = new + 1
                following = np.int64(model_table[place])
            key = np.int64(targets[arc]) << 32 | following
            target = _state(table, keys, counts, key)
            number = counts[ARCS]
            made[number, 0], made[number, 1], made[number, 2] = source, arc, target
            made_costs[number] = cost
            counts[ARCS] = number + 1
        counts[QUEUE] = source + 1
    return FINISHED


def rehash_histories(histories, lengths, count, table):
    """Insert all histories into ``table``, which is filled with -1."""
    for row in range(count):
        table[_history_slot(table, histories, lengths, row)] = row


def end_costs(unigrams, pool, scores, overflow, unk, eos, histories, lengths, costs):
    """Write the cost of ending the sentence in each state of the model."""
    for row in range(len(costs)):
        costs[row] = -log_prob_after(unigrams, pool, scores, overflow, unk, histories[row], lengths[row], eos)
