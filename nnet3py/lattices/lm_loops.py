"""The loop of composing a lattice with a const-ARPA model. Imported only to be compiled.

A state of the model is a row of ``histories`` with its length; see ``fst/const_arpa_loops.py`` for the model's arrays.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline
from nnet3py.fst.const_arpa_loops import NOTHING, log_prob_after, next_state

FINISHED, NO_ROOM = 0, 1
QUEUE, STATES, ARCS, MODEL_STATES = range(4)         # places of the counts
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@inline
def _mixed(value):
    """A hash whose bits depend on all bits of a number."""
    mixed = np.uint64(value) * _MULTIPLIER
    return mixed ^ (mixed >> np.uint64(29))


@inline
def _pair_slot(table, keys, key):
    mask = np.uint64(len(table) - 1)
    place = _mixed(key) & mask
    while table[place] >= 0 and keys[table[place]] != key:
        place = (place + np.uint64(1)) & mask
    return place


@inline
def _history_slot(table, histories, lengths, row):
    """Where a row is in a hash table of rows, or where it belongs."""
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


def compose(arc_starts, words, targets, unigrams, pool, scores, overflow, unk, order, histories, lengths, model_table,
            table, keys, counts, made, made_costs):
    """Continue composing, breadth first, until done or until there is no room.

    A state is a pair; its key is lattice state * 2 ** 32 + model state. ``made`` gets for each arc: source, arc of the
    lattice, target; ``made_costs`` the model's cost of its word.
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
            place = _pair_slot(table, keys, key)
            if table[place] < 0:
                table[place] = counts[STATES]
                keys[counts[STATES]] = key
                counts[STATES] += 1
            number = counts[ARCS]
            made[number, 0], made[number, 1], made[number, 2] = source, arc, table[place]
            made_costs[number] = cost
            counts[ARCS] = number + 1
        counts[QUEUE] = source + 1
    return FINISHED


def rehash(keys, num_states, table, histories, lengths, num_model_states, model_table):
    """Put all states into new tables, filled with -1."""
    for number in range(num_states):
        table[_pair_slot(table, keys, keys[number])] = number
    for row in range(num_model_states):
        model_table[_history_slot(model_table, histories, lengths, row)] = row


def final_costs(unigrams, pool, scores, overflow, unk, eos, histories, lengths, costs):
    """The cost of ending the sentence in each state of the model."""
    for row in range(len(costs)):
        costs[row] = -log_prob_after(unigrams, pool, scores, overflow, unk, histories[row], lengths[row], eos)
