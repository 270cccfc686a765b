"""The process around a command: signals, standard streams, and an exit status and one ERROR line for every error."""
from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from nnet3py import log, system
from nnet3py.engine import threads
from nnet3py.errors import Nnet3Error

FATAL, WRONG_USAGE, INTERRUPTED, BROKEN_PIPE = 255, 1, 130, 141   # 141: what a shell shows for SIGPIPE
LONGEST_MESSAGE = 2000                                            # characters; a quoted line of a file can be longer
# Lack of memory as the dynamic loader, the C library, Python's threads and C++ word it, in an error or in its cause.
_NO_MEMORY = re.compile(r"\S*: failed to map segment from shared object|.*[Cc]annot allocate memory|.*std::bad_alloc|"
                        r"can't start new thread|.*[Uu]nable to allocate .*")


def run_process(body: Callable[[], int]) -> NoReturn:
    """Run ``body``, the work of this process, and exit with the status that it returns."""
    _occupy_closed_streams()
    for number in system.ENDING_SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:   # nohup ignores SIGHUP, and it must stay ignored
            signal.signal(number, _clean_up_and_die)
    status = guarded(lambda: _bound(body))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(status)


def _bound(body: Callable[[], int]) -> int:
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:       # set by the launchers until modules are imported
        signal.signal(signal.SIGINT, signal.default_int_handler)
    threads.own_process()
    threads.bind_libraries()
    return body()


def _occupy_closed_streams() -> None:
    """Open /dev/null for each standard stream that the caller closed.

    Otherwise the next file that is opened would get the descriptor of standard error, and log lines would be written
    into it. Standard input is opened for writing and output for reading, so that using them remains an error.
    """
    for stream, flags in ((sys.stdin, os.O_WRONLY), (sys.stdout, os.O_RDONLY), (sys.stderr, os.O_WRONLY)):
        if stream is None:
            os.open(os.devnull, flags)   # gets the lowest free number
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)        # noqa: SIM115 - it lasts as long as the process


def _clean_up_and_die(number: int, frame: Any) -> None:
    """Handle a signal: remove temporary files, then let the signal end the process."""
    for module, remove in (("nnet3py.io.temporary_files", "remove_all"),
                           ("nnet3py.engine.cache_folder", "remove_private")):
        if module in sys.modules:
            getattr(sys.modules[module], remove)()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def guarded(body: Callable[[], int], person: bool = False) -> int:
    """Run ``body``; report an exception in one line, and return the exit status.

    ``person``: whether the command was called as ``nnet3py NAME``. If not, Kaldi's last line after a fatal error,
    ``kaldi::KaldiFatalError``, is written, too.
    """
    try:
        status = body()
        if sys.stdout is not None:
            sys.stdout.flush()   # here, where a full disk can still be reported
        return status
    except BrokenPipeError:
        return _silence_stdout(BROKEN_PIPE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if getattr(error, "exit_code", None) == BROKEN_PIPE:   # raised by the writer of the data
            return _silence_stdout(BROKEN_PIPE)
        status = report(error, person)
        return _silence_stdout(status) if isinstance(error, OSError) else status


def _silence_stdout(status: int) -> int:
    """Redirect standard output to /dev/null, so that flushing its buffer at exit does not fail; return ``status``."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass
    return status


def report(error: Exception, person: bool = False) -> int:
    """Write the ERROR line for an exception, with the traceback at ``--verbose=2``; return the exit status."""
    message, status = _describe(error)
    function, file, line = _origin(error)
    if log.verbose() >= 2:
        import traceback

        log.write_text("".join(traceback.format_exception(error)))
    log.error(_one_line(message), function, file, line)
    if status == FATAL and not person:
        log.write_text("kaldi::KaldiFatalError\n")
    return status


def _one_line(message: str) -> str:
    """Return a message as one printable line; the middle of a long message is replaced by "..."."""
    line = "".join(c if c.isprintable() else " " if c == "\n" else ascii(c)[1:-1] for c in message)
    if len(line) <= LONGEST_MESSAGE:
        return line
    return f"{line[:LONGEST_MESSAGE // 2]} ... {line[-LONGEST_MESSAGE // 2:]}"


def _describe(error: Exception) -> tuple[str, int]:
    if isinstance(error, Nnet3Error):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        return error.format_message(), WRONG_USAGE
    lack = _lack_of_memory(error)
    if lack is not None:
        return lack, FATAL
    if isinstance(error, OSError) and error.strerror:
        where = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        return f"{where}{': ' if where else ''}{error.strerror}", FATAL
    text = f"internal error: {type(error).__name__}: {error}"
    return f"{text} (run again with --verbose=2 for the traceback){_memory_limit()}", FATAL


def _lack_of_memory(error: BaseException) -> str | None:
    """Return the message for an error caused by a lack of memory; None for other errors."""
    cause: BaseException | None = error
    while cause is not None:
        limit_match = _NO_MEMORY.search(str(cause))
        if isinstance(cause, MemoryError) or limit_match or getattr(cause, "errno", None) == errno.ENOMEM:
            what = limit_match[0] if limit_match else str(cause)
            return f"Out of memory{f': {what}' if what else ''}{_memory_limit()}"
        cause = cause.__cause__ or cause.__context__
    return None


def _memory_limit() -> str:
    """Return text on this process's memory limit, for an error message; "" if there is none."""
    limit = system.memory_limit()
    return "" if limit is None else f" (this process may have {limit >> 20} MB: see ulimit -v)"


def _origin(error: Exception) -> tuple[str, str, int]:
    """Return the function, file and line in which an exception was raised."""
    trace = error.__traceback__
    if trace is None:
        return "main", "process.py", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_name, log.short_path(code.co_filename), trace.tb_lineno
