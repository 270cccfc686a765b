"""The loops of lattice determinization with pruning. Their arrays and return values: ``subset_layout.py``.

States of the output are subsets of the lattice's states, each with the string and the cost by which it lags behind.
Transitions wait in a queue by the cost of the best path through them, so a state's first visit is its best one.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline
from nnet3py.lattices.string_tree import Tree, appended, string_is_better, successor
from nnet3py.lattices.subset_layout import (
    ACOUSTIC,
    ARC_BYTES,
    ARC_LABEL,
    ARC_SOURCE,
    ARC_STRING,
    ARC_TARGET,
    CHECKED,
    COUNT,
    CUTOFF,
    DONE,
    ELEMENT_BYTES,
    FIRST,
    FREE_NODE,
    FREE_TASK,
    GRAPH,
    LABEL,
    MAX_ARCS,
    MAX_MEMORY,
    MAX_STATES,
    MORE_ARCS,
    MORE_ELEMENTS,
    MORE_HEADS,
    MORE_NODES,
    MORE_STATES,
    MORE_SUBSETS,
    MORE_TASKS,
    NEXT_ENTRY,
    NEXT_NODE,
    NODE_BYTES,
    NUM_ARCS,
    NUM_ELEMENTS,
    NUM_FINALS,
    NUM_LIVE_NODES,
    NUM_NODES,
    NUM_QUEUED,
    NUM_STATES,
    NUM_STORED,
    NUM_SUBSETS,
    NUM_TASKS,
    PARENT,
    PREFIX,
    SOURCE,
    STATE,
    STOPPED,
    STRING,
    TARGET,
    TASK_COUNT,
    TASK_FIRST,
    TOO_LARGE,
    UNUSED,
)
from nnet3py.lattices.subsets import (
    Input,
    Output,
    Scratch,
    bucket_of_subset,
    close,
    copy_element,
    find_subset,
    has_room_for_strings,
    is_better,
    most_nodes,
    normalize,
    sort,
    store_subset,
)

_NO_PATH = np.inf


def prepare(arc_starts: np.ndarray, labels: np.ndarray, costs: np.ndarray, next_states: np.ndarray,
            final_costs: np.ndarray, epsilon_ends: np.ndarray, kept: np.ndarray, backward: np.ndarray) -> None:
    """Fill in what is known about the lattice's states."""
    for state in range(len(final_costs) - 1, -1, -1):
        least = np.float64(final_costs[state, 0]) + np.float64(final_costs[state, 1])
        end = arc_starts[state]
        kept[state] = least != _NO_PATH
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            cost = np.float64(costs[arc, 0]) + np.float64(costs[arc, 1])
            least = min(least, cost + backward[next_states[arc]])
            if labels[arc] == 0:
                end = arc + 1
            else:
                kept[state] = 1
        epsilon_ends[state], backward[state] = end, least


