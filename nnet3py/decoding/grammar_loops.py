"""Loops that expand a grammar's graphs while decoding, state by state.

A state is identified by an instance (one call of a graph) and a state of that graph; states of all graphs are
numbered together. An arc with a nonterminal leads into the nonterminal's graph, to the target of the #nonterm_begin
arc with the same phone; #nonterm_end leads back, to the target of the #nonterm_reenter arc after the nonterminal.
Only one arc of each kind fits the phone, so their probabilities, 1 / (their number), are canceled: the log of their
number is subtracted from the cost.
"""
from __future__ import annotations

import numpy as np

from nnet3py.decoding import layout
from nnet3py.decoding.graph_loops import place_of
from nnet3py.decoding.layout import Expanded, Parts
from nnet3py.engine.inline import inline
from nnet3py.graphs.grammar_fst import FIRST_LABEL
from nnet3py.lattices.structures import by_arrays

_INFINITY = np.float32(np.inf)
_BEGIN, _END, _REENTER, _USER = 1, 2, 3, 4              # added to the offset


@by_arrays
def expand(graphs: Parts, made: Expanded, wanted: np.ndarray) -> int:
    """Make the arcs of states in ``wanted`` that have none yet; return DONE, the array to enlarge, or an error.

    ``counts[PLACE]`` is the position in ``wanted``, from which a further call continues.
    """
    while made.counts[layout.PLACE] < len(wanted):
        state = np.int64(wanted[made.counts[layout.PLACE]])
        if made.states[state, layout.NUM_ARCS] == -1:
            status = _expand_one(graphs, made, state)
            if status != layout.DONE:
                return status
        made.counts[layout.PLACE] += 1
    return layout.DONE


@by_arrays
def add_state(graphs: Parts, made: Expanded, key: int) -> int:
    """Return the number of the state of a key; a new state is added, for which there must be room."""
    return _state_of(graphs, made, key)


def rebuild_instances(instances: np.ndarray, instance_table: np.ndarray, count: int) -> None:
    """Insert instances 1 to ``count`` - 1 into a hash table, for example after it was enlarged."""
    for place in range(len(instance_table)):
        instance_table[place] = -1
    for number in range(1, count):
        place = _instance_place(instances, instance_table, instances[number, layout.CALLED_GRAPH],
                                instances[number, layout.CALLER], instances[number, layout.RETURN])
        instance_table[place] = number


@inline
def _state_of(graphs: Parts, made: Expanded, key: int) -> int:
    place = place_of(made.keys, made.table, np.int64(len(made.table) - 1), key, np.int64(0))
    if made.table[place] < 0:
        state = made.counts[layout.NUM_STATES]
        made.counts[layout.NUM_STATES] += 1
        made.table[place], made.keys[2 * state], made.keys[2 * state + 1] = state, key, 0
        final = _INFINITY
        if key >> 32 == 0:                                   # only the top graph can end
            final = graphs.state_costs[(key & 0xFFFFFFFF) * layout.STATE_WORDS + layout.FINAL]
        made.state_costs[state, layout.FINAL] = final
        made.states[state, layout.FIRST_ARC], made.states[state, layout.NUM_ARCS] = 0, -1
        made.states[state, layout.NUM_EPSILONS] = 1
    return np.int64(made.table[place])


@inline
def _instance_place(instances: np.ndarray, table: np.ndarray, graph: int, caller: int, back: int) -> int:
    """Return the index of an instance in the hash table, or the free index where it can be inserted."""
    mixed = ((np.uint64(caller) << np.uint64(32)) | np.uint64(back)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ np.uint64(graph)) * np.uint64(0x9E3779B97F4A7C15)
    mask = np.int64(len(table) - 1)
    place = np.int64(mixed >> np.uint64(24)) & mask
    while table[place] >= 0:
        instance = instances[table[place]]
        if (instance[layout.CALLED_GRAPH] == graph and instance[layout.CALLER] == caller
                and instance[layout.RETURN] == back):
            break
        place = (place + 1) & mask
    return place


@inline
def _instance_of(made: Expanded, graph: int, caller: int, back: int) -> int:
    """Return the number of an instance; a new one is added."""
    place = _instance_place(made.instances, made.instance_table, graph, caller, back)
    if made.instance_table[place] < 0:
        number = made.counts[layout.NUM_INSTANCES]
        made.counts[layout.NUM_INSTANCES] += 1
        made.instance_table[place] = number
        made.instances[number, layout.CALLED_GRAPH], made.instances[number, layout.CALLER] = graph, caller
        made.instances[number, layout.RETURN] = back
        made.instances[number, layout.DEPTH] = made.instances[caller, layout.DEPTH] + 1
    return np.int64(made.instance_table[place])


@inline
def _arc_of(graphs: Parts, state: int, label: int) -> int:
    """Return the position in ``graphs.arcs`` of a state's arc with an input label; -1 if there is none."""
    first = np.int64(graphs.states[state * layout.STATE_WORDS + layout.FIRST_ARC])
    for arc in range(first, first + np.int64(graphs.states[state * layout.STATE_WORDS + layout.NUM_ARCS])):
        if graphs.arcs[arc * layout.ARC_WORDS + layout.ARC_INPUT] == label:
            return np.int64(arc * layout.ARC_WORDS)
    return np.int64(-1)


