"""Options of the server, and limits of its clients. Light."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, opt

SAMPLE_RATES = (1000.0, 384000.0)      # lowest and highest; telephones have 8000, studios 192000
LEAST_MESSAGE_SECONDS = 0.005      # a shorter message counts as so much sound: empty messages, too, take time
MESSAGES_WAITING = 4               # messages of a connection in memory, after which its client must wait


@dataclass(frozen=True)
class Limits(CheckedOptions):
    """Limits of clients; 0 means no limit for times and speed.

    A client's messages take at most the memory of ``MESSAGES_WAITING`` messages of ``max_message_bytes``. The first
    ``burst_seconds`` of sound may come at any speed. At ``max_seconds`` the last result is sent, then the connection is
    closed; ``idle_timeout`` also applies while a client does not read its answer.
    """

    max_connections: int = opt("max-connections", 200,
                               "Clients at the same time; one more is told that the service is unavailable", least=1)
    max_message_bytes: int = opt("max-message-bytes", 1 << 20, "Longest message; a longer one ends its connection",
                                 least=2)
    max_seconds: float = opt("max-seconds", 4 * 3600.0,
                             "Sound on one connection, in seconds; then it is closed (0: no limit)", least=0)
    max_speed: float = opt("max-speed", 50.0, "Seconds of sound a second that a client may send after its first "
                           "minute; a faster one is held back (0: no limit)", least=0)
    burst_seconds: float = field(default=60.0, metadata={"least": 0})
    idle_timeout: float = opt("idle-timeout", 60.0,
                              "Seconds without a message after which a connection is closed (0: never)", least=0)


class Pace:
    """The delay of a client whose sound comes too fast (a leaky bucket).

    ``limits``: Limits, for ``max_speed`` and ``burst_seconds``. ``now``: the time now, in seconds of a monotonic clock.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._ahead = 0.0          # seconds of sound beyond the allowed speed
        self._last = now

    def delay(self, seconds: float, now: float) -> float:
        """Count ``seconds`` of received sound; return the seconds to wait before the next message is read.

        ``now`` is the time on the clock with which the object was made.
        """
        speed = self._limits.max_speed
        if not speed:
            return 0.0
        self._ahead = max(0.0, self._ahead - (now - self._last) * speed) + max(seconds, LEAST_MESSAGE_SECONDS)
        self._last = now
        return max(0.0, self._ahead - self._limits.burst_seconds) / speed


@dataclass(frozen=True)
class ServerOptions(CheckedOptions):
    """Options of the server; files are in PEM format."""

    host: str = opt("host", "127.0.0.1", "Address to listen on; 0.0.0.0 or :: for all of this machine's")
    port: int = opt("port", 2700, "Port to listen on; 0 for one that is free", least=0, most=65535)
    sample_rate: float = opt("sample-rate", 8000.0, "Samples a second of clients that do not say: the public server's",
                             least=SAMPLE_RATES[0], most=SAMPLE_RATES[1])
    limits: Limits = field(default_factory=Limits)  # of clients
    drain_seconds: float = opt("drain-seconds", 10.0, "Seconds that conversations have to end after a signal; a second "
                               "one ends them at once", least=0)
    # origins of other servers' pages whose scripts may connect, such as ``https://example.org``; ``*``: all
    allowed_origins: Sequence[str] = ()
    certificate: str = opt("certificate", "", "File with a certificate, for TLS; browsers need it for a microphone "
                           "elsewhere")
    key: str = opt("key", "", "File with the certificate's key, if that is in another one")

    def check(self) -> None:
        """Raise :class:`UsageError` for values that cannot be used."""
        super().check()
        self.limits.check()
        if self.key and not self.certificate:
            raise UsageError("--key without --certificate")
