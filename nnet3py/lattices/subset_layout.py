"""The layout of the arrays of lattice determinization, and what its loops return. Light.

Rows that include costs are of 32-bit words; arrays of integers and of floats then share their memory.
"""
from __future__ import annotations

# A node of the tree of strings: its parent (-1: the empty string; -2: not in use), its last symbol, its length, and the
# next node in its bucket (or the next one not in use).
PARENT, SYMBOL, LENGTH, NEXT_NODE, NODE_WORDS = 0, 1, 2, 3, 4
UNUSED = -2
# An element of a subset: a state of the lattice, a string, graph and acoustic cost (floats).
STATE, STRING, GRAPH, ACOUSTIC, ELEMENT_WORDS = 0, 1, 2, 3, 4
# A state of the output, or a subset met before: its elements, the next one in its bucket; for a subset also the state
# that it leads to and the string that precedes it.
FIRST, COUNT, NEXT_ENTRY, TARGET, PREFIX, ENTRY_WORDS = 0, 1, 2, 3, 4, 5
# A task, a transition yet to be made: its source, its label, its elements.
SOURCE, LABEL, TASK_FIRST, TASK_COUNT, TASK_WORDS = 0, 1, 2, 3, 4
# An arc of the output.
ARC_SOURCE, ARC_LABEL, ARC_STRING, ARC_TARGET, ARC_WORDS = 0, 1, 2, 3, 4

# Counts (int64) that are kept between calls, and settings.
(NUM_NODES, NUM_LIVE_NODES, FREE_NODE, NUM_ELEMENTS, NUM_STORED, NUM_STATES, NUM_SUBSETS, NUM_ARCS, NUM_FINALS,
 NUM_TASKS, FREE_TASK, NUM_QUEUED, CHECKED, MAX_MEMORY, MAX_STATES, MAX_ARCS, NUM_COUNTS) = range(17)
# Costs (float64).
BEST, CUTOFF, DELTA, NUM_COSTS = 0, 1, 2, 3

# What the loops return: done, or what they need to continue; TOO_LARGE: max-mem is exceeded.
(DONE, MORE_NODES, MORE_HEADS, MORE_ELEMENTS, MORE_STATES, MORE_SUBSETS, MORE_ARCS, MORE_TASKS, TOO_LARGE,
 STOPPED) = range(10)

# The bytes that Kaldi counts for a node of the tree, an arc and an element.
NODE_BYTES, ARC_BYTES, ELEMENT_BYTES = 32, 32, 24
