"""The arrays of lattice determinization: structures that hold them, names of their columns, return values of the loops.

Rows with costs and integers are stored once and viewed twice: as int32 for integers, as float32 for costs.
"""
from __future__ import annotations

from typing import NamedTuple

from nnet3py.lattices.structures import Bytes, Float32Rows, Float64s, Int32Rows, Int32s, Int64Rows, Int64s

# Columns of a node of the tree of strings: its parent (-1: the empty string; -2: not in use), last symbol, length, and
# the next node in its bucket (or the next node not in use).
PARENT, SYMBOL, LENGTH, NEXT_NODE, NODE_WORDS = range(5)
UNUSED = -2
# Columns of an element of a subset: a state of the lattice, a string, graph and acoustic cost (floats).
STATE, STRING, GRAPH, ACOUSTIC, ELEMENT_WORDS = range(5)
# Columns of a state of the output, and of a subset met before: first element, number of elements, next row in the
# bucket; for a subset also the state that it leads to, and the string that was removed from its elements.
FIRST, COUNT, NEXT_ENTRY, TARGET, PREFIX, ENTRY_WORDS = range(6)
# Columns of a task, a transition yet to be made: source state, label, first element, number of elements.
SOURCE, LABEL, TASK_FIRST, TASK_COUNT, TASK_WORDS = range(5)
# Columns of an arc of the output.
ARC_SOURCE, ARC_LABEL, ARC_STRING, ARC_TARGET, ARC_WORDS = range(5)

# Places of the counts (int64), which are kept between calls; CHECKED is 1 after memory was freed.
(NUM_NODES, NUM_LIVE_NODES, FREE_NODE, NUM_ELEMENTS, NUM_STORED, NUM_STATES, NUM_SUBSETS, NUM_ARCS, NUM_FINALS,
 NUM_TASKS, FREE_TASK, NUM_QUEUED, CHECKED, MAX_MEMORY, MAX_STATES, MAX_ARCS, NUM_COUNTS) = range(17)
# Places of the limits (float64): cost of the best path, highest cost of a path, difference of equal subsets' costs.
BEST, CUTOFF, DELTA, NUM_LIMITS = range(4)

# Return values of the loops: finished, the array to enlarge before the next call, max-mem exceeded, a limit reached.
(DONE, MORE_NODES, MORE_HEADS, MORE_ELEMENTS, MORE_STATES, MORE_SUBSETS, MORE_ARCS, MORE_TASKS, TOO_LARGE,
 STOPPED) = range(10)

# Bytes that Kaldi counts for a node of the tree, an arc and an element.
NODE_BYTES, ARC_BYTES, ELEMENT_BYTES = 32, 32, 24


class Input(NamedTuple):
    """A lattice with states sorted topologically and arcs by label."""

    arc_starts: Int64s
    epsilon_ends: Int64s  # for each state, the end of its arcs without label
    labels: Int32s
    symbols: Int32s       # transition-ids of arcs
    costs: Float32Rows
    next_states: Int32s
    final_costs: Float32Rows
    kept: Bytes           # 1 for states that are final or have arcs with labels: only these are elements of subsets
    backward: Float64s    # least cost from each state to a final state, final cost included


class Tree(NamedTuple):
    """Strings of transition-ids as nodes of a tree; node 0 is the empty string, equal strings are the same node."""

    nodes: Int32Rows  # rows with the columns PARENT to NEXT_NODE
    heads: Int32s     # hash table of nodes: the first node of each bucket, -1 for none; its size is a power of 2
    counts: Int64s    # the same array as ``Output.counts``


class Output(NamedTuple):
    """The lattice made so far, the subsets of states that were met, the queue of tasks, and hash tables.

    A subset's elements are input states, each with a string and a cost. A task is a transition that is yet to be made.
    """

    # states, subsets: rows with the columns FIRST to PREFIX
    states: Int64Rows
    state_heads: Int32s
    forward: Float64s      # least cost from the start to each state
    final_strings: Int32s  # nodes of the tree of strings; -1: not final
    final_costs: Float32Rows
    subsets: Int64Rows
    subset_costs: Float32Rows
    subset_heads: Int32s
    arcs: Int32Rows        # rows with the columns ARC_SOURCE to ARC_TARGET
    arc_costs: Float32Rows
    tasks: Int64Rows       # rows with the columns SOURCE to TASK_COUNT
    priorities: Float64s   # for each task, the cost of the best path through it
    queue: Int32s          # a heap of tasks, the least priority first
    # elements, element_costs: one array of rows with the columns STATE to ACOUSTIC, viewed as integers and as floats
    elements: Int32Rows
    element_costs: Float32Rows
    counts: Int64s
    limits: Float64s


class Scratch(NamedTuple):
    """Working memory."""

    closure: Int32Rows  # elements of the subset that is worked on
    # closure_costs, move_costs: the same memory viewed as floats
    closure_costs: Float32Rows
    moves: Int32Rows    # elements that the transitions from that subset lead to
    move_costs: Float32Rows
    slots: Int32s       # for each state of the lattice, its row in ``closure``; -1 if it has none
    heap: Int32s        # states whose epsilons are to be followed
    # keys, order: for sorting elements
    keys: Int64s
    order: Int64s
    symbols: Int32s     # a string's symbols
