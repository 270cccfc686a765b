"""The loops of lattice determinization with pruning. Their arrays and return values: ``determinize_layout.py``.

States of the output are subsets of the lattice's states, each with the string and the cost that paths to it have in
excess of those of the output. Transitions wait in a queue, ordered by the cost of the best path through them, so
states are reached by their best path first.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline
from nnet3py.lattices import determinize_layout as layout
from nnet3py.lattices.determinize_layout import Input, Output, Scratch, Tree
from nnet3py.lattices.structures import by_arrays
from nnet3py.lattices.subset_loops import (
    appended,
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
    string_is_better,
    successor,
)

_NO_PATH = np.inf


@by_arrays
def prepare(lattice: Input) -> None:
    """Fill in ``epsilon_ends``, ``kept`` and ``backward`` of the lattice's states."""
    for state in range(len(lattice.kept) - 1, -1, -1):
        least = np.float64(lattice.final_costs[state, 0]) + np.float64(lattice.final_costs[state, 1])
        end = lattice.arc_starts[state]
        lattice.kept[state] = least != _NO_PATH
        for arc in range(lattice.arc_starts[state], lattice.arc_starts[state + 1]):
            cost = np.float64(lattice.costs[arc, 0]) + np.float64(lattice.costs[arc, 1])
            least = min(least, cost + lattice.backward[lattice.next_states[arc]])
            if lattice.labels[arc] == 0:
                end = arc + 1
            else:
                lattice.kept[state] = 1
        lattice.epsilon_ends[state], lattice.backward[state] = end, least


@by_arrays
def determinize(lattice: Input, tree: Tree, output: Output, scratch: Scratch, start: int) -> int:
    """Determinize until the queue is empty, a limit is reached or an array is full; return DONE or the reason.

    Calling it again with larger arrays continues.
    """
    counts, closure = tree.counts, scratch.closure
    status = _room(lattice, tree, output)
    if status == layout.DONE and counts[layout.NUM_STATES] == 0:
        closure[0, layout.STATE], closure[0, layout.STRING] = start, 0
        scratch.closure_costs[0, layout.GRAPH] = scratch.closure_costs[0, layout.ACOUSTIC] = np.float32(0.0)
        count = close(lattice, tree, scratch, 1)
        bucket = bucket_of_subset(closure, np.int64(0), count, len(output.state_heads))
        _make_state(lattice, tree, output, scratch, count, 0.0, bucket)
    while status == layout.DONE and counts[layout.NUM_QUEUED] > 0:
        status = _limits_reached(output)
        if status == layout.DONE:
            status = _room(lattice, tree, output)
        if status == layout.DONE:
            status = _do_task(lattice, tree, output, scratch)
    return status


@inline
def _limits_reached(output: Output) -> int:
    """Return DONE, or STOPPED for too many states or arcs, TOO_LARGE for too much memory."""
    counts = output.counts
    num_states, num_arcs = counts[layout.NUM_STATES], counts[layout.NUM_ARCS] + counts[layout.NUM_FINALS]
    if (counts[layout.MAX_STATES] > 0 and num_states > counts[layout.MAX_STATES]) or (
            counts[layout.MAX_ARCS] > 0 and num_arcs > counts[layout.MAX_ARCS]):
        return layout.STOPPED
    if counts[layout.CHECKED] == 0 and num_states % 10 == 0 and counts[layout.MAX_MEMORY] > 0:
        memory = (layout.NODE_BYTES * counts[layout.NUM_LIVE_NODES] + layout.ARC_BYTES * num_arcs
                  + layout.ELEMENT_BYTES * counts[layout.NUM_STORED])
        if memory > counts[layout.MAX_MEMORY]:
            return layout.TOO_LARGE
    return layout.DONE


@inline
def _room(lattice: Input, tree: Tree, output: Output) -> int:
    """Return DONE if all arrays have room for one more task, else the array to enlarge, such as MORE_ARCS.

    Nodes for strings that :func:`has_room_for_strings` counts are not included.
    """
    counts, most = output.counts, len(lattice.labels)
    if counts[layout.NUM_NODES] + most_nodes(lattice) > len(tree.nodes):
        return layout.MORE_NODES
    if counts[layout.NUM_LIVE_NODES] > 2 * len(tree.heads):
        return layout.MORE_HEADS
    if counts[layout.NUM_ELEMENTS] + most + len(lattice.kept) > len(output.elements):
        return layout.MORE_ELEMENTS
    if counts[layout.NUM_STATES] + 1 > len(output.states):
        return layout.MORE_STATES
    if counts[layout.NUM_SUBSETS] + 1 > len(output.subsets):
        return layout.MORE_SUBSETS
    if counts[layout.NUM_ARCS] + 1 > len(output.arcs):
        return layout.MORE_ARCS
    return layout.MORE_TASKS if counts[layout.NUM_TASKS] + most > len(output.tasks) else layout.DONE


