"""Forked processes that share a loaded model's memory: workers of nnet3-transcribe, serving processes of serve."""
from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log, system
from nnet3py.cli.process.forked import ending_of, fork
from nnet3py.errors import Nnet3Error, UsageError

if TYPE_CHECKING:
    from nnet3py.recognition.batch import Runner, Work
    from nnet3py.recognition.server.metrics import Board, Place
    from nnet3py.recognition.server.models import Reloaded
    from nnet3py.recognition.server.options import ServerOptions
    from nnet3py.recognition.server.server import RecognitionServer
    from nnet3py.recognition.sound import Listed
    from nnet3py.recognition.transcribing import Progress, Transcript

_TRIES = 2                 # attempts at a sound whose worker was killed, for example for lack of memory
_CONNECTION, _STOP, _HURRY, _RETIRE, _ENDED = b"c", b"s", b"h", b"r", b"-"      # messages between serving processes
_SLOTS = 256               # greatest number of serving processes, those that retire included
_BACKLOG = 128             # connections that wait to be accepted
_RETIRE_SECONDS = 1.0      # time that a retiring process has to accept its last connections
_RESTART_SECONDS = 1.0     # least time between two starts of a process that ends by itself

ServerOf = Callable[[socket.socket, "Place"], "RecognitionServer"]


# -- workers of nnet3-transcribe ---------------------------------------------------------------------------------------


def can_copy() -> bool:
    """Return whether this process can fork now: it has no other threads but idle ones that run kernels, and no GPU."""
    if not system.CAN_FORK or "numba.cuda" in sys.modules:
        return False
    from nnet3py.engine.team import is_worker

    return all(thread is threading.current_thread() or is_worker(thread) for thread in threading.enumerate())


def in_processes(count: int, num_threads: int) -> Runner:
    """Return a function that transcribes sounds in ``count`` forked workers of ``num_threads`` threads each.

    A worker that is killed is replaced, and its sound is tried once more. When this process ends, its workers end, too,
    at the latest when they report progress.
    """
    def run(work: Work, sounds: Iterable[Listed], progress: Progress) -> Iterator[tuple[Listed, Transcript]]:
        pool = _WorkerPool(work, num_threads)
        try:
            yield from pool.run(count, iter(sounds), progress)
        finally:
            pool.end()

    return run


class _Task(NamedTuple):
    sound: Listed
    tries: int = 1


class _Worker:
    """Forked process that transcribes sounds, with its pipes and its current task."""

    def __init__(self, work: Work, num_threads: int) -> None:
        source, self._target = os.pipe()
        self.answers, target = os.pipe()
        try:
            self.process = fork(lambda: _transcribe_tasks(work, num_threads), (source, target, None))
        finally:
            os.close(source)
            os.close(target)
        self.task: _Task | None = None
        self._partial = b""

    def give(self, task: _Task | None) -> None:
        """Send a task to the worker; None closes its input, at which it ends."""
        self.task = task
        with suppress(BrokenPipeError):            # a killed worker is noticed when its answers are read
            if task is None:
                os.close(self._target)
                self._target = -1
            else:
                os.write(self._target, json.dumps(task.sound).encode() + b"\n")

    def messages(self) -> list[dict[str, Any]] | None:
        """Read the messages that the worker has sent; return None once it has ended."""
        content = os.read(self.answers, 1 << 16)
        *lines, self._partial = (self._partial + content).split(b"\n")
        return [json.loads(line) for line in lines] if content else None

    def end(self) -> int:
        """Wait until the worker has ended; return its exit status, negative for a signal."""
        if self._target >= 0:
            os.close(self._target)
        os.close(self.answers)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