def determinize(arc_starts: np.ndarray, epsilon_ends: np.ndarray, labels: np.ndarray, symbols: np.ndarray,
                costs: np.ndarray, next_states: np.ndarray, final_costs: np.ndarray, kept: np.ndarray,
                backward: np.ndarray, nodes: np.ndarray, heads: np.ndarray, states: np.ndarray, state_heads: np.ndarray,
                forward: np.ndarray, final_strings: np.ndarray, output_finals: np.ndarray, subsets: np.ndarray,
                subset_costs: np.ndarray, subset_heads: np.ndarray, arcs: np.ndarray, arc_costs: np.ndarray,
                tasks: np.ndarray, priorities: np.ndarray, queue: np.ndarray, elements: np.ndarray,
                element_costs: np.ndarray, closure: np.ndarray, closure_costs: np.ndarray, moves: np.ndarray,
                move_costs: np.ndarray, slots: np.ndarray, heap: np.ndarray, keys: np.ndarray, order: np.ndarray,
                scratch_symbols: np.ndarray, counts: np.ndarray, limits: np.ndarray, start: int) -> int:
    """Determinize until the queue is empty or more room is needed."""
    lattice = Input(arc_starts, epsilon_ends, labels, symbols, costs, next_states, final_costs, kept, backward)
    tree = Tree(nodes, heads, counts)
    output = Output(states, state_heads, forward, final_strings, output_finals, subsets, subset_costs, subset_heads,
                    arcs, arc_costs, tasks, priorities, queue, elements, element_costs, counts, limits)
    scratch = Scratch(closure, closure_costs, moves, move_costs, slots, heap, keys, order, scratch_symbols)
    status = _room(lattice, tree, output)
    if status == DONE and counts[NUM_STATES] == 0:
        closure[0, STATE], closure[0, STRING] = start, 0
        closure_costs[0, GRAPH] = closure_costs[0, ACOUSTIC] = np.float32(0.0)
        count = close(lattice, tree, scratch, 1)
        bucket = bucket_of_subset(closure, np.int64(0), count, len(state_heads))
        _make_state(lattice, tree, output, scratch, count, 0.0, bucket)
    while status == DONE and counts[NUM_QUEUED] > 0:
        status = _limits_reached(output)
        if status == DONE:
            status = _room(lattice, tree, output)
        if status == DONE:
            status = _do_task(lattice, tree, output, scratch)
    return status


@inline
def _limits_reached(output: Output) -> int:
    counts = output.counts
    num_states = counts[NUM_STATES]
    if (counts[MAX_STATES] > 0 and num_states > counts[MAX_STATES]) or (
            counts[MAX_ARCS] > 0 and counts[NUM_ARCS] + counts[NUM_FINALS] > counts[MAX_ARCS]):
        return STOPPED
    if counts[CHECKED] == 0 and num_states % 10 == 0 and counts[MAX_MEMORY] > 0:
        memory = (NODE_BYTES * counts[NUM_LIVE_NODES] + ARC_BYTES * (counts[NUM_ARCS] + counts[NUM_FINALS])
                  + ELEMENT_BYTES * counts[NUM_STORED])
        if memory > counts[MAX_MEMORY]:
            return TOO_LARGE
    return DONE


@inline
def _room(lattice: Input, tree: Tree, output: Output) -> int:
    """Whether there is room for what a task can add, except nodes of strings that are made anew."""
    counts, most = output.counts, len(lattice.labels)
    if counts[NUM_NODES] + most_nodes(lattice) > len(tree.nodes):
        return MORE_NODES
    if counts[NUM_LIVE_NODES] > 2 * len(tree.heads):
        return MORE_HEADS
    if counts[NUM_ELEMENTS] + most + len(lattice.kept) > len(output.elements):
        return MORE_ELEMENTS
    if counts[NUM_STATES] + 1 > len(output.states):
        return MORE_STATES
    if counts[NUM_SUBSETS] + 1 > len(output.subsets):
        return MORE_SUBSETS
    if counts[NUM_ARCS] + 1 > len(output.arcs):
        return MORE_ARCS
    return MORE_TASKS if counts[NUM_TASKS] + most > len(output.tasks) else DONE


# -- tasks and states --------------------------------------------------------------------------------------------------


@inline
def _do_task(lattice: Input, tree: Tree, output: Output, scratch: Scratch) -> int:
    """Make the transition with the best path. If there is no room, nothing but the tree has changed."""
    counts, tasks, closure = output.counts, output.tasks, scratch.closure
    task = np.int64(output.queue[0])
    count, source, label = tasks[task, TASK_COUNT], tasks[task, SOURCE], tasks[task, LABEL]
    for place in range(count):
        copy_element(output.elements, tasks[task, TASK_FIRST] + place, closure, place)
    if not has_room_for_strings(lattice, tree, scratch, count):
        return MORE_NODES
    prefix, graph, acoustic = normalize(tree, scratch, count)
    forward = output.forward[source] + (np.float64(graph) + np.float64(acoustic))
    bucket = bucket_of_subset(closure, np.int64(0), count, len(output.subset_heads))
    subset = find_subset(output, scratch, output.subsets, np.int64(output.subset_heads[bucket]), count)
    if subset >= 0:
        _pop_task(output)
    else:
        subset = _new_subset(lattice, tree, output, scratch, count, forward, bucket)
        if subset < 0:
            return MORE_NODES
    counts[CHECKED] = 0
    arc = counts[NUM_ARCS]
    counts[NUM_ARCS] += 1
    string = appended(tree, prefix, output.subsets[subset, PREFIX], np.int64(0), scratch.symbols)
    output.arcs[arc, ARC_SOURCE], output.arcs[arc, ARC_LABEL] = source, label
    output.arcs[arc, ARC_STRING], output.arcs[arc, ARC_TARGET] = string, output.subsets[subset, TARGET]
    output.arc_costs[arc, 0] = graph + output.subset_costs[subset, 0]
    output.arc_costs[arc, 1] = acoustic + output.subset_costs[subset, 1]
    return DONE


