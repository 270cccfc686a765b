"""Small FSTs for each of OpenFst's types, and their files."""
from __future__ import annotations

import io

import numpy as np

from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import read_binary_fst, write_binary_fst

WORDS = {b"<eps>": 0, b"a": 1, "ö".encode(): 2, b"c c": 7}
INF = float("inf")
TRANSDUCER = Fst.from_arcs(0, [INF, 0.0, 0.0], [0, 0, 1], [1, 0, 3], [4, 5, 0], [0.0] * 3, [1, 2, 2])
ACCEPTOR = Fst.from_arcs(1, [0.5, INF, 0.0], [0, 1, 1], [1, 0, 3], [1, 0, 3], [0.0, 1.5, 2.0], [1, 0, 2])
PLAIN = Fst.from_arcs(1, [0.0, INF, 0.0], [0, 1, 1], [1, 0, 3], [1, 0, 3], [0.0] * 3, [1, 0, 2])
LINE = Fst.from_arcs(0, [INF, INF, 0.0], [0, 1], [5, 6], [5, 6], [0.0, 0.0], [1, 2])
WEIGHTED_LINE = Fst.from_arcs(0, [INF, INF, 2.5], [0, 1], [5, 6], [5, 6], [1.0, 0.0], [1, 2])
FITTING = {"acceptor": ACCEPTOR, "unweighted": TRANSDUCER, "unweighted_acceptor": PLAIN, "string": LINE,
           "weighted_string": WEIGHTED_LINE}


def trigram(seed: int, words: int = 6) -> Fst:
    """A random back-off model: histories of up to two words, some arcs, an end here and there."""
    draw = np.random.default_rng(seed)
    histories = [(), (0,), *((word,) for word in range(1, words + 1))]
    histories += [(one, two) for one in range(words + 1) for two in range(1, words + 1) if draw.random() < 0.3]
    number = {history: place for place, history in enumerate(histories)}
    arcs = []
    for history in histories:
        if history:
            arcs.append((number[history], 0, draw.random(), number[history[1:]]))
        for word in range(1, words + 1):
            if not history or draw.random() < 0.5:
                whole = (*history, word)
                while whole not in number:
                    whole = whole[1:]
                arcs.append((number[history], word, draw.random(), number[whole]))
    # only what the start leads to
    reached, waiting = {1}, [1]
    while waiting:
        state = waiting.pop()
        for source, _, _, to in arcs:
            if source == state and to not in reached:
                reached.add(to)
                waiting.append(to)
    order = {state: place for place, state in enumerate(sorted(reached))}
    sources, labels, costs, targets = zip(*((order[s], label, cost, order[t]) for s, label, cost, t in arcs
                                            if s in order), strict=True)
    finals = np.where(draw.random(len(order)) < 0.4, draw.random(len(order)), np.inf)
    finals[0] = 1.0
    return Fst.from_arcs(order[1], finals, sources, labels, labels, costs, targets)


def written(fst: Fst, kind: str) -> bytes:
    stream = io.BytesIO()
    write_binary_fst(TokenWriter(stream, binary=True), fst, kind)
    return stream.getvalue()


def read(data: bytes) -> Fst:
    return read_binary_fst(TokenReader(io.BufferedReader(io.BytesIO(data)), size=len(data)))
