"""How the arrays of graphs that are composed while decoding are laid out, and what their loops answer. Light."""
from __future__ import annotations

# Counts (int64) that are kept between calls: states and arcs made, and the place in the list of states wanted.
NUM_STATES, NUM_ARCS, PLACE, NUM_COUNTS = range(4)

# What the loops answer: done, or what they need before they go on.
DONE, MORE_STATES, MORE_ARCS = range(3)

# Least costs are kept of so many arcs of G together, and of so many such blocks.
BLOCK = 32
# Back-off arcs of G that are followed to see what can be said; beyond that everything is thought possible.
MOST_BACKOFFS = 100
