"""The server of ``nnet3py serve``: WebSocket connections that send sound and get words, and answers to plain HTTP.

One thread has all connections; streams are decoded by :class:`~nnet3py.recognition.server.session.StreamThreads`.
The package websockets speaks HTTP and WebSocket; it is imported when a server is made.
"""
from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import json
import logging
import os
import re
import signal
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nnet3py.errors import Nnet3Error
from nnet3py.extras import load
from nnet3py.recognition.server import metrics as server_metrics
from nnet3py.recognition.server.metrics import Metrics, Place, text_of
from nnet3py.recognition.server.models import Reloaded, ServedModels
from nnet3py.recognition.server.options import MESSAGES_WAITING, ServerOptions
from nnet3py.recognition.server.protocol import CloseCode, StreamSettings
from nnet3py.recognition.server.session import Session, StreamThreads
from nnet3py.system import HANGUP, call_at_signals, has_terminal

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0          # for a client to answer the closing of its connection
_OPEN_SECONDS = 10.0         # for a client to send its request
_PING_SECONDS = 20.0         # between pings, by which the system notices connections without another end
_PUBLISH_SECONDS = 0.2       # between updates of the counters that other processes read
_KINDS = {1007: "text", 1009: "size"}      # kinds of errors at which websockets closes a connection, by close code


