"""Subsets of a lattice's states and strings of transition-ids, as determinization makes them, in compiled code.

The arrays are those of ``determinize_layout.py``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline
from nnet3py.lattices import determinize_layout as layout
from nnet3py.lattices.determinize_layout import Input, Output, Scratch, Tree
from nnet3py.lattices.structures import by_arrays

# -- strings -----------------------------------------------------------------------------------------------------------


@inline
def bucket_of(tree: Tree, parent: int, symbol: int) -> int:
    """Return the bucket of a string in the hash table."""
    mixed = np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(symbol) * np.uint64(0xC2B2AE3D27D4EB4F)
    return np.int64((mixed >> np.uint64(20)) & np.uint64(len(tree.heads) - 1))


@inline
def successor(tree: Tree, string: int, symbol: int) -> int:
    """Return the string (node) that is ``string`` with ``symbol`` appended. There must be room for a new node."""
    nodes, counts = tree.nodes, tree.counts
    bucket = bucket_of(tree, string, symbol)
    node = np.int64(tree.heads[bucket])
    while node >= 0 and not (nodes[node, layout.PARENT] == string and nodes[node, layout.SYMBOL] == symbol):
        node = np.int64(nodes[node, layout.NEXT_NODE])
    if node >= 0:
        return node
    node = counts[layout.FREE_NODE]
    if node >= 0:
        counts[layout.FREE_NODE] = nodes[node, layout.NEXT_NODE]
    else:
        node = counts[layout.NUM_NODES]
        counts[layout.NUM_NODES] += 1
    counts[layout.NUM_LIVE_NODES] += 1
    nodes[node, layout.PARENT], nodes[node, layout.SYMBOL] = string, symbol
    nodes[node, layout.LENGTH] = nodes[string, layout.LENGTH] + 1
    nodes[node, layout.NEXT_NODE] = tree.heads[bucket]
    tree.heads[bucket] = node
    return np.int64(node)


@inline
def common_prefix(tree: Tree, left: int, right: int) -> int:
    """Return the longest common prefix of two strings."""
    nodes = tree.nodes
    while left != right:
        if nodes[left, layout.LENGTH] >= nodes[right, layout.LENGTH]:
            left = np.int64(nodes[left, layout.PARENT])
        else:
            right = np.int64(nodes[right, layout.PARENT])
    return left


@inline
def appended(tree: Tree, string: int, tail: int, skipped: int, scratch: np.ndarray) -> int:
    """Return ``string`` followed by ``tail`` without its first ``skipped`` symbols. There must be room for their nodes.
    """
    count = np.int64(tree.nodes[tail, layout.LENGTH]) - skipped
    node = np.int64(tail)
    for place in range(count - 1, -1, -1):
        scratch[place] = tree.nodes[node, layout.SYMBOL]
        node = np.int64(tree.nodes[node, layout.PARENT])
    for place in range(count):
        string = successor(tree, string, scratch[place])
    return np.int64(string)


@inline
def string_is_better(tree: Tree, left: int, right: int) -> bool:
    """Return whether ``left`` is shorter than ``right`` or, if equally long, lexicographically first."""
    nodes = tree.nodes
    if left == right:
        return False
    if nodes[left, layout.LENGTH] != nodes[right, layout.LENGTH]:
        return nodes[left, layout.LENGTH] < nodes[right, layout.LENGTH]
    while nodes[left, layout.PARENT] != nodes[right, layout.PARENT]:
        left, right = np.int64(nodes[left, layout.PARENT]), np.int64(nodes[right, layout.PARENT])
    return nodes[left, layout.SYMBOL] < nodes[right, layout.SYMBOL]


@by_arrays
def rebuild_heads(tree: Tree) -> None:
    """Insert all nodes that are in use into the hash table ``tree.heads``, for example after it was enlarged."""
    nodes, heads, counts = tree.nodes, tree.heads, tree.counts
    for bucket in range(len(heads)):
        heads[bucket] = -1
    for node in range(1, counts[layout.NUM_NODES]):
        if nodes[node, layout.PARENT] >= 0:
            bucket = bucket_of(tree, nodes[node, layout.PARENT], nodes[node, layout.SYMBOL])
            nodes[node, layout.NEXT_NODE] = heads[bucket]
            heads[bucket] = node


def write_strings(nodes: np.ndarray, strings: np.ndarray, starts: np.ndarray, ids: np.ndarray) -> None:
    """Write the symbols of ``strings[i]`` to ``ids`` from ``starts[i]`` on, for all i."""
    for i in range(len(strings)):
        node = np.int64(strings[i])
        for place in range(starts[i + 1] - 1, starts[i] - 1, -1):
            ids[place] = nodes[node, layout.SYMBOL]
            node = np.int64(nodes[node, layout.PARENT])


# -- elements of subsets -----------------------------------------------------------------------------------------------


@inline
def most_nodes(lattice: Input) -> int:
    """Return the largest number of nodes that closing a subset, its transitions and the string of an arc can add."""
    return 2 * len(lattice.labels) + len(lattice.kept) + 1


@inline
def is_better(tree: Tree, costs: np.ndarray, i: int, string: int, graph: float, acoustic: float, other: int) -> bool:
    """Return whether a string with its costs is better than element ``i`` of a subset, whose string is ``other``."""
    new, old = graph + acoustic, costs[i, layout.GRAPH] + costs[i, layout.ACOUSTIC]
    if new != old:
        return new < old
    if graph != costs[i, layout.GRAPH]:
        return graph < costs[i, layout.GRAPH]
    return string_is_better(tree, string, other)


@inline
def close(lattice: Input, tree: Tree, scratch: Scratch, count: int) -> int:
    """Close the subset of ``count`` elements in ``closure`` under epsilon arcs; return the new number of elements.

    Of several paths to a state the best is kept. Elements whose states are neither final nor have labels are dropped;
    the others are sorted by state.
    """
    closure, costs, slots, heap = scratch.closure, scratch.closure_costs, scratch.slots, scratch.heap
    queued = np.int64(0)
    for i in range(count):
        slots[closure[i, layout.STATE]] = i
        queued = _queue_state(lattice, heap, queued, closure[i, layout.STATE])
    while queued > 0:
        state = np.int64(heap[0])
        queued = _pop_least(heap, queued)
        i = slots[state]
        for arc in range(lattice.arc_starts[state], lattice.epsilon_ends[state]):
            graph = costs[i, layout.GRAPH] + lattice.costs[arc, 0]
            acoustic = costs[i, layout.ACOUSTIC] + lattice.costs[arc, 1]
            following = lattice.next_states[arc]
            slot = slots[following]
            if slot >= 0 and graph + acoustic > costs[slot, layout.GRAPH] + costs[slot, layout.ACOUSTIC]:
                continue
            string = np.int64(closure[i, layout.STRING])
            if lattice.symbols[arc] != 0:
                string = successor(tree, string, lattice.symbols[arc])
            if slot < 0:
                slot = np.int32(count)
                slots[following] = slot
                closure[slot, layout.STATE] = following
                count += 1
                queued = _queue_state(lattice, heap, queued, following)
            elif not is_better(tree, costs, slot, string, graph, acoustic, np.int64(closure[slot, layout.STRING])):
                continue
            closure[slot, layout.STRING] = string
            costs[slot, layout.GRAPH], costs[slot, layout.ACOUSTIC] = graph, acoustic
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
    """Keep the elements in ``closure`` whose states are final or have labels, sorted by state; return their number."""
    closure, moves, keys, order = scratch.closure, scratch.moves, scratch.keys, scratch.order
    num_kept = np.int64(0)
    for i in range(count):
        state = closure[i, layout.STATE]
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
    """Copy row ``i`` of ``source`` to row ``place`` of ``target``."""
    target[place, layout.STATE], target[place, layout.STRING] = source[i, layout.STATE], source[i, layout.STRING]
    target[place, layout.GRAPH], target[place, layout.ACOUSTIC] = source[i, layout.GRAPH], source[i, layout.ACOUSTIC]


@inline
def sort(keys: np.ndarray, order: np.ndarray, count: int) -> None:
    """Sort the first ``count`` keys in place, and ``order`` along with them (Shell's method)."""
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
    """Subtract the least cost and the common prefix from the elements in ``closure``.

    Return the prefix (node), graph and acoustic cost that were subtracted.
    """
    closure, costs = scratch.closure, scratch.closure_costs
    graph, acoustic, prefix = costs[0, layout.GRAPH], costs[0, layout.ACOUSTIC], np.int64(closure[0, layout.STRING])
    for i in range(1, count):
        new, old = costs[i, layout.GRAPH] + costs[i, layout.ACOUSTIC], graph + acoustic
        if new < old or (new == old and costs[i, layout.GRAPH] < graph):
            graph, acoustic = costs[i, layout.GRAPH], costs[i, layout.ACOUSTIC]
        if prefix > 0:                # once it is empty, strings of dozens of symbols need not be followed
            prefix = common_prefix(tree, prefix, np.int64(closure[i, layout.STRING]))
    skipped = np.int64(tree.nodes[prefix, layout.LENGTH])
    for i in range(count):
        costs[i, layout.GRAPH] -= graph
        costs[i, layout.ACOUSTIC] -= acoustic
        if skipped > 0:
            string = np.int64(closure[i, layout.STRING])
            closure[i, layout.STRING] = appended(tree, np.int64(0), string, skipped, scratch.symbols)
    return prefix, graph, acoustic


@inline
def has_room_for_strings(lattice: Input, tree: Tree, scratch: Scratch, count: int) -> bool:
    """Return whether the tree has room for new copies of the strings in ``closure`` and for :func:`most_nodes` more."""
    wanted = np.int64(0)
    for i in range(count):
        wanted += tree.nodes[scratch.closure[i, layout.STRING], layout.LENGTH]
    return tree.counts[layout.NUM_NODES] + wanted + most_nodes(lattice) <= len(tree.nodes)


@inline
def bucket_of_subset(elements: np.ndarray, first: int, count: int, num_buckets: int) -> int:
    """Return the bucket, in a hash table, of the subset of elements ``first`` to ``first`` + ``count`` - 1."""
    mixed = np.uint64(count)
    for i in range(first, first + count):
        word = (np.uint64(elements[i, layout.STATE]) << np.uint64(32)) | np.uint64(elements[i, layout.STRING])
        mixed = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(num_buckets - 1))


