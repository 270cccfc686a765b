"""vosk's text processor: words rewritten by two transducers of bytes, such as numbers as digits.

Such transducers are made by the project WeTextProcessing.
"""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.fst.openfst import compose, from_openfst, shortest_path
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file

logger = logging.getLogger(__name__)


class Processor:
    """Rewrites texts: a tagger finds what is to be rewritten, a verbalizer writes it. Needs the extra ``decode``.

    Raises Exception, after the reason was logged, if a file is no transducer.
    """

    def __init__(self, tagger_path: str, verbalizer_path: str) -> None:
        try:
            self._steps = [read_fst_file(path) for path in (tagger_path, verbalizer_path)]
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create processor") from error

    def process(self, text: str) -> str:
        """The text rewritten; empty if the transducers do not know it. Nnet3Error if kaldifst is missing."""
        content = text.encode()
        for transducer in self._steps:
            content = _best_output(content, transducer) if content else content
        return content.replace(b"\0", b"").decode("utf-8", "replace")


def _best_output(content: bytes, transducer: Fst) -> bytes:
    """What a transducer makes of bytes on its cheapest path."""
    labels, states = np.frombuffer(content, dtype=np.uint8).astype(np.int32), np.arange(len(content) + 1)
    finals = np.where(states == len(content), np.float32(0.0), NO_WEIGHT)
    line = Fst.from_arcs(0, finals, states[:-1], labels, labels, np.zeros(len(labels)), states[1:])
    best = from_openfst(shortest_path(from_openfst(compose(line, transducer))))
    output, state = bytearray(), best.start
    while state >= 0 and best.arc_starts[state] < best.arc_starts[state + 1]:
        arc = int(best.arc_starts[state])
        output += bytes([best.output_labels[arc]]) if best.output_labels[arc] else b""
        state = int(best.next_states[arc])
    return bytes(output)
