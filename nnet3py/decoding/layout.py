"""The arrays of the lattice decoder and of graphs expanded while decoding: columns, counts, return values of loops.

Tokens and links are rows of 32-bit words, costs included: an int32 and a float32 array are views of the same memory,
so that values that are used together are close to each other. A token is a state of the graph in one frame, with the
cost of the best path to it. A link is an arc of the graph between tokens of the same frame (no input label) or of
successive frames.
"""
from __future__ import annotations

from typing import NamedTuple

from nnet3py.lattices.structures import (
    ByteAddress,
    Float32Address,
    Float32Rows,
    Float32s,
    Float64,
    Float64Address,
    Int32Address,
    Int32Rows,
    Int32s,
    Int64,
    Int64Address,
    Int64Rows,
    Int64s,
    UInt32Address,
)

# Columns of a state of the graph, as in OpenFst's const files: final cost (a float), first arc, number of arcs, number
# of arcs without input label, and number of arcs without output label (in n-gram models the back-off state).
FINAL, FIRST_ARC, NUM_ARCS, NUM_EPSILONS, PARENT, STATE_WORDS = 0, 1, 2, 3, 4, 5
UNKNOWN_ARCS = 0xFFFFFFFF          # number of arcs of a state whose arcs are made when they are needed; until then
                                   # NUM_EPSILONS is 0 only if there will be no arcs without input label
# Columns of an arc of the graph, as in OpenFst's files.
ARC_INPUT, ARC_OUTPUT, ARC_COST, ARC_NEXT, ARC_WORDS = 0, 1, 2, 3, 4

# Columns of a token: state (-1: pruned), cost (a float, without the offsets of earlier times), extra cost of the best
# path through the token (a float, relative to the best path), newest link, next token in its bucket, and the token
# before it on the best path.
STATE, TOTAL, EXTRA, LINKS, CHAIN, BACK, TOKEN_WORDS = 0, 1, 2, 3, 4, 5, 6
# Columns of a link: target token (-1: pruned), next older link of the same token, labels, graph and acoustic cost
# (floats).
TO, OLDER, INPUT, OUTPUT, GRAPH, ACOUSTIC, LINK_WORDS = 0, 1, 2, 3, 4, 5, 6
# Columns of a time: first token and first link, and whether links and tokens have to be pruned.
FIRST_TOKEN, FIRST_LINK, PRUNE_LINKS, PRUNE_TOKENS, FRAME_WORDS = 0, 1, 2, 3, 4
# Columns of a bucket of the table of tokens: first and last token.
BUCKET_WORDS = 2

# Counts (int64) that the decoder's loops keep between calls, and integer options.
(NUM_TOKENS, NUM_LINKS, FRAME, ROW, NUM_ORDER, NUM_USED, NUM_STACK, POSITION, PHASE, HASH_SIZE, HASH_WANTED,
 MAX_ACTIVE, MIN_ACTIVE, PRUNE_INTERVAL, TIDY, NUM_WAITING, NUM_COUNTS) = range(17)
# Costs (float32) that the decoder's loops keep between calls, and options that are numbers with fractions.
(BEAM, LATTICE_BEAM, BEAM_DELTA, HASH_RATIO, PRUNE_DELTA, CUTOFF, ADAPTIVE_BEAM, NEXT_CUTOFF, NUM_LIMITS) = range(9)
# The stages of a frame.
PRUNING, BEGINNING, EMITTING, ENTERING_EPSILONS, EPSILONS = range(5)

# Counts (int64) of a graph made while decoding: states and arcs made, and the place in the list of wanted states; for
# grammars also the number of instances, and the state, nonterminal and phone of an error.
NUM_STATES, NUM_MADE_ARCS, PLACE, NUM_INSTANCES, BAD_STATE, BAD_NAME, BAD_PHONE, NUM_GRAPH_COUNTS = range(8)
# Columns of an instance, one call of a grammar's graph: that graph, the calling instance, the caller's state to return
# to (states of all graphs are numbered together), and the depth of the call.
CALLED_GRAPH, CALLER, RETURN, DEPTH, INSTANCE_WORDS = range(5)
MOST_DEPTH = 10_000                # of calls, against endless recursion
# Traits (bits) of a state of HCL: some arcs have no transition-id, the state is final.
HAS_FREE_ARCS, CAN_END = 1, 2

