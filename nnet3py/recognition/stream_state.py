"""A stream's state as bytes, between two segments, so that another process can go on where this one was ended.

The state holds samples, frames, statistics and what the network carries from chunk to chunk: whatever a stream has for
itself. What it shares with others (models, tables, the graph) is named, and looked up in a stream of the same model. A
state is read as data: nothing in it can run code.
"""
from __future__ import annotations

import dataclasses
import io
import pickle
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.errors import Nnet3Error
from nnet3py.runtime.chunk_batch import StreamState

if TYPE_CHECKING:
    from nnet3py.recognition.stream import Stream

_SEARCH, _CARRIED, _SHARED = "search", "carried", "shared"      # kinds of what is not written as it is
# Classes whose objects belong to one stream, and what numpy's arrays, numbers and generators are read by.
_READABLE = ("nnet3py.feat.", "nnet3py.ivectors.online", "nnet3py.runtime.frame_buffer", *(
    f"nnet3py.recognition.{name}" for name in ("stream", "stream_decoder", "pipeline", "feature_stream", "endpoint",
                                               "ivector_stream", "silence_weighting", "speaker")))
_ALSO = {("nnet3py.runtime.looped", "LoopedStream"), ("builtins", "object"), ("builtins", "slice"),
         ("copyreg", "_reconstructor"), ("collections", "deque")}
_OF_NUMPY = ("ndarray", "dtype", "_reconstruct", "scalar", "_frombuffer", "__generator_ctor", "__bit_generator_ctor",
             "Generator", "PCG64", "Philox", "SeedSequence")


def state_of(stream: Stream) -> bytes:
    """The state of a stream that ``can_be_kept`` (:attr:`Stream.can_be_kept`), for :func:`stream_from`.

    Raises Nnet3Error for a network on a GPU, whose memory is not looked into.
    """
    if not stream.can_be_kept:
        raise Nnet3Error("a stream's state can be kept between two segments, and only there")
    if not isinstance(stream._decoder._looped._states.buffer, np.ndarray):
        raise Nnet3Error("the state of a stream on a GPU cannot be kept")
    target = io.BytesIO()
    _Writer(target, stream).dump(stream)
    return target.getvalue()


def stream_from(state: bytes, like: Stream) -> Stream:
    """The stream whose state was kept.

    Parameters
    ----------
    state : made by :func:`state_of`
    like : a stream without sound, of the same model and with the same settings

    Raises Nnet3Error for what is no state, or one of another model.
    """
    try:
        stream = _Reader(io.BytesIO(state), like).load()
    except Exception as error:            # whatever bytes that are damaged lead to
        raise Nnet3Error(f"the state of a stream cannot be read: {error}") from None
    if type(stream) is not type(like):
        raise Nnet3Error(f"expected the state of a stream, found {type(stream).__name__}")
    return stream


class _Writer(pickle.Pickler):
    def __init__(self, target: io.BytesIO, stream: Stream) -> None:
        super().__init__(target, protocol=5)
        self._names = {id(shared): name for name, shared in _shared_by(stream)}
        self._states = stream._decoder._looped._states

    def persistent_id(self, item: Any) -> Any:
        name = self._names.get(id(item))
        if name is not None:
            return _SHARED, name
        if isinstance(item, LatticeDecoder):
            return (_SEARCH,)
        if isinstance(item, StreamState):
            width = self._states.width
            row = self._states.buffer.reshape(-1)[item.slot * width:(item.slot + 1) * width]
            return _CARRIED, item.num_chunks, row.copy()
        return None


class _Reader(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, like: Stream) -> None:
        super().__init__(source)
        self._decoder = like._decoder
        self._shared: dict[str, Any] = {}
        for name, shared in _shared_by(like):
            self._shared.setdefault(name, shared)

    def persistent_load(self, pid: Any) -> Any:
        kind, *rest = pid
        if kind == _SHARED:
            return self._shared[rest[0]]
        if kind == _SEARCH:
            return LatticeDecoder(self._decoder._graph, self._decoder.search.options)
        num_chunks, row = rest
        states = self._decoder._looped._states
        state = StreamState(states)
        states.reserve()
        if len(row) != states.width:
            raise ValueError("another network carries other numbers")
        states.buffer.reshape(-1)[state.slot * states.width:(state.slot + 1) * states.width] = row
        state.num_chunks = num_chunks
        return state

    def find_class(self, module: str, name: str) -> Any:
        is_numpys = module.partition(".")[0] == "numpy" and name in _OF_NUMPY
        if not (is_numpys or (module, name) in _ALSO or (module.startswith(_READABLE) and "." not in name)):
            raise ValueError(f"{module}.{name} is not part of a stream")
        value = super().find_class(module, name)
        if module.startswith(_READABLE) and not isinstance(value, type):
            raise ValueError(f"{module}.{name} is not part of a stream")
        return value


def _shared_by(stream: Stream) -> Iterator[tuple[str, Any]]:
    """What a stream does not have for itself: objects and arrays, each under a name by which it is reached."""
    decoder = stream._decoder
    whole = {"looped": decoder._looped, "graph": decoder._graph, "model": decoder._model, "results": stream._results}
    yield from whole.items()
    looked_at = {id(part) for part in whole.values()}
    parts = {"models": decoder.pipeline.models, "search options": decoder.search.options,
             "endpoint options": decoder.endpoint_options, "determinize": stream._determinize,
             "speakers": None if stream._speaker is None else stream._speaker._model}
    waiting = deque(parts.items())
    while waiting:
        name, part = waiting.popleft()
        if id(part) in looked_at or not (isinstance(part, np.ndarray | dict | list | tuple) or _is_ours(part)):
            continue
        looked_at.add(id(part))
        yield name, part
        if isinstance(part, dict):
            waiting.extend((f"{name}[{key}]", value) for key, value in part.items())
        elif isinstance(part, list | tuple):
            waiting.extend((f"{name}[{place}]", value) for place, value in enumerate(part))
        elif not isinstance(part, np.ndarray):
            waiting.extend((f"{name}.{key}", value) for key, value in _attributes(part))


def _is_ours(part: Any) -> bool:
    return type(part).__module__.startswith("nnet3py.") and not isinstance(part, type)


def _attributes(part: Any) -> list[tuple[str, Any]]:
    fields = [field.name for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
    return sorted({**{name: getattr(part, name) for name in fields}, **getattr(part, "__dict__", {})}.items())