@inline
def _add_arc(graphs: Parts, made: Expanded, state: int, key: int, label: int, output: int, cost: float) -> None:
    to = _state_of(graphs, made, key)
    arc = made.counts[layout.NUM_MADE_ARCS]
    made.counts[layout.NUM_MADE_ARCS] += 1
    made.arcs[arc, layout.ARC_INPUT], made.arcs[arc, layout.ARC_OUTPUT] = label, output
    made.arcs[arc, layout.ARC_NEXT] = to
    made.arc_costs[arc, layout.ARC_COST] = cost
    made.states[state, layout.NUM_EPSILONS] += label == 0


@inline
def _cross(graphs: Parts, made: Expanded, state: int, arc: int) -> int:
    """Add the arc that replaces an arc with a nonterminal or #nonterm_end; return DONE or the error."""
    instance, counts = made.keys[2 * state] >> 32, made.counts
    offset, multiple = graphs.settings[0], graphs.settings[1]
    label = np.int64(graphs.arcs[arc + layout.ARC_INPUT]) - FIRST_LABEL
    back = np.int64(graphs.arcs[arc + layout.ARC_NEXT])
    name, phone = label // multiple, label % multiple
    counts[layout.BAD_STATE] = made.keys[2 * state] & 0xFFFFFFFF
    counts[layout.BAD_NAME], counts[layout.BAD_PHONE] = name, phone
    if name == offset + _END:
        to_instance, entry = np.int64(made.instances[instance, layout.CALLER]), _REENTER
        at = np.int64(made.instances[instance, layout.RETURN])
    else:
        place = name - offset - _USER
        if place < 0 or place >= len(graphs.graph_of) or graphs.graph_of[place] < 0:
            return layout.NO_GRAPH
        graph = np.int64(graphs.graph_of[place])
        if graphs.starts[graph] < 0:
            return layout.DONE                                      # an empty graph: it accepts nothing
        if made.instances[instance, layout.DEPTH] >= layout.MOST_DEPTH:
            return layout.TOO_DEEP
        to_instance, at, entry = _instance_of(made, graph, instance, back), np.int64(graphs.starts[graph]), _BEGIN
    arriving = _arc_of(graphs, at, FIRST_LABEL + (offset + entry) * multiple + phone)
    if arriving < 0:
        return layout.NO_ENTRY
    count = np.float32(np.log(np.float64(graphs.states[at * layout.STATE_WORDS + layout.NUM_ARCS])))
    key = (to_instance << 32) | np.int64(graphs.arcs[arriving + layout.ARC_NEXT])
    _add_arc(graphs, made, state, key, np.int64(0), np.int64(graphs.arcs[arriving + layout.ARC_OUTPUT]),
             (graphs.arc_costs[arc + layout.ARC_COST] + graphs.arc_costs[arriving + layout.ARC_COST]) - count)
    return layout.DONE


@inline
def _expand_one(graphs: Parts, made: Expanded, state: int) -> int:
    """Make all arcs of a state; if there is no room, make none and return the array to enlarge."""
    key, counts = made.keys[2 * state], made.counts
    instance, words = (key >> 32) << 32, (key & 0xFFFFFFFF) * layout.STATE_WORDS
    first, count = np.int64(graphs.states[words + layout.FIRST_ARC]), np.int64(graphs.states[words + layout.NUM_ARCS])
    if counts[layout.NUM_MADE_ARCS] + count > len(made.arcs):
        return layout.MORE_ARCS
    num_states = counts[layout.NUM_STATES] + count
    if num_states > len(made.states) or 2 * num_states > len(made.table):
        return layout.MORE_STATES
    if counts[layout.NUM_INSTANCES] + count > len(made.instances) or (
            2 * (counts[layout.NUM_INSTANCES] + count) > len(made.instance_table)):
        return layout.MORE_INSTANCES
    first_made = counts[layout.NUM_MADE_ARCS]
    made.states[state, layout.NUM_EPSILONS] = 0
    for arc in range(first * layout.ARC_WORDS, (first + count) * layout.ARC_WORDS, layout.ARC_WORDS):
        label = np.int64(graphs.arcs[arc + layout.ARC_INPUT])
        if label < FIRST_LABEL:
            _add_arc(graphs, made, state, instance | np.int64(graphs.arcs[arc + layout.ARC_NEXT]), label,
                     np.int64(graphs.arcs[arc + layout.ARC_OUTPUT]), graphs.arc_costs[arc + layout.ARC_COST])
            continue
        status = _cross(graphs, made, state, arc)
        if status != layout.DONE:
            counts[layout.NUM_MADE_ARCS] = first_made
            return status
    made.states[state, layout.FIRST_ARC] = first_made
    made.states[state, layout.NUM_ARCS] = counts[layout.NUM_MADE_ARCS] - first_made
    return layout.DONE