@inline
def find_subset(output: Output, scratch: Scratch, entries: np.ndarray, entry: int, count: int) -> int:
    """Return the row of ``entries`` whose subset equals that in ``closure``, costs up to delta; -1 if there is none.

    ``entry`` is the first row of the subset's bucket.
    """
    closure, costs, delta = scratch.closure, scratch.closure_costs, np.float32(output.limits[layout.DELTA])
    while entry >= 0:
        same, first = entries[entry, layout.COUNT] == count, entries[entry, layout.FIRST]
        place = np.int64(0)
        while same and place < count:
            other = first + place
            same = (output.elements[other, layout.STATE] == closure[place, layout.STATE]
                    and output.elements[other, layout.STRING] == closure[place, layout.STRING])
            apart = (output.element_costs[other, layout.GRAPH] + output.element_costs[other, layout.ACOUSTIC]) - (
                costs[place, layout.GRAPH] + costs[place, layout.ACOUSTIC])
            same = same and abs(apart) <= delta
            place += 1
        if same:
            return np.int64(entry)
        entry = entries[entry, layout.NEXT_ENTRY]
    return np.int64(-1)


@inline
def store_subset(output: Output, scratch: Scratch, count: int) -> int:
    """Append the elements in ``closure`` to ``output.elements``; return the row of the first."""
    first = output.counts[layout.NUM_ELEMENTS]
    for place in range(count):
        copy_element(scratch.closure, place, output.elements, first + place)
    output.counts[layout.NUM_ELEMENTS] += count
    output.counts[layout.NUM_STORED] += count
    return np.int64(first)
