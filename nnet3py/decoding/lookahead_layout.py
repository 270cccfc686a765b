"""How the arrays of graphs that are composed while decoding are laid out, and what their loops answer. Light."""
from __future__ import annotations

# Counts (int64) that are kept between calls: states and arcs made, and the place in the list of states wanted.
# Of grammars also how many instances there are, and where something is wrong: state, nonterminal, phone.
NUM_STATES, NUM_ARCS, PLACE, NUM_INSTANCES, BAD_STATE, BAD_NAME, BAD_PHONE, NUM_COUNTS = range(8)

# An instance: a graph that was called, from which instance, to which state of that one's graph it returns (numbered
# over all graphs), and how deep it is.
GRAPH, CALLER, RETURN, DEPTH, INSTANCE_WORDS = range(5)
MOST_DEPTH = 10_000            # of calls without an end

# What the loops answer: done, or what they need before they go on; in grammars, what is wrong.
DONE, MORE_STATES, MORE_ARCS, MORE_INSTANCES, NO_GRAPH, NO_ENTRY, TOO_DEEP = range(7)

# Least costs are kept of that many arcs of G together, and of that many such blocks.
BLOCK = 32
# Back-off arcs of G that are followed to see what can be said; beyond that everything is thought possible.
MOST_BACKOFFS = 100