class _WorkerPool:
    """Pool of forked workers that transcribe sounds."""

    def __init__(self, work: Work, num_threads: int) -> None:
        self._work, self._num_threads = work, num_threads
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []

    def run(self, count: int, sounds: Iterator[Listed],
            progress: Progress) -> Iterator[tuple[Listed, Transcript]]:
        """Yield sounds with their transcripts as soon as they are ready; sounds are started in the given order."""
        from nnet3py.recognition.transcribing import Transcript

        for sound in sounds:
            self._begin(_Task(sound))
            if len(self._workers) == count:
                break
        while self._workers:
            for key, _ in self._selector.select():
                worker: _Worker = key.data
                task = worker.task
                messages = worker.messages()
                if messages is None:
                    yield from self._ended(worker)
                    continue
                for message in messages:
                    assert task is not None, "workers send messages about a task only"
                    if "seconds" in message:
                        progress(task.sound, message["seconds"], message["duration"])
                        continue
                    following = next(sounds, None)
                    worker.give(None if following is None else _Task(following))
                    yield task.sound, Transcript.of_data(message)

    def _begin(self, task: _Task) -> None:
        worker = _Worker(self._work, self._num_threads)
        self._workers.append(worker)
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        worker.give(task)

    def _ended(self, worker: _Worker) -> Iterator[tuple[Listed, Transcript]]:
        from nnet3py.recognition.transcribing import Transcript

        self._workers.remove(worker)
        self._selector.unregister(worker.answers)
        status = worker.end()
        if worker.task is None:
            return
        sound, tries = worker.task
        ending = ending_of(status)
        if tries < _TRIES:
            log.warning(f"The process that worked on {sound.path} ended with {ending}; another one tries again")
            self._begin(_Task(sound, tries + 1))
            return
        yield sound, Transcript(sound.path, sound.name,
                                error=f"the process that worked on it ended with {ending}, twice")

    def end(self) -> None:
        """Terminate all workers, and wait for them."""
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker.process, signal.SIGTERM)
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._selector.close()


def _transcribe_tasks(work: Work, num_threads: int) -> int:
    """Run a worker: transcribe the sounds named on standard input, write progress and results to standard output."""
    from nnet3py.engine.threads import set_num_threads
    from nnet3py.recognition.sound import Listed

    signal.signal(signal.SIGINT, signal.SIG_IGN)           # a terminal sends it to all; the first process acts on it
    for number in system.ENDING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    set_num_threads(num_threads)

    def send(message: dict[str, Any]) -> None:
        content = memoryview(json.dumps(message).encode() + b"\n")
        while content:
            content = content[os.write(1, content):]

    def report(sound: Listed, seconds: float, duration: float) -> None:
        send({"seconds": seconds, "duration": duration})

    for line in sys.stdin.buffer:
        send(work(Listed(*json.loads(line)), report).as_data())
    return 0


# -- serving processes -------------------------------------------------------------------------------------------------


def check_processes(count: int, device: str) -> None:
    """Raise UsageError if a server cannot run as ``count`` processes on ``device``."""
    if count == 1:
        return
    if not system.CAN_FORK or not hasattr(socket, "send_fds"):
        raise UsageError(f"--num-processes={count}: this system cannot fork processes or pass sockets",
                         "run several servers, each with its own --port, behind a proxy")
    if device != "cpu":
        raise UsageError(f"--num-processes={count}: forked processes cannot share a GPU",
                         "use one process, which serves all streams of a GPU")


class _Connection(socket.socket):
    """Connection that the first process passed to this one; ``tell_end`` tells the first process when it is closed."""

    tell_end: Callable[[], None] | None = None

    def close(self) -> None:
        """Close the connection; the first call reports it to the first process."""
        super().close()
        tell_end, self.tell_end = self.tell_end, None
        if tell_end is not None:
            tell_end()


class _PassedConnections(socket.socket):
    """Unix socket over which the first process passes connections; an event loop uses it like a listening socket."""

    tell_end: Callable[[], None]

    def listen(self, backlog: int = 0) -> None:
        """Do nothing, because the first process listens."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection; raise BlockingIOError if there is none."""
        content, descriptors, _, _ = socket.recv_fds(self, 1, 1)
        if not content or not descriptors:
            raise BlockingIOError
        connection = _Connection(fileno=descriptors[0])
        connection.tell_end = self.tell_end
        try:
            return connection, connection.getpeername()
        except OSError:                       # the client is gone already
            connection.close()
            raise BlockingIOError from None