# -- tasks and states --------------------------------------------------------------------------------------------------


@inline
def _do_task(lattice: Input, tree: Tree, output: Output, scratch: Scratch) -> int:
    """Make the first transition of the queue; return DONE, or MORE_NODES if the tree of strings is full.

    In that case the task stays in the queue, and only the tree of strings has changed.
    """
    counts, tasks, closure = output.counts, output.tasks, scratch.closure
    task = np.int64(output.queue[0])
    count, source, label = tasks[task, layout.TASK_COUNT], tasks[task, layout.SOURCE], tasks[task, layout.LABEL]
    for place in range(count):
        copy_element(output.elements, tasks[task, layout.TASK_FIRST] + place, closure, place)
    if not has_room_for_strings(lattice, tree, scratch, count):
        return layout.MORE_NODES
    prefix, graph, acoustic = normalize(tree, scratch, count)
    forward = output.forward[source] + (np.float64(graph) + np.float64(acoustic))
    bucket = bucket_of_subset(closure, np.int64(0), count, len(output.subset_heads))
    subset = find_subset(output, scratch, output.subsets, np.int64(output.subset_heads[bucket]), count)
    if subset >= 0:
        _pop_task(output)
    else:
        subset = _new_subset(lattice, tree, output, scratch, count, forward, bucket)
        if subset < 0:
            return layout.MORE_NODES
    counts[layout.CHECKED] = 0
    arc = counts[layout.NUM_ARCS]
    counts[layout.NUM_ARCS] += 1
    string = appended(tree, prefix, output.subsets[subset, layout.PREFIX], np.int64(0), scratch.symbols)
    output.arcs[arc, layout.ARC_SOURCE], output.arcs[arc, layout.ARC_LABEL] = source, label
    output.arcs[arc, layout.ARC_STRING] = string
    output.arcs[arc, layout.ARC_TARGET] = output.subsets[subset, layout.TARGET]
    output.arc_costs[arc, 0] = graph + output.subset_costs[subset, 0]
    output.arc_costs[arc, 1] = acoustic + output.subset_costs[subset, 1]
    return layout.DONE