class RecognitionServer:
    """A server. :meth:`serve` runs it, :meth:`stop` ends it, :meth:`reload` reads its models again.

    Parameters
    ----------
    service : StreamThreads, which decodes; shut down when the server ends
    options : ServerOptions
    models : ServedModels from which clients choose
    read_again : function that reads the models again, in a thread, and raises nothing; None: models do not change
    listener : socket that accepts connections; None: a socket is made for the options' host and port
    place : Place of this process's counters, for a server of several processes; None: one process

    Raises Nnet3Error if the package websockets is missing, or an option is invalid.
    """

    def __init__(self, service: StreamThreads, options: ServerOptions, models: ServedModels | None = None,
                 read_again: Callable[[], Reloaded] | None = None, listener: socket.socket | None = None,
                 place: Place | None = None) -> None:
        options.check()
        require_websockets()
        self.options, self.metrics, self.models = options, Metrics(), models or ServedModels()
        self._service, self._read_again = service, read_again
        self._listener, self._place = listener, place
        self._reload_is_wanted = False
        self._reloading: asyncio.Task[None] | None = None
        self._is_local = is_local_name(options.host)
        self._connections: set[Any] = set()
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._limiting = asyncio.Event()        # set: connections have only ``drain_seconds`` to end

    def stop(self) -> None:
        """Accept no more connections, and end when the open ones have ended; a second call ends them at once."""
        if self._limiting.is_set():
            self._hurrying.set()
        self._limiting.set()
        self._stopping.set()

    def retire(self) -> None:
        """Accept no more connections, and end when the open ones have ended, without a time limit."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """True after :meth:`stop` was called."""
        return self._limiting.is_set()

    def reload(self) -> None:
        """Begin to read models again whose files have changed, for new connections.

        Open connections keep their models. A model that cannot be read is logged, and stays as it was.
        """
        self._reload_is_wanted = True          # also during a reload: files may have changed since it began
        if self._read_again is not None and (self._reloading is None or self._reloading.done()):
            self._reloading = asyncio.get_running_loop().create_task(self._reload(self._read_again))

    async def _reload(self, read_again: Callable[[], Reloaded]) -> None:
        while self._reload_is_wanted and not self._stopping.is_set():
            self._reload_is_wanted = False
            self.models, changes, problems = await asyncio.to_thread(read_again)
            for problem in problems:
                logger.error("%s; the model stays as it was", problem)
            self.metrics.count("reloads_total", label="failed" if problems else "ok")
            logger.info("Models were looked at again: %s", "; ".join(changes) or "nothing is different")

    async def serve(self, listening: Callable[[str], None] = lambda address: None) -> None:
        """Accept connections until :meth:`stop` is called; call ``listening`` with the address at the beginning.

        Raises Nnet3Error if the port cannot be used.
        """
        try:
            server = await self._listen()
            listening("" if self._listener is not None else address_of(self.options, server.sockets[0]))
            publishing = asyncio.ensure_future(self._publish_often())
            await self._stopping.wait()
            await self._drain(server)
            publishing.cancel()
        finally:
            await asyncio.get_running_loop().run_in_executor(None, self._service.shut_down)

    async def _listen(self) -> Any:
        from websockets.asyncio.server import serve

        options = self.options
        quiet = logging.getLogger(__name__ + ".websockets")      # its messages about invalid requests have tracebacks
        quiet.disabled = True
        try:
            where: dict[str, Any] = {"host": options.host or None, "port": options.port}
            if self._listener is not None:
                where = {"sock": self._listener}
            return await serve(
                self._handle, **where, process_request=self._process_request,
                compression=None, server_header="nnet3py", open_timeout=_OPEN_SECONDS, ping_interval=_PING_SECONDS,
                ping_timeout=None,       # the answer comes after all the sound in the queue
                close_timeout=CLOSE_SECONDS, max_size=options.limits.max_message_bytes,
                max_queue=MESSAGES_WAITING, logger=quiet, ssl=tls_context(options))
        except OSError as error:
            raise cannot_listen(options, error) from None

    async def _publish_often(self) -> None:
        while self._place is not None:
            await asyncio.sleep(_PUBLISH_SECONDS)
            self._place.write(self.metrics.state())

    async def _drain(self, server: Any) -> None:
        """Wait until all connections have ended; close those that are open ``drain_seconds`` after :meth:`stop`."""
        if self._connections and self.is_stopping:
            logger.info("Stopping: %d connections have %g seconds to end; a second signal ends them at once.",
                        len(self._connections), self.options.drain_seconds)
        server.close(close_connections=False)
        ended = asyncio.ensure_future(server.wait_closed())
        limited = asyncio.ensure_future(self._limiting.wait())
        await asyncio.wait({ended, limited}, return_when=asyncio.FIRST_COMPLETED)
        limited.cancel()
        hurried = asyncio.ensure_future(self._hurrying.wait())
        await asyncio.wait({ended, hurried}, timeout=self.options.drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if self._connections:
            await asyncio.gather(*(connection.close(CloseCode.GOING_AWAY, "the server stops")
                                   for connection in list(self._connections)), return_exceptions=True)
        await asyncio.wait({ended}, timeout=CLOSE_SECONDS)
        ended.cancel()

    def _process_request(self, connection: Any, request: Any) -> Any:
        """Return the HTTP response to a request; None for a request that opens a WebSocket."""
        answer = self._http_answer(request)
        if answer is None:
            return None
        from websockets.datastructures import Headers
        from websockets.http11 import Response

        return Response(answer.status, answer.status.phrase, Headers(answer.headers), answer.body)

    def _http_answer(self, request: Any) -> HttpAnswer | None:
        headers = request.headers
        if "websocket" not in ",".join(headers.get_all("Upgrade")).lower():
            return answer_to(request.path, self.health, self._metrics_text)
        host = next(iter(headers.get_all("Host")), "")
        if not origin_is_allowed(headers.get_all("Origin"), host, self._is_local, self.options.allowed_origins):
            self.metrics.count("refused_total", label="origin")
            return refusal(HTTPStatus.FORBIDDEN, "Pages of other servers may not connect: see --allow-origin.")
        if self._is_full():
            self.metrics.count("refused_total", label="full")
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "There are as many connections as are allowed.")
        return None

    def _is_full(self) -> bool:
        return self._num_connections() >= self.options.limits.max_connections

    def _num_connections(self) -> int:
        """Return the number of open connections of all processes of the server."""
        if self._place is None:
            return len(self._connections)
        return sum(state["connections"] for state in self._place.with_others(self.metrics.state()).values())

    def _metrics_text(self) -> str:
        if self._place is None:
            return self.metrics.text()
        states = self._place.with_others(self.metrics.state())
        return text_of({str(slot): state for slot, state in states.items()})

    def _count_connections(self) -> None:
        self.metrics.connections = len(self._connections)
        if self._place is not None:
            self._place.write(self.metrics.state())

    def health(self) -> dict[str, object]:
        """Return the answer to ``/health``; ``status`` is ``ok`` or ``stopping``."""
        from nnet3py import __version__

        default = self.models.default
        several = {} if self._place is None else {"processes": self._place.num_processes}
        return {"status": "stopping" if self._stopping.is_set() else "ok", "model": default.name if default else "",
                "models": list(self.models.by_name), "version": __version__, "connections": self._num_connections(),
                "sample_rate": self.options.sample_rate, **several}

    async def _handle(self, connection: Any) -> None:
        """Serve one client until its connection is closed; an error closes only this connection."""
        from websockets.exceptions import ConnectionClosed

        if self._is_full():        # several came at the same moment
            self.metrics.count("refused_total", label="full")
            await connection.close(CloseCode.TRY_LATER, "there are as many connections as are allowed")
            return
        self._connections.add(connection)
        self.metrics.count("connections_total")
        self._count_connections()
        session = Session(connection, self._service, StreamSettings(
            self.options.sample_rate, model=self.models.default), self.options.limits, self.metrics, self.models)
        try:
            await self._converse(session)
        except ConnectionClosed as closed:
            if closed.sent is not None and not closed.rcvd_then_sent and closed.sent.code in _KINDS:
                self.metrics.count("errors_total", label=_KINDS[closed.sent.code])
        finally:
            self._connections.discard(connection)
            self._count_connections()

    @staticmethod
    async def _converse(session: Session) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await session.run()
        except ConnectionClosed:
            raise
        except Exception as error:
            logger.error("A connection is closed after an internal error: %s: %s", type(error).__name__, error,
                         exc_info=logger.isEnabledFor(logging.DEBUG))
            await session.fail()


def run_server(server_of: Callable[[], RecognitionServer], listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends open connections at once. At SIGHUP models are read again.

    SIGHUP also ends a server that was started in a terminal when the terminal is closed.

    ``server_of``: function that makes the server, called in the event loop that will run it. ``listening``: function
    that is called with the address.
    """
    async def until_signal() -> None:
        server = server_of()
        ends_with_terminal = has_terminal() and signal.getsignal(HANGUP) != signal.SIG_IGN if HANGUP else False

        def hang_up() -> None:
            if ends_with_terminal and not has_terminal():
                server.stop()
            else:
                server.reload()

        loop = asyncio.get_running_loop()
        call_at_signals(loop, (signal.SIGTERM, signal.SIGINT), server.stop)
        call_at_signals(loop, (HANGUP,) if HANGUP else (), hang_up)
        await server.serve(listening)

    asyncio.run(until_signal())