@inline
def _new_subset(lattice: Input, tree: Tree, output: Output, scratch: Scratch, count: int, forward: float,
                bucket: int) -> int:
    """Enter the normalized subset of the first task, in ``closure``, and find or make its state; returns the entry.

    If there is no room for strings, it returns -1, and the task waits.
    """
    counts, saved = output.counts, len(scratch.moves) - count
    for place in range(count):
        copy_element(scratch.closure, place, scratch.moves, saved + place)
    num_closed = close(lattice, tree, scratch, count)
    if not has_room_for_strings(lattice, tree, scratch, num_closed):
        return np.int64(-1)
    prefix, graph, acoustic = np.int64(0), np.float32(0.0), np.float32(0.0)
    if num_closed > 0:
        prefix, graph, acoustic = normalize(tree, scratch, num_closed)
    first = output.tasks[output.queue[0], TASK_FIRST]
    for place in range(count):           # the task's elements were normalized, and stay so
        copy_element(scratch.moves, saved + place, output.elements, first + place)
    _pop_task(output)
    state_bucket = bucket_of_subset(scratch.closure, np.int64(0), num_closed, len(output.state_heads))
    state = find_subset(output, scratch, output.states, np.int64(output.state_heads[state_bucket]), num_closed)
    if state < 0:
        further = forward + (np.float64(graph) + np.float64(acoustic))
        state = _make_state(lattice, tree, output, scratch, num_closed, further, state_bucket)
    entry = counts[NUM_SUBSETS]
    counts[NUM_SUBSETS] += 1
    counts[NUM_STORED] += count
    output.subsets[entry, FIRST], output.subsets[entry, COUNT] = first, count
    output.subsets[entry, TARGET], output.subsets[entry, PREFIX] = state, prefix
    output.subset_costs[entry, 0], output.subset_costs[entry, 1] = graph, acoustic
    output.subsets[entry, NEXT_ENTRY] = output.subset_heads[bucket]
    output.subset_heads[bucket] = entry
    return np.int64(entry)


@inline
def _make_state(lattice: Input, tree: Tree, output: Output, scratch: Scratch, count: int, forward: float,
                bucket: int) -> int:
    """A new state for the subset in ``closure``, with its final weight and the tasks that begin there."""
    counts = output.counts
    state = counts[NUM_STATES]
    counts[NUM_STATES] += 1
    output.states[state, FIRST], output.states[state, COUNT] = store_subset(output, scratch, count), count
    output.states[state, NEXT_ENTRY] = output.state_heads[bucket]
    output.state_heads[bucket] = state
    output.forward[state] = forward
    _set_final(lattice, tree, output, scratch, count, state)
    _add_tasks(lattice, tree, output, scratch, count, state)
    return np.int64(state)