class _ServingProcess:
    """Forked process that serves connections, and the first process's ends of the two sockets to it."""

    def __init__(self, number: int, body: Callable[[], int]) -> None:
        self.number = number
        self.connections, passed = socket.socketpair()
        self.control, controlled = socket.socketpair()
        try:
            self.pid = fork(body, (passed.fileno(), controlled.fileno(), None))
        finally:
            passed.close()
            controlled.close()
        for end in (self.connections, self.control):
            end.setblocking(False)
        self.count = 0                        # open connections
        self.begun = time.monotonic()
        self.is_retiring = False

    def pass_on(self, connection: socket.socket) -> bool:
        """Pass a connection to the process; return False if the process has ended."""
        try:
            socket.send_fds(self.connections, [_CONNECTION], [connection.fileno()])
        except OSError:
            return False
        self.count += 1
        return True

    def tell(self, message: bytes) -> None:
        """Send the process a message, unless it has ended."""
        with suppress(OSError):
            self.control.send(message)

    def close(self) -> int:
        """Wait until the process has ended; return its exit status, negative for a signal."""
        self.connections.close()
        self.control.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Supervisor:
    """First process of a server, which forks the other processes, accepts connections and passes them on.

    It serves no connections itself. A new connection is passed to the process that has the fewest; a process that ends
    is replaced. At SIGHUP it reloads the models and, if they have changed, forks new processes, while the old ones keep
    their connections to the end. The other processes stop if the first process ends.

    Parameters
    ----------
    count : number of processes that serve
    options : ServerOptions
    server_of : function that makes the server of a process, called in the event loop that runs it; its arguments are
        the source of passed connections, and the process's slot in the shared metrics
    reload : function that reloads changed models, called in a thread; it must not raise exceptions
    """

    def __init__(self, count: int, options: ServerOptions, server_of: ServerOf,
                 reload: Callable[[], Reloaded]) -> None:
        from nnet3py.recognition.server.metrics import Board, Metrics
        from nnet3py.recognition.server.server import tls_context

        tls_context(options)                  # raises errors of certificates now
        self._count, self._options, self._server_of, self._reload = count, options, server_of, reload
        self._board: Board = Board(_SLOTS)
        self._metrics = Metrics()             # this process's own, in slot 0 of the board
        self._processes: list[_ServingProcess] = []
        self._selector = selectors.DefaultSelector()
        self._listeners: list[socket.socket] = []
        self._waking, self._woken = socket.socketpair()
        self._waking.setblocking(False)
        self._due: list[float] = []           # times (time.monotonic()) at which to replace ended processes
        self._is_stopping = self._reload_is_wanted = self._ends_with_terminal = False
        self._reloading: threading.Thread | None = None
        self._reloaded: list[Reloaded] = []

    def run(self, listening: Callable[[str], None]) -> None:
        """Serve until all processes have ended after a signal; call ``listening`` with the server's address."""
        from nnet3py.recognition.server.server import address_of

        try:
            self._listeners = _listen(self._options)
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
            self._selector.register(self._woken, selectors.EVENT_READ, self._handle_signals)
            listening(address_of(self._options, self._listeners[0]))
            while self._processes or self._due:
                self._handle_events()
        finally:
            signal.set_wakeup_fd(-1)
            self._end_all()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle_events(self) -> None:
        wait = max(0.0, min(self._due) - time.monotonic()) if self._due else None
        for key, _ in self._selector.select(wait):
            key.data(key.fileobj)
        now = time.monotonic()
        if self._reloading is None:           # no other thread runs, so this process can fork
            for _ in [due for due in self._due if due <= now]:
                self._start()
            self._due = [due for due in self._due if due > now]
        elif self._due:
            self._due = [max(due, now + 0.1) for due in self._due]

    # -- processes -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        from nnet3py.recognition.server.metrics import Place

        used = {0, *(process.number for process in self._processes)}
        number = next((slot for slot in range(_SLOTS) if slot not in used), None)
        if number is None:
            raise Nnet3Error(f"{_SLOTS} processes of this server still have connections; cannot start another one")
        place = Place(self._board, number)
        process = _ServingProcess(number, lambda: _serve_connections(self._server_of, place))
        self._processes.append(process)
        self._selector.register(process.control, selectors.EVENT_READ, lambda control: self._handle_messages(process))

    def _handle_messages(self, process: _ServingProcess) -> None:
        try:
            said = process.control.recv(1 << 12)
        except OSError:
            said = b""
        process.count = max(0, process.count - said.count(_ENDED))
        if said:
            return
        self._selector.unregister(process.control)
        self._processes.remove(process)
        status = process.close()
        self._board.write(process.number, None)
        if self._is_stopping or process.is_retiring:
            return
        log.warning(f"Process {process.number} ({process.pid}) ended with {ending_of(status)}; "
                    "another one takes its place")
        self._metrics.count("restarts_total")
        self._board.write(0, self._metrics.state())
        self._due.append(max(time.monotonic(), process.begun + _RESTART_SECONDS))

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:                       # the client is gone already, or no file descriptors are left
            return
        with connection:
            for process in sorted(self._serving(), key=lambda process: process.count):
                if process.pass_on(connection):
                    return

    def _serving(self) -> list[_ServingProcess]:
        return [process for process in self._processes if not process.is_retiring]

    # -- signals -------------------------------------------------------------------------------------------------------

    def _handle_signals(self, woken: socket.socket) -> None:
        for number in woken.recv(64):
            if not number:
                self._use_reloaded_models()
            elif number == system.HANGUP and not (self._ends_with_terminal and not system.has_terminal()):
                self._start_reload()
            else:
                self._stop()

    def _stop(self) -> None:
        for process in self._processes:
            process.tell(_HURRY if self._is_stopping else _STOP)
        self._is_stopping, self._due = True, []
        while self._listeners:
            listener = self._listeners.pop()
            self._selector.unregister(listener)
            listener.close()

    def _start_reload(self) -> None:
        """Reload the models in a thread, while connections are still accepted."""
        self._reload_is_wanted = True
        if self._reloading is not None or self._is_stopping:
            return
        self._reload_is_wanted = False

        def read() -> None:
            self._reloaded.append(self._reload())
            self._waking.send(b"\0")

        self._reloading = threading.Thread(target=read, name="nnet3py-reload", daemon=True)
        self._reloading.start()

    def _use_reloaded_models(self) -> None:
        """Fork processes with the reloaded models; the old ones end after their last connections."""
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
            for process in before:
                process.is_retiring = True
                process.tell(_RETIRE)
        log.log(f"Models were looked at again: {'; '.join(changes) or 'nothing is different'}")
        if self._reload_is_wanted:
            self._start_reload()

    def _end_all(self) -> None:
        for listener in self._listeners:
            listener.close()
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            process.close()
        self._selector.close()
        self._waking.close()
        self._woken.close()