# What the loops return: done, or which array must grow before they go on; the errors of a grammar.
(DONE, MORE_TOKENS, MORE_LINKS, MORE_FRAMES, MORE_BUCKETS, MORE_STACK, MORE_ARCS, FEWER_ARCS, MORE_STATES,
 MORE_INSTANCES, NO_GRAPH, NO_ENTRY, TOO_DEEP) = range(13)
# What the check of a graph's tables returns.
FINE, BAD_RANGE, BAD_NEXT, BAD_INPUT, BAD_OUTPUT, BAD_COST, BAD_EPSILONS = range(7)


class Graph(NamedTuple):
    """Addresses of a graph's tables, and the column of the log-likelihoods for each input label (``pdfs``)."""

    states: UInt32Address
    arcs: Int32Address
    arc_costs: Float32Address
    pdfs: Int32s


class Tokens(NamedTuple):
    """Tokens, links and times, offsets of costs by frame, counts and limits; ``remap`` is scratch."""

    tokens: Int32Rows
    token_costs: Float32Rows
    links: Int32Rows
    link_costs: Float32Rows
    frames: Int64Rows
    offsets: Float32s
    remap: Int32s
    counts: Int64s
    limits: Float32s


class Table(NamedTuple):
    """The hash table of the newest time's tokens by state, their order, and the stack of tokens with epsilon arcs."""

    buckets: Int32Rows
    used: Int32s
    order: Int32s
    stack: Int32s


# -- graphs expanded while decoding ------------------------------------------------------------------------------------


class Hcl(NamedTuple):
    """HCL: addresses of its tables, of the labels that can come next (``lookahead.Lookahead``), and of states' traits.

    ``is_disambig`` marks the input labels that are treated as epsilons.
    """

    states: UInt32Address
    state_costs: Float32Address
    arcs: Int32Address
    arc_costs: Float32Address
    spans: Int32Address
    intervals: Int32Address
    final_label: Int64
    traits: ByteAddress
    is_disambig: ByteAddress


class Grammar(NamedTuple):
    """G: the address of the table of its states, and the other fields of ``lookahead.GrammarTables``."""

    states: UInt32Address
    state_costs: Float32Address
    labels: Int32Address
    outputs: Int32Address
    costs: Float32Address
    nexts: Int32Address
    stride: Int64
    is_ngram: Int64
    backoffs: Float32Address
    context_words: Int32Address
    children: Int32Address
    sums: Float64Address
    shift: Float64


class Composed(NamedTuple):
    """Composed states and arcs so far: addresses, and the sizes of the arrays.

    ``keys`` has two numbers for each state, its states in HCL and G with the flag, and its label; ``ranges`` has, for
    states with the flag, the range of G's arcs whose labels can come next; ``mask`` is the size of ``table`` minus 1.
    """

    keys: Int64Address
    potentials: Float32Address
    ranges: Int32Address
    table: Int32Address
    mask: Int64
    states: Int32Address
    state_costs: Float32Address
    room: Int64
    arcs: Int32Address
    arc_costs: Float32Address
    arc_room: Int64
    counts: Int64Address


class Parts(NamedTuple):
    """The graphs of a grammar: attributes of ``composed_graphs.GrammarGraph``."""

    states: UInt32Address
    state_costs: Float32Address
    arcs: Int32Address
    arc_costs: Float32Address
    starts: Int32s
    graph_of: Int32s
    settings: Int64s


class Expanded(NamedTuple):
    """States, arcs and instances of a grammar expanded so far, and the hash tables of states and instances."""

    keys: Int64s
    table: Int32s
    states: Int32Rows
    state_costs: Float32Rows
    arcs: Int32Rows
    arc_costs: Float32Rows
    instances: Int32Rows
    instance_table: Int32s
    counts: Int64s
