"""The layout of the lattice decoder's arrays, and what its loops return. Light.

A token is a state of the graph at one time, with the cost of the best way there. A link leads from a token to another
one of the same time (an arc without input label) or of the next. Both are rows of 32-bit words, including costs, so
that what is used together lies together; arrays of integers and of floats share their memory.
"""
from __future__ import annotations

# A state of the graph, as OpenFst's const files have it: its final cost (a float), the number of its first arc, how
# many arcs it has, how many of them have no input label, and how many no output label (in n-gram models instead: the
# state that it backs off to).
FINAL, FIRST_ARC, NUM_ARCS, NUM_EPSILONS, PARENT, STATE_WORDS = 0, 1, 2, 3, 4, 5
UNKNOWN_ARCS = 0xFFFFFFFF          # as the number of arcs: the state's arcs are made when they are needed; until then
                                   # the number of those without input label is 0 only if there will be none
# An arc of the graph, as OpenFst's files have it.
ARC_INPUT, ARC_OUTPUT, ARC_COST, ARC_NEXT, ARC_WORDS = 0, 1, 2, 3, 4

# A token: its state (-1: pruned), its cost (a float, less the offsets of the times before), how much worse than the
# best path the best one through it is (a float), its newest link, the next token in its bucket, and the token that
# it was best reached from.
STATE, TOTAL, EXTRA, LINKS, CHAIN, BACK, TOKEN_WORDS = 0, 1, 2, 3, 4, 5, 6
# A link: where it leads (-1: pruned), the next older one of its token, labels, graph and acoustic cost (floats).
TO, OLDER, INPUT, OUTPUT, GRAPH, ACOUSTIC, LINK_WORDS = 0, 1, 2, 3, 4, 5, 6
# A time: its first token and link, and whether to prune links and tokens.
FIRST_TOKEN, FIRST_LINK, PRUNE_LINKS, PRUNE_TOKENS, FRAME_WORDS = 0, 1, 2, 3, 4
# A bucket of the table of tokens: its first and last token.
BUCKET_WORDS = 2

# Counts (int64) that the loops keep between calls, and settings.
(NUM_TOKENS, NUM_LINKS, FRAME, ROW, NUM_ORDER, NUM_USED, NUM_STACK, POSITION, PHASE, HASH_SIZE, HASH_WANTED,
 MAX_ACTIVE, MIN_ACTIVE, PRUNE_INTERVAL, TIDY, NUM_WAITING, NUM_COUNTS) = range(17)
# Costs (float32) that the loops keep between calls, and settings.
(BEAM, LATTICE_BEAM, BEAM_DELTA, HASH_RATIO, PRUNE_DELTA, CUTOFF, ADAPTIVE_BEAM, NEXT_CUTOFF, NUM_LIMITS) = range(9)

# The stages of a frame.
PRUNING, BEGINNING, EMITTING, ENTERING_EPSILONS, EPSILONS = range(5)

# What the loops return: done, or what they need to continue.
DONE, MORE_TOKENS, MORE_LINKS, MORE_FRAMES, MORE_BUCKETS, MORE_STACK, MORE_ARCS, FEWER_ARCS = range(8)

NO_LIMIT = 2147483647              # of max-active
