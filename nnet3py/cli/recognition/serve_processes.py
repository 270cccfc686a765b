"""Several processes behind one port: copies of one that has loaded the models, accepts connections and hands them out.

The first process serves nobody. It gives each connection to the copy that has fewest, starts a copy again that has
ended, and passes on what it is told by signals. At SIGHUP it reads the models and, if they are different, makes new
copies; those that are there keep their connections to the end. A copy whose first process is gone stops as well.
"""
from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nnet3py import log, system
from nnet3py.cli.process.forked import ending_of, fork
from nnet3py.errors import Nnet3Error, UsageError

if TYPE_CHECKING:
    from nnet3py.recognition.server.metrics import Board, Place
    from nnet3py.recognition.server.models import Reloaded
    from nnet3py.recognition.server.options import ServerOptions
    from nnet3py.recognition.server.server import RecognitionServer

_CONNECTION, _STOP, _HURRY, _RETIRE, _ENDED = b"c", b"s", b"h", b"r", b"-"      # what processes tell each other
_SLOTS = 256               # processes at a time, those that retire among them
_BACKLOG = 128             # connections that wait to be accepted
_RETIRE_SECONDS = 1.0      # that a copy which retires has to open its last connections
_RESTART_SECONDS = 1.0     # at least between two starts of a copy that ends by itself

ServerOf = Callable[[socket.socket, "Place"], "RecognitionServer"]
"""Makes the server of a copy, within the event loop that will run it."""


def check_processes(count: int, device: str) -> None:
    """Raise UsageError if there cannot be so many processes of one server."""
    if count < 1:
        raise UsageError(f"--num-processes={count}: expected 1 or more")
    if count == 1:
        return
    if not system.CAN_FORK or not hasattr(socket, "send_fds"):
        raise UsageError(f"--num-processes={count}: processes cannot be copied on this system",
                         "run several commands, each with a --port of its own, behind a proxy")
    if device != "cpu":
        raise UsageError(f"--num-processes={count}: a GPU cannot be shared by copies of a process",
                         "one process serves all streams of a GPU")


class _Connection(socket.socket):
    """A connection that was handed over, whose end is told."""

    told: Callable[[], None] | None = None

    def close(self) -> None:
        """Close the connection, and tell the first process when that is done for the first time."""
        super().close()
        told, self.told = self.told, None
        if told is not None:
            told()


class _HandedConnections(socket.socket):
    """A socket by which another process hands over connections, for an event loop that thinks that it listens."""

    tell_end: Callable[[], None]

    def listen(self, backlog: int = 0) -> None:
        """Do nothing: the other process listens."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection. BlockingIOError if none waits."""
        content, descriptors, _, _ = socket.recv_fds(self, 1, 1)
        if not content or not descriptors:
            raise BlockingIOError
        connection = _Connection(fileno=descriptors[0])
        connection.told = self.tell_end
        try:
            return connection, connection.getpeername()
        except OSError:                       # it is gone already
            connection.close()
            raise BlockingIOError from None


class _Copy:
    """A copy of this process, as the first one sees it."""

    def __init__(self, number: int, body: Callable[[], int]) -> None:
        self.number = number
        self.connections, handed = socket.socketpair()
        self.control, controlled = socket.socketpair()
        try:
            self.process = fork(body, (handed.fileno(), controlled.fileno(), None))
        finally:
            handed.close()
            controlled.close()
        for end in (self.connections, self.control):
            end.setblocking(False)
        self.count = 0                        # connections that it was given and that have not ended
        self.begun = time.monotonic()
        self.is_retiring = False

    def hand_over(self, connection: socket.socket) -> bool:
        """Give the copy a connection; returns whether it could take it."""
        try:
            socket.send_fds(self.connections, [_CONNECTION], [connection.fileno()])
        except OSError:
            return False
        self.count += 1
        return True

    def tell(self, message: bytes) -> None:
        """Send the copy a message, if it is still there."""
        with suppress(OSError):
            self.control.send(message)

    def close(self) -> int:
        """Wait until the copy has ended; its exit status, below 0 for a signal."""
        self.connections.close()
        self.control.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


