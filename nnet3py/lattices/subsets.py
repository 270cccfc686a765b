"""Subsets of a lattice's states, as determinization makes them. Compiled; arrays: ``subset_layout.py``."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.engine.inline import inline
from nnet3py.lattices.string_tree import Tree, appended, common_prefix, string_is_better, successor
from nnet3py.lattices.subset_layout import (
    ACOUSTIC,
    COUNT,
    DELTA,
    FIRST,
    GRAPH,
    LENGTH,
    NEXT_ENTRY,
    NUM_ELEMENTS,
    NUM_NODES,
    NUM_STORED,
    STATE,
    STRING,
)


class Input(NamedTuple):
    """A lattice with states sorted topologically and arcs by label, and what is known about its states."""

    arc_starts: np.ndarray
    epsilon_ends: np.ndarray
    labels: np.ndarray
    symbols: np.ndarray
    costs: np.ndarray
    next_states: np.ndarray
    final_costs: np.ndarray
    kept: np.ndarray
    backward: np.ndarray


class Output(NamedTuple):
    """States, arcs and final weights so far; the subsets met, the tasks, and the tables for finding them."""

    states: np.ndarray
    state_heads: np.ndarray
    forward: np.ndarray
    final_strings: np.ndarray
    final_costs: np.ndarray
    subsets: np.ndarray
    subset_costs: np.ndarray
    subset_heads: np.ndarray
    arcs: np.ndarray
    arc_costs: np.ndarray
    tasks: np.ndarray
    priorities: np.ndarray
    queue: np.ndarray
    elements: np.ndarray
    element_costs: np.ndarray
    counts: np.ndarray
    limits: np.ndarray


class Scratch(NamedTuple):
    """``closure`` and ``moves`` are elements; ``slots`` (by state of the lattice) is -1 except inside a closure."""

    closure: np.ndarray
    closure_costs: np.ndarray
    moves: np.ndarray
    move_costs: np.ndarray
    slots: np.ndarray
    heap: np.ndarray
    keys: np.ndarray
    order: np.ndarray
    symbols: np.ndarray


# -- elements of subsets -----------------------------------------------------------------------------------------------


@inline
def most_nodes(lattice: Input) -> int:
    """The most nodes that a closure, the transitions of a state and the string of an arc can need."""
    return 2 * len(lattice.labels) + len(lattice.kept) + 1


@inline
def is_better(tree: Tree, costs: np.ndarray, i: int, string: int, graph: float, acoustic: float, other: int) -> bool:
    """Whether a string and its cost come before those of element ``i``, whose string is ``other``."""
    new, old = graph + acoustic, costs[i, GRAPH] + costs[i, ACOUSTIC]
    if new != old:
        return new < old
    if graph != costs[i, GRAPH]:
        return graph < costs[i, GRAPH]
    return string_is_better(tree, string, other)


@inline
def close(lattice: Input, tree: Tree, scratch: Scratch, count: int) -> int:
    """Follow arcs without labels from the elements in ``closure``, and keep what is needed, sorted by state."""
    closure, costs, slots, heap = scratch.closure, scratch.closure_costs, scratch.slots, scratch.heap
    queued = np.int64(0)
    for i in range(count):
        slots[closure[i, STATE]] = i
        queued = _queue_state(lattice, heap, queued, closure[i, STATE])
    while queued > 0:
        state = np.int64(heap[0])
        queued = _pop_least(heap, queued)
        i = slots[state]
        for arc in range(lattice.arc_starts[state], lattice.epsilon_ends[state]):
            graph = costs[i, GRAPH] + lattice.costs[arc, 0]
            acoustic = costs[i, ACOUSTIC] + lattice.costs[arc, 1]
            following = lattice.next_states[arc]
            slot = slots[following]
            if slot >= 0 and graph + acoustic > costs[slot, GRAPH] + costs[slot, ACOUSTIC]:
                continue
            string = np.int64(closure[i, STRING])
            if lattice.symbols[arc] != 0:
                string = successor(tree, string, lattice.symbols[arc])
            if slot < 0:
                slot = np.int32(count)
                slots[following] = slot
                closure[slot, STATE] = following
                count += 1
                queued = _queue_state(lattice, heap, queued, following)
            elif not is_better(tree, costs, slot, string, graph, acoustic, np.int64(closure[slot, STRING])):
                continue
            closure[slot, STRING] = string
            costs[slot, GRAPH], costs[slot, ACOUSTIC] = graph, acoustic
    return _keep_needed(lattice, scratch, count)


@inline
def _queue_state(lattice: Input, heap: np.ndarray, queued: int, state: int) -> int:
    if lattice.epsilon_ends[state] == lattice.arc_starts[state]:
        return queued
    place = queued
    while place > 0 and heap[(place - 1) // 2] > state:
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = state
    return queued + 1


@inline
def _pop_least(heap: np.ndarray, queued: int) -> int:
    queued -= 1
    last, place = heap[queued], np.int64(0)
    while 2 * place + 1 < queued:
        child = 2 * place + 1
        if child + 1 < queued and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = last
    return queued


@inline
def _keep_needed(lattice: Input, scratch: Scratch, count: int) -> int:
    """Move the elements whose states are final or have labels to ``moves``, sorted by state; how many these are."""
    closure, moves, keys, order = scratch.closure, scratch.moves, scratch.keys, scratch.order
    num_kept = np.int64(0)
    for i in range(count):
        state = closure[i, STATE]
        scratch.slots[state] = -1
        if lattice.kept[state]:
            keys[num_kept], order[num_kept] = state, i
            num_kept += 1
    sort(keys, order, num_kept)
    for place in range(num_kept):
        copy_element(closure, order[place], moves, place)
    for place in range(num_kept):
        copy_element(moves, place, closure, place)
    return num_kept


@inline
def copy_element(source: np.ndarray, i: int, target: np.ndarray, place: int) -> None:
    """Copy element ``i`` of a subset to row ``place`` of ``target``."""
    target[place, STATE], target[place, STRING] = source[i, STATE], source[i, STRING]
    target[place, GRAPH], target[place, ACOUSTIC] = source[i, GRAPH], source[i, ACOUSTIC]


@inline
def sort(keys: np.ndarray, order: np.ndarray, count: int) -> None:
    """Sort keys, and numbers along with them (Shell's method)."""
    gap = np.int64(1)
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            key, number, place = keys[i], order[i], np.int64(i)
            while place >= gap and keys[place - gap] > key:
                keys[place], order[place] = keys[place - gap], order[place - gap]
                place -= gap
            keys[place], order[place] = key, number
        gap //= 3


@inline
def normalize(tree: Tree, scratch: Scratch, count: int) -> tuple[int, float, float]:
    """Take the least cost and the common prefix off the elements in ``closure``: prefix, graph and acoustic cost."""
    closure, costs = scratch.closure, scratch.closure_costs
    graph, acoustic, prefix = costs[0, GRAPH], costs[0, ACOUSTIC], np.int64(closure[0, STRING])
    for i in range(1, count):
        new, old = costs[i, GRAPH] + costs[i, ACOUSTIC], graph + acoustic
        if new < old or (new == old and costs[i, GRAPH] < graph):
            graph, acoustic = costs[i, GRAPH], costs[i, ACOUSTIC]
        prefix = common_prefix(tree, prefix, np.int64(closure[i, STRING]))
    skipped = np.int64(tree.nodes[prefix, LENGTH])
    for i in range(count):
        costs[i, GRAPH] -= graph
        costs[i, ACOUSTIC] -= acoustic
        if skipped > 0:
            closure[i, STRING] = appended(tree, np.int64(0), np.int64(closure[i, STRING]), skipped, scratch.symbols)
    return prefix, graph, acoustic


@inline
def has_room_for_strings(lattice: Input, tree: Tree, scratch: Scratch, count: int) -> bool:
    """Whether the strings in ``closure`` can all be made again, with room left for :func:`most_nodes`."""
    wanted = np.int64(0)
    for i in range(count):
        wanted += tree.nodes[scratch.closure[i, STRING], LENGTH]
    return tree.counts[NUM_NODES] + wanted + most_nodes(lattice) <= len(tree.nodes)


@inline
def bucket_of_subset(elements: np.ndarray, first: int, count: int, num_buckets: int) -> int:
    """Where in a hash table a subset of ``count`` elements belongs."""
    mixed = np.uint64(count)
    for i in range(first, first + count):
        word = (np.uint64(elements[i, STATE]) << np.uint64(32)) | np.uint64(elements[i, STRING])
        mixed = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(num_buckets - 1))


