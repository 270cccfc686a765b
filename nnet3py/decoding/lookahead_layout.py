"""The layout of the arrays of graphs that are composed while decoding, and what their loops return. Light."""
from __future__ import annotations

# Counts (int64) that are kept between calls: states and arcs made, and the place in the list of states wanted.
# For grammars also the number of instances, and where something is wrong: state, nonterminal, phone.
NUM_STATES, NUM_ARCS, PLACE, NUM_INSTANCES, BAD_STATE, BAD_NAME, BAD_PHONE, NUM_COUNTS = range(8)

# An instance: a graph that was called, the calling instance, the state of the caller's graph to return to (numbered
# over all graphs), and the depth.
GRAPH, CALLER, RETURN, DEPTH, INSTANCE_WORDS = range(5)
MOST_DEPTH = 10_000            # of calls without an end

# What the loops return: done, or what they need to continue; for grammars, what is wrong.
DONE, MORE_STATES, MORE_ARCS, MORE_INSTANCES, NO_GRAPH, NO_ENTRY, TOO_DEEP = range(7)

# What is noted of a state of HCL: it has arcs without transition-id, it is final.
HAS_FREE_ARCS, CAN_END = 1, 2