@inline
def _set_final(lattice: Input, tree: Tree, output: Output, scratch: Scratch, count: int, state: int) -> None:
    closure, costs, finals = scratch.closure, scratch.closure_costs, output.final_costs
    finals[state, 0] = finals[state, 1] = np.float32(np.inf)
    best = np.int64(-1)
    for i in range(count):
        member = closure[i, STATE]
        if lattice.final_costs[member, 0] + lattice.final_costs[member, 1] == _NO_PATH:
            continue
        graph = costs[i, GRAPH] + lattice.final_costs[member, 0]
        acoustic = costs[i, ACOUSTIC] + lattice.final_costs[member, 1]
        string = np.int64(closure[i, STRING])
        new, old = graph + acoustic, finals[state, 0] + finals[state, 1]
        if best < 0 or new < old or (new == old and (graph < finals[state, 0] or (
                graph == finals[state, 0] and string_is_better(tree, string, best)))):
            finals[state, 0], finals[state, 1], best = graph, acoustic, string
    total = np.float64(finals[state, 0]) + np.float64(finals[state, 1]) + output.forward[state]
    if best >= 0 and total <= output.limits[CUTOFF]:
        output.final_strings[state] = best
        output.counts[NUM_FINALS] += 1
    else:
        output.final_strings[state] = -1
        finals[state, 0] = finals[state, 1] = np.float32(np.inf)


@inline
def _add_tasks(lattice: Input, tree: Tree, output: Output, scratch: Scratch, count: int, state: int) -> None:
    """A task for each label that leaves the subset in ``closure``."""
    closure, costs, moves, move_costs = scratch.closure, scratch.closure_costs, scratch.moves, scratch.move_costs
    num_moves = np.int64(0)
    for i in range(count):
        member = closure[i, STATE]
        for arc in range(lattice.epsilon_ends[member], lattice.arc_starts[member + 1]):
            string = np.int64(closure[i, STRING])
            if lattice.symbols[arc] != 0:
                string = successor(tree, string, lattice.symbols[arc])
            moves[num_moves, STATE], moves[num_moves, STRING] = lattice.next_states[arc], string
            move_costs[num_moves, GRAPH] = costs[i, GRAPH] + lattice.costs[arc, 0]
            move_costs[num_moves, ACOUSTIC] = costs[i, ACOUSTIC] + lattice.costs[arc, 1]
            scratch.keys[num_moves] = (np.int64(lattice.labels[arc]) << 32) | np.int64(lattice.next_states[arc])
            scratch.order[num_moves] = num_moves
            num_moves += 1
    sort(scratch.keys, scratch.order, num_moves)
    place = np.int64(0)
    while place < num_moves:
        label, end, priority = scratch.keys[place] >> 32, place, _NO_PATH
        while end < num_moves and scratch.keys[end] >> 32 == label:
            move = scratch.order[end]
            cost = np.float64(move_costs[move, GRAPH]) + np.float64(move_costs[move, ACOUSTIC])
            priority = min(priority, cost + lattice.backward[moves[move, STATE]])
            end += 1
        priority += output.forward[state]
        if priority <= output.limits[CUTOFF]:
            _add_task(tree, output, scratch, place, end, state, label, priority)
        place = end


@inline
def _add_task(tree: Tree, output: Output, scratch: Scratch, place: int, end: int, state: int, label: int,
              priority: float) -> None:
    """A task of the moves from ``place`` to ``end``; of those to the same state only the best is kept."""
    counts, elements, moves = output.counts, output.elements, scratch.moves
    first = counts[NUM_ELEMENTS]
    count = np.int64(0)
    for i in range(place, end):
        move = np.int64(scratch.order[i])
        last = first + count - 1
        if count == 0 or elements[last, STATE] != moves[move, STATE]:
            copy_element(moves, move, elements, last + 1)
            count += 1
        elif is_better(tree, output.element_costs, last, np.int64(moves[move, STRING]),
                        scratch.move_costs[move, GRAPH], scratch.move_costs[move, ACOUSTIC],
                        np.int64(elements[last, STRING])):
            copy_element(moves, move, elements, last)
    counts[NUM_ELEMENTS] += count
    task = counts[FREE_TASK]
    if task >= 0:
        counts[FREE_TASK] = output.tasks[task, SOURCE]
    else:
        task = counts[NUM_TASKS]
        counts[NUM_TASKS] += 1
    output.tasks[task, SOURCE], output.tasks[task, LABEL] = state, label
    output.tasks[task, TASK_FIRST], output.tasks[task, TASK_COUNT] = first, count
    output.priorities[task] = priority
    _sift_up(output, counts[NUM_QUEUED], task)
    counts[NUM_QUEUED] += 1


