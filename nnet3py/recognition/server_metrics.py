"""What the server counts, as text for Prometheus."""
from __future__ import annotations

from bisect import bisect_left

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
    "messages_total": ("Messages of clients, by kind.", "kind"),
    "results_total": ("Results of segments that were sent.", ""),
    "words_total": ("Words in results.", ""),
    "sound_seconds_total": ("Seconds of sound that came.", ""),
}


class Metrics:
    """Counters of one server, and the times that answers took."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, float]] = {name: {} if label else {"": 0.0}
                                                     for name, (_, label) in _COUNTERS.items()}
        self._times = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0
        self.connections = 0

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add to a counter, which must be in the table; ``label`` is a value of its label, if it has one."""
        values = self._counts[name]
        values[label] = values.get(label, 0.0) + amount

    def value(self, name: str, label: str = "") -> float:
        """The value of a counter."""
        return self._counts[name].get(label, 0.0)

    def answered(self, seconds: float) -> None:
        """A block of sound was answered ``seconds`` after it was taken up."""
        self._times[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def text(self) -> str:
        """All of it, in Prometheus' text format."""
        lines = []
        for name, (help_text, label) in _COUNTERS.items():
            lines += [f"# HELP {_PREFIX}{name} {help_text}", f"# TYPE {_PREFIX}{name} counter"]
            lines += [f'{_PREFIX}{name}{{{label}="{value}"}} {amount:.12g}' if label
                      else f"{_PREFIX}{name} {amount:.12g}" for value, amount in sorted(self._counts[name].items())]
        lines += self._histogram("answer_seconds", "Seconds from a block of sound to its answer.")
        lines += _gauge(_PREFIX + "connections", "Connections that are open.", self.connections)
        memory = resident_bytes()
        if memory is not None:
            lines += _gauge("process_resident_memory_bytes", "Memory that this process has.", memory)
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str, help_text: str) -> list[str]:
        lines = [f"# HELP {_PREFIX}{name} {help_text}", f"# TYPE {_PREFIX}{name} histogram"]
        total = 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._times, strict=True):
            total += count
            lines.append(f'{_PREFIX}{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{_PREFIX}{name}_sum {self._sum:.9g}", f"{_PREFIX}{name}_count {total}"]


def _gauge(name: str, help_text: str, value: float) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {value:.12g}"]
