"""What one client may ask of the server, and how much of it at a time."""
from __future__ import annotations

from dataclasses import dataclass

from nnet3py.errors import UsageError

LEAST_MESSAGE_SECONDS = 0.005      # any message counts as this much sound: empty ones, too, cost time
MESSAGES_WAITING = 4               # of a connection, in memory; then its client must wait


@dataclass(frozen=True)
class Limits:
    """Limits of the server; 0 is none, where that makes sense.

    Attributes
    ----------
    max_connections : clients at the same time; one more is told 503, service unavailable
    max_message_bytes : of one message; a longer one ends the connection (close code 1009). With ``MESSAGES_WAITING``
        it bounds the memory for what a client has sent
    max_seconds : of sound on one connection; then the last result is sent, and the connection closed
    max_speed : seconds of sound a second that a client may send for long; a faster one is held back, not refused
    burst_seconds : of sound that may come at any speed
    idle_timeout : seconds without a message, or without the answer being read, after which a connection is closed
    """

    max_connections: int = 200
    max_message_bytes: int = 1 << 20
    max_seconds: float = 4 * 3600.0
    max_speed: float = 50.0
    burst_seconds: float = 60.0
    idle_timeout: float = 60.0

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
        self._ahead = 0.0          # seconds of sound that came, less what the allowed speed has made good
        self._last = now

    def delay(self, seconds: float, now: float) -> float:
        """Count ``seconds`` of sound that came; the seconds to wait before the next message is looked at."""
        speed = self._limits.max_speed
        if not speed:
            return 0.0
        self._ahead = max(0.0, self._ahead - (now - self._last) * speed) + max(seconds, LEAST_MESSAGE_SECONDS)
        self._last = now
        return max(0.0, self._ahead - self._limits.burst_seconds) / speed
