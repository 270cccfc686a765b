"""What one client may ask of the server, and how much of it at a time."""
from __future__ import annotations

from dataclasses import dataclass

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt

LEAST_MESSAGE_SECONDS = 0.005      # any message counts as this much sound: empty ones, too, cost time
MESSAGES_WAITING = 4               # of a connection, in memory; then its client must wait


@dataclass(frozen=True)
class Limits:
    """Limits of the server; 0 means no limit, where that makes sense.

    ``MESSAGES_WAITING`` messages of ``max_message_bytes`` bound the memory for what a client has sent. Sound of
    ``burst_seconds`` may come at any speed. At ``max_seconds`` the last result is sent before the connection is closed;
    ``idle_timeout`` also applies while a client does not read its answer.
    """

    max_connections: int = opt("max-connections", 200,
                               "Clients at the same time; one more is told that the service is unavailable")
    max_message_bytes: int = opt("max-message-bytes", 1 << 20, "Longest message; a longer one ends its connection")
    max_seconds: float = opt("max-seconds", 4 * 3600.0,
                             "Sound on one connection, in seconds; then it is closed (0: no limit)")
    max_speed: float = opt("max-speed", 50.0, "Seconds of sound a second that a client may send after its first "
                           "minute; a faster one is held back (0: no limit)")
    burst_seconds: float = 60.0
    idle_timeout: float = opt("idle-timeout", 60.0,
                              "Seconds without a message after which a connection is closed (0: never)")

    def check(self) -> None:
        """Raise :class:`UsageError` if no client could be served."""
        for name, least in (("max_connections", 1), ("max_message_bytes", 2), ("max_seconds", 0), ("max_speed", 0),
                            ("burst_seconds", 0), ("idle_timeout", 0)):
            value = getattr(self, name)
            if not value >= least:
                raise UsageError(f"--{name.replace('_', '-')}={value:g}: expected {least} or more")


class Pace:
    """How long a client must be held back so that its sound does not come too fast.

    Parameters
    ----------
    limits : of which ``max_speed`` and ``burst_seconds`` count
    now : seconds on the clock that :meth:`delay` is told of
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._ahead = 0.0          # seconds of sound that came, less what the allowed speed has worked off
        self._last = now

    def delay(self, seconds: float, now: float) -> float:
        """Count ``seconds`` of sound that came; returns the seconds to wait before the next message is looked at."""
        speed = self._limits.max_speed
        if not speed:
            return 0.0
        self._ahead = max(0.0, self._ahead - (now - self._last) * speed) + max(seconds, LEAST_MESSAGE_SECONDS)
        self._last = now
        return max(0.0, self._ahead - self._limits.burst_seconds) / speed
