"""Where the time of a stream goes: processor time of each part, without that of the parts that it calls."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.ivectors.online import OnlineModels
from nnet3py.recognition.ivector_stream import IvectorStream
from nnet3py.recognition.pipeline import FeatureStream
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.recognition.results import ResultMaker
from nnet3py.recognition.silence import EndpointDetector
from nnet3py.recognition.stream import Stream
from nnet3py.recognition.stream_decoder import StreamDecoder
from nnet3py.runtime.binding import Stage
from nnet3py.runtime.looped import LoopedStream

PARTS: tuple[tuple[type, str, str], ...] = (
    (FeatureStream, "accept", "features"),
    (IvectorStream, "_transform", "i-vectors: normalize, splice, LDA"),
    (OnlineModels, "posteriors", "i-vectors: posteriors"),
    (IvectorStream, "_accumulate", "i-vectors: statistics"),
    (IvectorStream, "at", "i-vectors: estimate"),
    (StreamDecoder, "prepare", "i-vectors: weights of silence"),
    (LoopedStream, "compute_chunk", "network: what carries its state"),
    (Stage, "run", "network: commands"),
    (LatticeDecoder, "advance", "search"),
    (EndpointDetector, "activated_rule", "endpoint"),
    (StreamDecoder, "best_path", "partial words"),
    (StreamDecoder, "finalize", "result: last pruning"),
    (StreamDecoder, "lattice", "result: lattice, determinized"),
    (ResultMaker, "_aligned", "result: words aligned"),
    (ResultMaker, "result", "result: confidences"),
    (Stream, "accept_waveform", "blocks and pieces"),
    (Stream, "result", "blocks and pieces"),
)


class Clock:
    """Takes the time of functions that call each other, each without what it calls."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, Any]] = {}
        self._within: list[int] = [0]

    def timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The function, whose time counts under a name."""
        part = self.parts.setdefault(name, {"calls": 0, "seconds": 0.0})

        def call(*args: Any, **named: Any) -> Any:
            began = time.thread_time_ns()
            self._within.append(0)
            try:
                return function(*args, **named)
            finally:
                taken = time.thread_time_ns() - began
                part["seconds"] += 1e-9 * (taken - self._within.pop())
                part["calls"] += 1
                self._within[-1] += taken

        return call


def profile(folder: str, blocks: list[bytes], session: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
    """Calls and seconds of each part, while a stream takes the blocks."""
    model, clock = Recognizer(folder), Clock()
    warm = session(model)
    for block in blocks[:50]:
        warm.block(block)
    warm.end()
    one = session(model)
    for owner, name, label in PARTS:
        setattr(owner, name, clock.timed(getattr(owner, name), label))
    take = clock.timed(one.block, "blocks and pieces")
    for block in blocks:
        take(block)
    return clock.parts