@inline
def _sift_up(output: Output, place: int, task: int) -> None:
    queue, priorities = output.queue, output.priorities
    while place > 0 and priorities[queue[(place - 1) // 2]] > priorities[task]:
        queue[place] = queue[(place - 1) // 2]
        place = (place - 1) // 2
    queue[place] = task


@inline
def _pop_task(output: Output) -> None:
    """Take the first task out: the gap moves down to a leaf, where the last task is put and moves up again.

    So tasks of equal priority come in the same order as from the C++ library's queues.
    """
    queue, priorities, counts = output.queue, output.priorities, output.counts
    task = queue[0]
    counts[NUM_QUEUED] -= 1
    count, place = counts[NUM_QUEUED], np.int64(0)
    while 2 * place + 1 < count:
        child = 2 * place + 2
        if child >= count or priorities[queue[child]] > priorities[queue[child - 1]]:
            child -= 1
        queue[place] = queue[child]
        place = child
    _sift_up(output, place, queue[count])
    output.tasks[task, SOURCE] = counts[FREE_TASK]
    counts[FREE_TASK] = task


# -- tables ------------------------------------------------------------------------------------------------------------


def rebuild_table(entries: np.ndarray, count: int, elements: np.ndarray, heads: np.ndarray) -> None:
    """Put entries into ``heads`` again, whose size may have changed; later ones come first."""
    for bucket in range(len(heads)):
        heads[bucket] = -1
    for entry in range(count):
        bucket = bucket_of_subset(elements, entries[entry, FIRST], entries[entry, COUNT], len(heads))
        entries[entry, NEXT_ENTRY] = heads[bucket]
        heads[bucket] = entry


@inline
def _mark(nodes: np.ndarray, needed: np.ndarray, string: int) -> None:
    while string >= 0 and not needed[string]:
        needed[string] = 1
        string = np.int64(nodes[string, PARENT])


def drop_strings(nodes: np.ndarray, needed: np.ndarray, states: np.ndarray, final_strings: np.ndarray,
                 subsets: np.ndarray, arcs: np.ndarray, tasks: np.ndarray, queue: np.ndarray, elements: np.ndarray,
                 counts: np.ndarray) -> None:
    """Drop all strings that nothing refers to. ``needed`` (uint8, zeros) has room for all nodes."""
    needed[0] = 1
    for state in range(counts[NUM_STATES]):
        _mark(nodes, needed, np.int64(final_strings[state]))
        for place in range(states[state, FIRST], states[state, FIRST] + states[state, COUNT]):
            _mark(nodes, needed, np.int64(elements[place, STRING]))
    for entry in range(counts[NUM_SUBSETS]):
        _mark(nodes, needed, subsets[entry, PREFIX])
        for place in range(subsets[entry, FIRST], subsets[entry, FIRST] + subsets[entry, COUNT]):
            _mark(nodes, needed, np.int64(elements[place, STRING]))
    for arc in range(counts[NUM_ARCS]):
        _mark(nodes, needed, np.int64(arcs[arc, ARC_STRING]))
    for waiting in range(counts[NUM_QUEUED]):
        task = queue[waiting]
        for place in range(tasks[task, TASK_FIRST], tasks[task, TASK_FIRST] + tasks[task, TASK_COUNT]):
            _mark(nodes, needed, np.int64(elements[place, STRING]))
    counts[NUM_LIVE_NODES] = 0
    counts[FREE_NODE] = -1
    for node in range(1, counts[NUM_NODES]):
        if needed[node]:
            counts[NUM_LIVE_NODES] += 1
        else:
            nodes[node, PARENT] = UNUSED
            nodes[node, NEXT_NODE] = counts[FREE_NODE]
            counts[FREE_NODE] = node
