"""Many streams on a few cores: callers hand in sound, a pool of threads decodes it.

The work of a stream is done in order, by any free thread. There are more threads than cores, so that the chunks of
threads that need the network at the same moment are computed as one batch
(:meth:`~nnet3py.runtime.looped.LoopedComputer.compute_chunks`). Search and features, whose compiled loops release the
interpreter's lock, run at the same time.
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from nnet3py.errors import UsageError
from nnet3py.recognition.results import Result
from nnet3py.recognition.stream import Block, Stream
from nnet3py.system import available_cores

THREADS_PER_CORE = 4

T = TypeVar("T")
_Work = tuple[Callable[[Stream], Any], "Future[Any]"]


class BatchScheduler:
    """A pool of threads that decode streams; ``with`` shuts it down.

    May be used from any thread. In asyncio, ``asyncio.wrap_future`` makes its futures awaitable.

    Parameters
    ----------
    num_threads : number of streams that are decoded at the same time; 0: four for each core of this process
    """

    def __init__(self, num_threads: int = 0) -> None:
        if num_threads < 0:
            raise UsageError(f"num_threads={num_threads}: expected 0 or more")
        self._threads = ThreadPoolExecutor(num_threads or THREADS_PER_CORE * available_cores(), "nnet3py-stream")

    def add(self, stream: Stream) -> ScheduledStream:
        """Add a stream; from now on it must be used only through the returned object."""
        return ScheduledStream(stream, self._threads)

    def shut_down(self) -> None:
        """Accept no more calls, and wait until all calls so far are done."""
        self._threads.shutdown()

    def __enter__(self) -> BatchScheduler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.shut_down()


class ScheduledStream:
    """A stream that is decoded by the threads of a scheduler, made by :meth:`BatchScheduler.add`.

    Each call returns at once with a future of its result; calls are executed in order. An error is raised by the future
    of its call; other streams are not affected.
    """

    def __init__(self, stream: Stream, threads: ThreadPoolExecutor) -> None:
        self._stream, self._threads = stream, threads
        self._lock = threading.Lock()
        self._waiting: deque[_Work] = deque()
        self._is_running = False

    def accept_waveform(self, block: Block) -> Future[bool]:
        """Pass a block to :meth:`Stream.accept_waveform`; the future's result is True if an utterance is over."""
        return self.run(lambda stream: stream.accept_waveform(block))

    def partial(self) -> Future[str]:
        """Return a future of the text of the current segment, after all blocks so far."""
        return self.run(lambda stream: stream.partial)

    def result(self) -> Future[Result]:
        """End the current segment, and return a future of its result."""
        return self.run(lambda stream: stream.result())

    def finish(self) -> Future[Result]:
        """End the sound, and return a future of the last segment's result."""
        return self.run(lambda stream: stream.finish())

    def run(self, work: Callable[[Stream], T]) -> Future[T]:
        """Call ``work(stream)`` in a thread after all earlier calls, and return a future of its result.

        Raises RuntimeError after the scheduler was shut down.
        """
        future: Future[T] = Future()
        with self._lock:
            if not self._is_running:
                self._threads.submit(self._next)
            self._is_running = True
            self._waiting.append((work, future))
        return future

    def _next(self) -> None:
        """Execute this stream's oldest waiting call; queue the next one behind the calls of other streams."""
        while True:
            with self._lock:
                work, future = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work(self._stream))
                except BaseException as error:
                    future.set_exception(error)
            with self._lock:
                self._is_running = bool(self._waiting)
                if not self._is_running:
                    return
                try:
                    self._threads.submit(self._next)
                    return
                except RuntimeError:            # shut down: this thread does the rest
                    continue