@inline
def _new_subset(lattice: Input, tree: Tree, output: Output, scratch: Scratch, count: int, forward: float,
                bucket: int) -> int:
    """Store the normalized subset in ``closure``, to which the first task leads; find or make its state.

    Return the row of the subset in ``output.subsets``; -1 if the tree of strings is full: then the task stays in the
    queue.
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
    first = output.tasks[output.queue[0], layout.TASK_FIRST]
    for place in range(count):           # the elements of the subset, normalized
        copy_element(scratch.moves, saved + place, output.elements, first + place)
    _pop_task(output)
    state_bucket = bucket_of_subset(scratch.closure, np.int64(0), num_closed, len(output.state_heads))
    state = find_subset(output, scratch, output.states, np.int64(output.state_heads[state_bucket]), num_closed)
    if state < 0:
        further = forward + (np.float64(graph) + np.float64(acoustic))
        state = _make_state(lattice, tree, output, scratch, num_closed, further, state_bucket)
    entry = counts[layout.NUM_SUBSETS]
    counts[layout.NUM_SUBSETS] += 1
    counts[layout.NUM_STORED] += count
    output.subsets[entry, layout.FIRST], output.subsets[entry, layout.COUNT] = first, count
    output.subsets[entry, layout.TARGET], output.subsets[entry, layout.PREFIX] = state, prefix
    output.subset_costs[entry, 0], output.subset_costs[entry, 1] = graph, acoustic
    output.subsets[entry, layout.NEXT_ENTRY] = output.subset_heads[bucket]
    output.subset_heads[bucket] = entry
    return np.int64(entry)


@inline
def _make_state(lattice: Input, tree: Tree, output: Output, scratch: Scratch, count: int, forward: float,
                bucket: int) -> int:
    """Make a state for the subset in ``closure``, with its final weight and its tasks; return its number."""
    counts = output.counts
    state = counts[layout.NUM_STATES]
    counts[layout.NUM_STATES] += 1
    output.states[state, layout.FIRST], output.states[state, layout.COUNT] = store_subset(output, scratch, count), count
    output.states[state, layout.NEXT_ENTRY] = output.state_heads[bucket]
    output.state_heads[bucket] = state
    output.forward[state] = forward
    _set_final(lattice, tree, output, scratch, count, state)
    _add_tasks(lattice, tree, output, scratch, count, state)
    return np.int64(state)


@inline
def _set_final(lattice: Input, tree: Tree, output: Output, scratch: Scratch, count: int, state: int) -> None:
    """Set the final weight of a state to the best one of the subset in ``closure``, if that is within the beam."""
    closure, costs, finals = scratch.closure, scratch.closure_costs, output.final_costs
    finals[state, 0] = finals[state, 1] = np.float32(np.inf)
    best = np.int64(-1)
    for i in range(count):
        member = closure[i, layout.STATE]
        if lattice.final_costs[member, 0] + lattice.final_costs[member, 1] == _NO_PATH:
            continue
        graph = costs[i, layout.GRAPH] + lattice.final_costs[member, 0]
        acoustic = costs[i, layout.ACOUSTIC] + lattice.final_costs[member, 1]
        string = np.int64(closure[i, layout.STRING])
        new, old = graph + acoustic, finals[state, 0] + finals[state, 1]
        if best < 0 or new < old or (new == old and (graph < finals[state, 0] or (
                graph == finals[state, 0] and string_is_better(tree, string, best)))):
            finals[state, 0], finals[state, 1], best = graph, acoustic, string
    total = np.float64(finals[state, 0]) + np.float64(finals[state, 1]) + output.forward[state]
    if best >= 0 and total <= output.limits[layout.CUTOFF]:
        output.final_strings[state] = best
        output.counts[layout.NUM_FINALS] += 1
    else:
        output.final_strings[state] = -1
        finals[state, 0] = finals[state, 1] = np.float32(np.inf)


@inline
def _add_tasks(lattice: Input, tree: Tree, output: Output, scratch: Scratch, count: int, state: int) -> None:
    """Add a task for each label on arcs that leave the subset in ``closure``, if its best path is within the beam."""
    closure, costs, moves, move_costs = scratch.closure, scratch.closure_costs, scratch.moves, scratch.move_costs
    num_moves = np.int64(0)
    for i in range(count):
        member = closure[i, layout.STATE]
        for arc in range(lattice.epsilon_ends[member], lattice.arc_starts[member + 1]):
            string = np.int64(closure[i, layout.STRING])
            if lattice.symbols[arc] != 0:
                string = successor(tree, string, lattice.symbols[arc])
            moves[num_moves, layout.STATE], moves[num_moves, layout.STRING] = lattice.next_states[arc], string
            move_costs[num_moves, layout.GRAPH] = costs[i, layout.GRAPH] + lattice.costs[arc, 0]
            move_costs[num_moves, layout.ACOUSTIC] = costs[i, layout.ACOUSTIC] + lattice.costs[arc, 1]
            scratch.keys[num_moves] = (np.int64(lattice.labels[arc]) << 32) | np.int64(lattice.next_states[arc])
            scratch.order[num_moves] = num_moves
            num_moves += 1
    sort(scratch.keys, scratch.order, num_moves)
    place = np.int64(0)
    while place < num_moves:
        label, end, priority = scratch.keys[place] >> 32, place, _NO_PATH
        while end < num_moves and scratch.keys[end] >> 32 == label:
            move = scratch.order[end]
            cost = np.float64(move_costs[move, layout.GRAPH]) + np.float64(move_costs[move, layout.ACOUSTIC])
            priority = min(priority, cost + lattice.backward[moves[move, layout.STATE]])
            end += 1
        priority += output.forward[state]
        if priority <= output.limits[layout.CUTOFF]:
            _add_task(tree, output, scratch, place, end, state, label, priority)
        place = end


@inline
def _add_task(tree: Tree, output: Output, scratch: Scratch, place: int, end: int, state: int, label: int,
              priority: float) -> None:
    """Add a task with the elements ``moves[order[place:end]]``; of elements with the same state the best one is kept.
    """
    counts, elements, moves = output.counts, output.elements, scratch.moves
    first = counts[layout.NUM_ELEMENTS]
    count = np.int64(0)
    for i in range(place, end):
        move = np.int64(scratch.order[i])
        last = first + count - 1
        if count == 0 or elements[last, layout.STATE] != moves[move, layout.STATE]:
            copy_element(moves, move, elements, last + 1)
            count += 1
        elif is_better(tree, output.element_costs, last, np.int64(moves[move, layout.STRING]),
                        scratch.move_costs[move, layout.GRAPH], scratch.move_costs[move, layout.ACOUSTIC],
                        np.int64(elements[last, layout.STRING])):
            copy_element(moves, move, elements, last)
    counts[layout.NUM_ELEMENTS] += count
    task = counts[layout.FREE_TASK]
    if task >= 0:
        counts[layout.FREE_TASK] = output.tasks[task, layout.SOURCE]
    else:
        task = counts[layout.NUM_TASKS]
        counts[layout.NUM_TASKS] += 1
    output.tasks[task, layout.SOURCE], output.tasks[task, layout.LABEL] = state, label
    output.tasks[task, layout.TASK_FIRST], output.tasks[task, layout.TASK_COUNT] = first, count
    output.priorities[task] = priority
    _sift_up(output, counts[layout.NUM_QUEUED], task)
    counts[layout.NUM_QUEUED] += 1


@inline
def _sift_up(output: Output, place: int, task: int) -> None:
    queue, priorities = output.queue, output.priorities
    while place > 0 and priorities[queue[(place - 1) // 2]] > priorities[task]:
        queue[place] = queue[(place - 1) // 2]
        place = (place - 1) // 2
    queue[place] = task


@inline
def _pop_task(output: Output) -> None:
    """Remove the first task from the queue.

    Tasks of equal priority leave it in the same order as from std::priority_queue, so that results equal Kaldi's: the
    gap moves down to a leaf, the last task is put there and moves up.
    """
    queue, priorities, counts = output.queue, output.priorities, output.counts
    task = queue[0]
    counts[layout.NUM_QUEUED] -= 1
    count, place = counts[layout.NUM_QUEUED], np.int64(0)
    while 2 * place + 1 < count:
        child = 2 * place + 2
        if child >= count or priorities[queue[child]] > priorities[queue[child - 1]]:
            child -= 1
        queue[place] = queue[child]
        place = child
    _sift_up(output, place, queue[count])
    output.tasks[task, layout.SOURCE] = counts[layout.FREE_TASK]
    counts[layout.FREE_TASK] = task


# -- tables ------------------------------------------------------------------------------------------------------------


def rebuild_table(entries: np.ndarray, count: int, elements: np.ndarray, heads: np.ndarray) -> None:
    """Insert the first ``count`` subsets of ``entries`` into the hash table ``heads``, each at the front of its bucket.
    """
    for bucket in range(len(heads)):
        heads[bucket] = -1
    for entry in range(count):
        bucket = bucket_of_subset(elements, entries[entry, layout.FIRST], entries[entry, layout.COUNT], len(heads))
        entries[entry, layout.NEXT_ENTRY] = heads[bucket]
        heads[bucket] = entry


@inline
def _mark(nodes: np.ndarray, needed: np.ndarray, string: int) -> None:
    while string >= 0 and not needed[string]:
        needed[string] = 1
        string = np.int64(nodes[string, layout.PARENT])


@by_arrays
def drop_strings(tree: Tree, output: Output, needed: np.ndarray) -> None:
    """Drop all strings that nothing refers to. ``needed`` (uint8, zeros) has room for all nodes."""
    nodes, counts, elements, tasks = tree.nodes, tree.counts, output.elements, output.tasks
    needed[0] = 1
    for state in range(counts[layout.NUM_STATES]):
        _mark(nodes, needed, np.int64(output.final_strings[state]))
        first = output.states[state, layout.FIRST]
        for place in range(first, first + output.states[state, layout.COUNT]):
            _mark(nodes, needed, np.int64(elements[place, layout.STRING]))
    for entry in range(counts[layout.NUM_SUBSETS]):
        _mark(nodes, needed, output.subsets[entry, layout.PREFIX])
        first = output.subsets[entry, layout.FIRST]
        for place in range(first, first + output.subsets[entry, layout.COUNT]):
            _mark(nodes, needed, np.int64(elements[place, layout.STRING]))
    for arc in range(counts[layout.NUM_ARCS]):
        _mark(nodes, needed, np.int64(output.arcs[arc, layout.ARC_STRING]))
    for waiting in range(counts[layout.NUM_QUEUED]):
        task = output.queue[waiting]
        first = tasks[task, layout.TASK_FIRST]
        for place in range(first, first + tasks[task, layout.TASK_COUNT]):
            _mark(nodes, needed, np.int64(elements[place, layout.STRING]))
    counts[layout.NUM_LIVE_NODES] = 0
    counts[layout.FREE_NODE] = -1
    for node in range(1, counts[layout.NUM_NODES]):
        if needed[node]:
            counts[layout.NUM_LIVE_NODES] += 1
        else:
            nodes[node, layout.PARENT] = layout.UNUSED
            nodes[node, layout.NEXT_NODE] = counts[layout.FREE_NODE]
            counts[layout.FREE_NODE] = node
