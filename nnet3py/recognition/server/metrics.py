"""Counters of the server as text for Prometheus, and a board of shared memory for those of several processes."""
from __future__ import annotations

import json
import mmap
import struct
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from nnet3py.system import resident_bytes

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)      # seconds
_PREFIX = "nnet3py_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {      # name: help, label
    "connections_total": ("Connections that were accepted.", ""),
    "refused_total": ("Connections that were refused, by reason.", "reason"),
    "errors_total": ("Connections that an error ended, by kind.", "kind"),
    "streams_total": ("Streams of sound that began, by model.", "model"),
    "reloads_total": ("Times that models were read again at a signal, by outcome: ok, failed.", "outcome"),
    "restarts_total": ("Processes that had ended and were started again (--num-processes).", ""),
    "messages_total": ("Messages of clients, by kind.", "kind"),
    "results_total": ("Results of segments that were sent.", ""),
    "words_total": ("Words in results.", ""),
    "sound_seconds_total": ("Seconds of sound that came.", ""),
}


class Metrics:
    """Counters of one server process, and the times of answers."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, float]] = {name: {} if label else {"": 0.0}
                                                     for name, (_, label) in _COUNTERS.items()}
        self._times = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0
        self.connections = 0

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add ``amount`` to the counter ``name`` of ``_COUNTERS``; ``label`` is the value of its label, if any."""
        values = self._counts[name]
        values[label] = values.get(label, 0.0) + amount

    def value(self, name: str, label: str = "") -> float:
        """Return the value of a counter."""
        return self._counts[name].get(label, 0.0)

    def answered(self, seconds: float) -> None:
        """Record that the answer to a block of sound took ``seconds``."""
        self._times[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def state(self) -> dict[str, Any]:
        """Return all values as a dict that can be written as JSON, and is an argument of :func:`text_of`."""
        return {"counts": self._counts, "times": self._times, "sum": self._sum, "connections": self.connections,
                "memory": resident_bytes()}

    def text(self) -> str:
        """Return all values in Prometheus' text format."""
        return text_of({"": self.state()})


def text_of(states: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the values of several processes in Prometheus' text format.

    ``states`` maps each process, the value of the label ``process`` ("": no label), to its :meth:`Metrics.state`.
    """
    lines = []
    for name, (help_text, label) in _COUNTERS.items():
        lines += _head(_PREFIX + name, "counter", help_text)
        lines += [_sample(_PREFIX + name, amount, **{label: value} if label else {}, process=process)
                  for process, state in states.items() for value, amount in sorted(state["counts"][name].items())]
    name = _PREFIX + "answer_seconds"
    lines += _head(name, "histogram", "Seconds from a block of sound to its answer.")
    for process, state in states.items():
        total = 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), state["times"], strict=True):
            total += count
            lines.append(_sample(name + "_bucket", total, le=bound, process=process))
        lines += [_sample(name + "_sum", state["sum"], process=process), _sample(name + "_count", total,
                                                                                 process=process)]
    lines += _head(_PREFIX + "connections", "gauge", "Connections that are open.")
    lines += [_sample(_PREFIX + "connections", state["connections"], process=process)
              for process, state in states.items()]
    memory = {process: state["memory"] for process, state in states.items() if state["memory"] is not None}
    if memory:
        name = "process_resident_memory_bytes"
        lines += _head(name, "gauge", "Memory that this process has.")
        lines += [_sample(name, size, process=process) for process, size in memory.items()]
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]


def _sample(name: str, value: float, **labels: str) -> str:
    pairs = ",".join(f'{label}="{text}"' for label, text in labels.items() if text or label != "process")
    return f"{name}{{{pairs}}} {value:.12g}" if pairs else f"{name} {value:.12g}"


_SLOT_BYTES = 1 << 15
_HEAD = struct.Struct("=QI")      # count of writes, odd while the slot is being written; bytes of its content
_LOOKS = 100                      # attempts to read a slot that is being written


class Board:
    """A board of slots in shared memory, each written by one process; made before the processes are forked."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._memory = mmap.mmap(-1, num_slots * _SLOT_BYTES)         # pages that nobody writes take no memory

    def write(self, slot: int, values: dict[str, Any] | None) -> None:
        """Replace the values in a slot; None: the slot is empty. Values that are too long for a slot are ignored."""
        content = b"" if values is None else json.dumps(values, separators=(",", ":")).encode()
        if len(content) > _SLOT_BYTES - _HEAD.size:
            return
        start = slot * _SLOT_BYTES
        count = _HEAD.unpack_from(self._memory, start)[0] | 1         # odd: being written
        _HEAD.pack_into(self._memory, start, count, 0)
        self._memory[start + _HEAD.size:start + _HEAD.size + len(content)] = content
        _HEAD.pack_into(self._memory, start, count + 1, len(content))

    def read(self, slot: int) -> dict[str, Any] | None:
        """Return the values in a slot; None for an empty slot."""
        start = slot * _SLOT_BYTES
        for _ in range(_LOOKS):
            count, size = _HEAD.unpack_from(self._memory, start)
            content = self._memory[start + _HEAD.size:start + _HEAD.size + size]
            if count % 2 == 0 and _HEAD.unpack_from(self._memory, start)[0] == count:
                values: dict[str, Any] | None = json.loads(content) if content else None
                return values
        return None

    def all(self) -> dict[int, dict[str, Any]]:
        """Return the values in all slots that are not empty, by number of the slot."""
        contents = {slot: self.read(slot) for slot in range(self.num_slots)}
        return {slot: values for slot, values in contents.items() if values is not None}


class Place:
    """The slot of a process on a board. Slot 0 is that of the parent process, which serves no clients."""

    def __init__(self, board: Board, slot: int) -> None:
        self.board, self.slot = board, slot

    def write(self, values: dict[str, Any]) -> None:
        """Replace the values in this process's slot."""
        self.board.write(self.slot, values)

    def with_others(self, values: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the values in all slots by number, with ``values`` for this process's slot."""
        return {**self.board.all(), self.slot: values}

    @property
    def num_processes(self) -> int:
        """Number of processes that serve clients."""
        return sum(slot > 0 for slot in self.with_others({}))