@inline
def find_subset(output: Output, scratch: Scratch, entries: np.ndarray, entry: int, count: int) -> int:
    """The entry, from ``entry`` on in its bucket, whose subset is about equal to that in ``closure``, or -1."""
    closure, costs, delta = scratch.closure, scratch.closure_costs, np.float32(output.limits[DELTA])
    while entry >= 0:
        same, first = entries[entry, COUNT] == count, entries[entry, FIRST]
        place = np.int64(0)
        while same and place < count:
            other = first + place
            same = (output.elements[other, STATE] == closure[place, STATE]
                    and output.elements[other, STRING] == closure[place, STRING])
            apart = (output.element_costs[other, GRAPH] + output.element_costs[other, ACOUSTIC]) - (
                costs[place, GRAPH] + costs[place, ACOUSTIC])
            same = same and abs(apart) <= delta
            place += 1
        if same:
            return np.int64(entry)
        entry = entries[entry, NEXT_ENTRY]
    return np.int64(-1)


@inline
def store_subset(output: Output, scratch: Scratch, count: int) -> int:
    """Store the subset in ``closure``; returns where it begins."""
    first = output.counts[NUM_ELEMENTS]
    for place in range(count):
        copy_element(scratch.closure, place, output.elements, first + place)
    output.counts[NUM_ELEMENTS] += count
    output.counts[NUM_STORED] += count
    return np.int64(first)