class Supervisor:
    """The first process of several. :meth:`run` returns when all have ended.

    Parameters
    ----------
    count : copies that serve
    options : how they do
    server_of : makes the server of a copy
    read_again : reads the models again, in a thread, and raises nothing
    """

    def __init__(self, count: int, options: ServerOptions, server_of: ServerOf,
                 read_again: Callable[[], Reloaded]) -> None:
        from nnet3py.recognition.server.metrics import Board, Metrics
        from nnet3py.recognition.server.server import tls_context

        tls_context(options)                  # what is wrong with it stops the command
        self._count, self._options, self._server_of, self._read_again = count, options, server_of, read_again
        self._board: Board = Board(_SLOTS)
        self._metrics = Metrics()             # of this process, in slot 0
        self._copies: list[_Copy] = []
        self._selector = selectors.DefaultSelector()
        self._listeners: list[socket.socket] = []
        self._waking, self._woken = socket.socketpair()
        self._waking.setblocking(False)
        self._due: list[float] = []           # when copies that have ended are to be started again
        self._is_stopping = self._reload_is_wanted = self._ends_with_terminal = False
        self._reloading: threading.Thread | None = None
        self._reloaded: list[Reloaded] = []

    def run(self, listening: Callable[[str], None]) -> None:
        """Serve until a signal comes; ``listening`` is told the address."""
        from nnet3py.recognition.server.server import address_of

        try:
            self._listeners = _listeners(self._options)
        except Nnet3Error:
            self._end_all()
            raise
        self._ends_with_terminal = bool(system.HANGUP) and system.has_terminal() and (
            signal.getsignal(system.HANGUP) != signal.SIG_IGN)
        before = {number: signal.signal(number, lambda *_: None)
                  for number in (signal.SIGTERM, signal.SIGINT, *filter(None, [system.HANGUP]))}
        signal.set_wakeup_fd(self._waking.fileno())
        try:
            self._board.write(0, self._metrics.state())
            for _ in range(self._count):
                self._start()
            for listener in self._listeners:
                self._selector.register(listener, selectors.EVENT_READ, self._accept)
            self._selector.register(self._woken, selectors.EVENT_READ, self._hear_signals)
            listening(address_of(self._options, self._listeners[0]))
            while self._copies or self._due:
                self._turn()
        finally:
            signal.set_wakeup_fd(-1)
            self._end_all()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _turn(self) -> None:
        wait = max(0.0, min(self._due) - time.monotonic()) if self._due else None
        for key, _ in self._selector.select(wait):
            key.data(key.fileobj)
        now = time.monotonic()
        if self._reloading is None:           # no other thread is at work, so this process can be copied
            for _ in [due for due in self._due if due <= now]:
                self._start()
            self._due = [due for due in self._due if due > now]
        elif self._due:
            self._due = [max(due, now + 0.1) for due in self._due]

    # -- copies --------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        used = {0, *(copy.number for copy in self._copies)}
        number = next((slot for slot in range(_SLOTS) if slot not in used), None)
        if number is None:
            raise Nnet3Error(f"{_SLOTS} processes have connections that do not end")
        place = self._place(number)
        copy = _Copy(number, lambda: _serve(self._server_of, place))
        self._copies.append(copy)
        self._selector.register(copy.control, selectors.EVENT_READ, lambda control: self._hear(copy))

    def _place(self, number: int) -> Place:
        from nnet3py.recognition.server.metrics import Place

        return Place(self._board, number)

    def _hear(self, copy: _Copy) -> None:
        try:
            said = copy.control.recv(1 << 12)
        except OSError:
            said = b""
        copy.count = max(0, copy.count - said.count(_ENDED))
        if said:
            return
        self._selector.unregister(copy.control)
        self._copies.remove(copy)
        status = copy.close()
        self._board.write(copy.number, None)
        if self._is_stopping or copy.is_retiring:
            return
        log.warning(f"Process {copy.number} ({copy.process}) ended with {ending_of(status)}; "
                    "another one takes its place")
        self._metrics.count("restarts_total")
        self._board.write(0, self._metrics.state())
        self._due.append(max(time.monotonic(), copy.begun + _RESTART_SECONDS))

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:                       # it is gone already, or there are no descriptors left
            return
        with connection:
            for copy in sorted(self._serving(), key=lambda copy: copy.count):
                if copy.hand_over(connection):
                    return

    def _serving(self) -> list[_Copy]:
        return [copy for copy in self._copies if not copy.is_retiring]

    # -- signals -------------------------------------------------------------------------------------------------------

    def _hear_signals(self, woken: socket.socket) -> None:
        for number in woken.recv(64):
            if not number:
                self._take_models()
            elif number == system.HANGUP and not (self._ends_with_terminal and not system.has_terminal()):
                self._reload()
            else:
                self._stop()

    def _stop(self) -> None:
        for copy in self._copies:
            copy.tell(_HURRY if self._is_stopping else _STOP)
        self._is_stopping, self._due = True, []
        while self._listeners:
            listener = self._listeners.pop()
            self._selector.unregister(listener)
            listener.close()

    def _reload(self) -> None:
        """Read the models in a thread, while connections go on to be handed out."""
        self._reload_is_wanted = True
        if self._reloading is not None or self._is_stopping:
            return
        self._reload_is_wanted = False

        def read() -> None:
            self._reloaded.append(self._read_again())
            self._waking.send(b"\0")

        self._reloading = threading.Thread(target=read, name="nnet3py-reload", daemon=True)
        self._reloading.start()

    def _take_models(self) -> None:
        """Make copies that have the models as they are now, and let those with other ones retire."""
        assert self._reloading is not None
        self._reloading.join()
        self._reloading = None
        _, changes, problems = self._reloaded.pop()
        for problem in problems:
            log.error(f"{problem}; the model stays as it was")
        self._metrics.count("reloads_total", label="failed" if problems else "ok")
        self._board.write(0, self._metrics.state())
        if changes and not self._is_stopping:
            before = self._serving()
            for _ in range(self._count):
                self._start()
            self._due = []
            for copy in before:
                copy.is_retiring = True
                copy.tell(_RETIRE)
        log.log(f"Models were looked at again: {'; '.join(changes) or 'nothing is different'}")
        if self._reload_is_wanted:
            self._reload()

    def _end_all(self) -> None:
        for listener in self._listeners:
            listener.close()
        for copy in self._copies:
            with suppress(ProcessLookupError):
                os.kill(copy.process, signal.SIGTERM)
            copy.close()
        self._selector.close()
        self._waking.close()
        self._woken.close()