def _listen(options: ServerOptions) -> list[socket.socket]:
    """Return listening sockets, one for each address of the host; raise Nnet3Error if an address cannot be used."""
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


def _serve_connections(server_of: ServerOf, place: Place) -> int:
    """Run a serving process: standard input is the socket of passed connections, standard output that of messages."""
    import asyncio

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)          # a terminal sends it to all; the first process acts on it
    if system.HANGUP:
        signal.signal(system.HANGUP, signal.SIG_IGN)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        control = socket.socket(fileno=os.dup(1))
        control.setblocking(False)
        connections = _PassedConnections(fileno=os.dup(0))

        def tell_end() -> None:
            with suppress(OSError):
                control.send(_ENDED)

        connections.tell_end = tell_end
        server = server_of(connections, place)

        def stop() -> None:
            if not server.is_stopping:
                server.stop()

        def handle_messages() -> None:
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
                message = bytes([number])
                if message == _RETIRE:           # after the connections that were passed just before
                    loop.call_later(_RETIRE_SECONDS, server.retire)
                else:
                    stop() if message == _STOP else server.stop()

        loop.add_reader(control, handle_messages)
        system.call_at_signals(loop, (signal.SIGTERM,), stop)
        await server.serve()

    asyncio.run(serve())
    return 0
