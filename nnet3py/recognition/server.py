"""The server: connections over WebSockets, each of which sends sound and gets words; ``nnet3py serve`` runs it.

One thread has all connections; decoding is done by a :class:`~nnet3py.recognition.stream_threads.StreamService`.
The package websockets speaks HTTP and WebSocket: it is imported when a server is made.
"""
from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from nnet3py.errors import Nnet3Error
from nnet3py.extras import load
from nnet3py.recognition.served_models import Reloaded, ServedModels
from nnet3py.recognition.server_board import Place
from nnet3py.recognition.server_http import HttpAnswer, answer_to, is_local_name, origin_is_allowed, refusal
from nnet3py.recognition.server_limits import MESSAGES_WAITING
from nnet3py.recognition.server_metrics import Metrics, text_of
from nnet3py.recognition.server_options import ServerOptions
from nnet3py.recognition.server_protocol import CloseCode, StreamSettings
from nnet3py.recognition.server_session import Session
from nnet3py.recognition.stream_threads import StreamService
from nnet3py.system import HANGUP, call_at_signals, has_terminal

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0          # that a client has to answer the closing of its connection
_OPEN_SECONDS = 10.0         # for a client to say what it wants
_PING_SECONDS = 20.0         # between signs of life, after which the system closes what has no other end any more
_PUBLISH_SECONDS = 0.2       # between two times that other processes are told what is counted here
_KINDS = {1007: "text", 1009: "size"}      # of errors at which websockets itself closes, by close code


class RecognitionServer:
    """A server. :meth:`serve` runs it, :meth:`stop` ends it, :meth:`reload` reads its models again.

    Parameters
    ----------
    service : which decodes; it is shut down when the server ends
    options : how to serve
    models : what clients may choose from
    read_again : reads the models again, in a thread, and raises nothing; None: they stay as they are
    listener : socket whose ``accept`` gives connections; None: one is made for the options' host and port
    place : where this process says what it counts, and the others of the same server do; None: there are no others

    Attributes
    ----------
    options, metrics : how it serves, and what it has counted
    models : what new connections may choose from

    Raises
    ------
    Nnet3Error
        The package websockets is missing, or an option cannot be used.
    """

    def __init__(self, service: StreamService, options: ServerOptions, models: ServedModels | None = None,
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
        self._limiting = asyncio.Event()        # set: connections have only a while to end

    def stop(self) -> None:
        """Accept no more connections, and end when those that are open have ended; called again: end them now."""
        if self._limiting.is_set():
            self._hurrying.set()
        self._limiting.set()
        self._stopping.set()

    def retire(self) -> None:
        """Accept no more connections, and end when those that are open have ended, however long that takes."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._limiting.is_set()

    def reload(self) -> None:
        """Read models again whose files have changed, for connections that come then; returns at once.

        Connections that are open keep what they have to their end. What cannot be read is logged, and served as before.
        """
        self._reload_is_wanted = True          # if it is being done: once more, for what has changed since
        if self._read_again is not None and (self._reloading is None or self._reloading.done()):
            self._reloading = asyncio.get_running_loop().create_task(self._reload(self._read_again))

    async def _reload(self, read_again: Callable[[], Reloaded]) -> None:
        while self._reload_is_wanted and not self._stopping.is_set():
            self._reload_is_wanted = False
            self.models, changes, problems = await asyncio.to_thread(read_again)
            for problem in problems:
                logger.error("%s; what was served before still is", problem)
            self.metrics.count("reloads_total", label="failed" if problems else "ok")
            logger.info("Models were looked at again: %s", "; ".join(changes) or "nothing is different")

    async def serve(self, listening: Callable[[str], None] = lambda address: None) -> None:
        """Accept connections until :meth:`stop` is called; ``listening`` is told the address once that begins.

        Raises Nnet3Error if the port cannot be used.
        """
        try:
            server = await self._listen()
            listening(self._address(server))
            publishing = asyncio.ensure_future(self._publish_often())
            await self._stopping.wait()
            await self._drain(server)
            publishing.cancel()
        finally:
            await asyncio.get_running_loop().run_in_executor(None, self._service.shut_down)

    async def _listen(self) -> Any:
        from websockets.asyncio.server import serve

        options = self.options
        quiet = logging.getLogger(__name__ + ".websockets")      # tells of garbage with tracebacks
        quiet.disabled = True
        try:
            where: dict[str, Any] = {"host": options.host or None, "port": options.port}
            if self._listener is not None:
                where = {"sock": self._listener}
            return await serve(
                self._handle, **where, process_request=self._process_request,
                compression=None, server_header="nnet3py", open_timeout=_OPEN_SECONDS, ping_interval=_PING_SECONDS,
                ping_timeout=None,       # an answer to it comes after all the sound that waits
                close_timeout=CLOSE_SECONDS, max_size=options.limits.max_message_bytes,
                max_queue=MESSAGES_WAITING, logger=quiet, ssl=tls_context(options))
        except OSError as error:
            raise cannot_listen(options, error) from None

    def _address(self, server: Any) -> str:
        return "" if self._listener is not None else address_of(self.options, server.sockets[0])

    async def _publish_often(self) -> None:
        while self._place is not None:
            await asyncio.sleep(_PUBLISH_SECONDS)
            self._place.write(self.metrics.state())

    async def _drain(self, server: Any) -> None:
        """Let connections end, for a while; then end them."""
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
        """The HTTP response to a request; None for one that opens a WebSocket."""
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
        """Connections that are open, of all processes of the server."""
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
        """What ``/health`` says: ``status`` is ``ok``, or ``stopping``."""
        from nnet3py import __version__

        default = self.models.default
        several = {} if self._place is None else {"processes": self._place.num_processes}
        return {"status": "stopping" if self._stopping.is_set() else "ok", "model": default.name if default else "",
                "models": list(self.models.by_name), "version": __version__, "connections": self._num_connections(),
                "sample_rate": self.options.sample_rate, **several}

    async def _handle(self, connection: Any) -> None:
        """Have the conversation with one client; whatever goes wrong in it ends this connection only."""
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
    """Serve until SIGTERM or SIGINT comes; a second one ends open connections at once. At SIGHUP models are read again.

    If a terminal started it, and SIGHUP comes because the terminal is closed, that ends it as well.

    Parameters
    ----------
    server_of : makes the server, within the event loop that will run it
    listening : is told the address
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
    """Raise Nnet3Error, which says how to install it, if the package is missing."""
    load("websockets.asyncio.server", "the server needs", "serve", "websockets, 13.0 or newer")


def address_of(options: ServerOptions, listener: Any) -> str:
    """Return the address of a server's page, for a socket that listens."""
    host, port = listener.getsockname()[:2]
    return f"{'https' if options.certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"


def cannot_listen(options: ServerOptions, error: OSError) -> Nnet3Error:
    """Return what to say if the port cannot be used."""
    return Nnet3Error(f"cannot listen on port {options.port} of {options.host or 'all interfaces'}: "
                      f"{error.strerror or error}", "choose another with --port or --host")


def tls_context(options: ServerOptions) -> Any:
    """Return an SSLContext of the options' certificate; None without one. Nnet3Error for files that are none."""
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