def _listeners(options: ServerOptions) -> list[socket.socket]:
    """Sockets that listen at the options' host and port, one for each of its addresses. Nnet3Error if that fails."""
    from nnet3py.recognition.server.server import cannot_listen

    listeners: list[socket.socket] = []
    port = options.port
    try:
        for family, kind, protocol, _, address in dict.fromkeys(socket.getaddrinfo(
                options.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)):
            listener = socket.socket(family, kind, protocol)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address[0], port, *address[2:]))
            port = listener.getsockname()[1]
            listener.listen(_BACKLOG)
            listener.setblocking(False)
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise cannot_listen(options, error) from None
    return listeners


def _serve(server_of: ServerOf, place: Place) -> int:
    """Be a copy: standard input hands over connections, by standard output the first process says what to do."""
    import asyncio

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)          # of a terminal: the first process says what it means
    if system.HANGUP:
        signal.signal(system.HANGUP, signal.SIG_IGN)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        control = socket.socket(fileno=os.dup(1))
        control.setblocking(False)
        connections = _HandedConnections(fileno=os.dup(0))

        def tell_end() -> None:
            with suppress(OSError):
                control.send(_ENDED)

        connections.tell_end = tell_end
        server = server_of(connections, place)

        def stop() -> None:
            if not server.is_stopping:
                server.stop()

        def hear() -> None:
            try:
                said = control.recv(64)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if not said:
                loop.remove_reader(control)
                stop()
            for number in said:
                what = bytes([number])
                if what == _RETIRE:           # after the connections that were handed over just before
                    loop.call_later(_RETIRE_SECONDS, server.retire)
                else:
                    stop() if what == _STOP else server.stop()

        loop.add_reader(control, hear)
        system.call_at_signals(loop, (signal.SIGTERM,), stop)
        await server.serve()

    asyncio.run(serve())
    return 0
