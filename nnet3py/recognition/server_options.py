"""How recognition is served. Light."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt
from nnet3py.recognition.server_limits import Limits
from nnet3py.recognition.server_protocol import SAMPLE_RATES


@dataclass(frozen=True)
class ServerOptions:
    """How to serve; files are in PEM format.

    Attributes
    ----------
    limits : for clients
    allowed_origins : of pages of other servers whose scripts may connect, such as ``https://example.org``; or ``*``
    """

    host: str = opt("host", "127.0.0.1", "Address to listen on; 0.0.0.0 or :: for all of this machine's")
    port: int = opt("port", 2700, "Port to listen on; 0 for one that is free")
    sample_rate: float = opt("sample-rate", 8000.0,
                             "Samples a second of clients that do not say: the public server's")
    limits: Limits = field(default_factory=Limits)
    drain_seconds: float = opt("drain-seconds", 10.0, "Seconds that conversations have to end after a signal; a second "
                               "one ends them at once")
    allowed_origins: Sequence[str] = ()
    certificate: str = opt("certificate", "", "File with a certificate, for TLS; browsers need it for a microphone "
                           "elsewhere")
    key: str = opt("key", "", "File with the certificate's key, if that is in another one")

    def check(self) -> None:
        """Raise :class:`UsageError` for values that cannot be used."""
        self.limits.check()
        if not SAMPLE_RATES[0] <= self.sample_rate <= SAMPLE_RATES[1]:
            raise UsageError(f"--sample-rate={self.sample_rate:g}: expected a number from {SAMPLE_RATES[0]:g} to "
                             f"{SAMPLE_RATES[1]:g}")
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--port={self.port}: expected a number from 0 to 65535")
        if not self.drain_seconds >= 0:
            raise UsageError(f"--drain-seconds={self.drain_seconds:g}: expected 0 or more")
        if self.key and not self.certificate:
            raise UsageError("--key without --certificate")