def require_websockets() -> None:
    """Raise Nnet3Error with the command for installing it if the package websockets is missing."""
    load("websockets.asyncio.server", "the server needs", "serve", "websockets, 13.0 or newer")


def address_of(options: ServerOptions, listener: Any) -> str:
    """Return the address of a server's page, for a socket that listens."""
    host, port = listener.getsockname()[:2]
    return f"{'https' if options.certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"


def cannot_listen(options: ServerOptions, error: OSError) -> Nnet3Error:
    """Return the error for a port that cannot be used."""
    return Nnet3Error(f"cannot listen on port {options.port} of {options.host or 'all interfaces'}: "
                      f"{error.strerror or error}", "choose another port with --port, or address with --host")


def tls_context(options: ServerOptions) -> Any:
    """Return an SSLContext of the options' certificate; None without a certificate. Raises Nnet3Error."""
    if not options.certificate:
        return None
    import ssl

    for path in filter(None, (options.certificate, options.key)):
        if not os.path.isfile(path):
            raise Nnet3Error(f"{path}: no such file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.certificate, options.key or None)
    except ssl.SSLError as error:
        raise Nnet3Error(f"{options.certificate}: no certificate and key in PEM format that belong together "
                         f"({error.reason or error})") from None
    return context


PAGE = "page.html"
_TEXT, _JSON, _HTML = "text/plain; charset=utf-8", "application/json", "text/html; charset=utf-8"


class HttpAnswer(NamedTuple):
    """Status, headers and body."""

    status: HTTPStatus
    headers: dict[str, str]
    body: bytes


def answer_to(path: str, health: Callable[[], dict[str, object]], metrics: Callable[[], str]) -> HttpAnswer:
    """Return the answer to a GET of a path; ``health`` and ``metrics`` are called for their contents."""
    path = path.partition("?")[0]
    if path in ("/", "/index.html"):
        page = page_text()
        return _answer(HTTPStatus.OK, _HTML, page, {"Content-Security-Policy": content_policy(page)})
    if path == "/health":
        state = health()
        return _answer(HTTPStatus.OK if state["status"] == "ok" else HTTPStatus.SERVICE_UNAVAILABLE, _JSON,
                       json.dumps(state) + "\n")
    if path == "/metrics":
        return _answer(HTTPStatus.OK, server_metrics.CONTENT_TYPE, metrics())
    return refusal(HTTPStatus.NOT_FOUND, "There are /, /health and /metrics, and a WebSocket for sound.")


def refusal(status: HTTPStatus, why: str) -> HttpAnswer:
    """Return an HTTP answer with an error status and the reason ``why`` as its text."""
    return _answer(status, _TEXT, why + "\n", {"Retry-After": "5"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {})


def _answer(status: HTTPStatus, kind: str, text: str, headers: dict[str, str] | None = None) -> HttpAnswer:
    body = text.encode()
    return HttpAnswer(status, {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close",
                               "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff",
                               "Referrer-Policy": "no-referrer", **(headers or {})}, body)


def page_text() -> str:
    """Return the HTML of the server's page, which loads nothing from elsewhere."""
    return files("nnet3py.recognition.server").joinpath(PAGE).read_text(encoding="utf-8")


def content_policy(page: str) -> str:
    """Return the page's Content-Security-Policy: its own script and style, by hashes, and connections to its server."""
    def hashes(element: str) -> str:
        return " ".join("'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
                        for text in re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL))

    return (f"default-src 'none'; script-src {hashes('script')} blob:; style-src {hashes('style')}; "
            "connect-src 'self' ws: wss:; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def origin_is_allowed(origins: Sequence[str], host: str, is_local: bool, allowed: Sequence[str]) -> bool:
    """Return whether a browser that shows a page of some origin may connect.

    Only browsers send an origin. Any page could make a browser connect to a server on its user's own machine; so the
    page must come from this server, or its origin must be allowed. Foreign names that lead here (DNS rebinding) are
    refused because they are not local.

    Parameters
    ----------
    origins : values of the Origin header, such as ``https://example.org``
    host : value of the Host header
    is_local : whether the server can be reached from its own machine only
    allowed : other allowed origins; ``*``: all
    """
    if not origins or "*" in allowed:
        return True
    if len(origins) > 1:
        return False
    if origins[0] in allowed:
        return True
    try:
        parts = urlsplit(origins[0])
        name = parts.hostname or ""
    except ValueError:
        return False
    return bool(parts.netloc) and parts.netloc.lower() == host.lower() and (is_local_name(name) or not is_local)


def is_local_name(name: str) -> bool:
    """Return whether a host's name or address can only mean the machine itself."""
    name = name.lower().strip("[]")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
