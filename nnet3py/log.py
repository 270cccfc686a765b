"""Log lines of commands, in Kaldi's form, on standard error, and progress on a terminal.

A line is ``LOG (PROGRAM[VERSION]:FUNCTION():FILE:LINE) MESSAGE``; scripts of recipes search for both parts. Commands
call :func:`log`, :func:`warning` and :func:`vlog`. The library uses :mod:`logging`; in commands
:func:`connect_logging` turns records of the ``nnet3py`` loggers into lines of the same form. A record that must have
the header of Kaldi's line has ``extra=kaldi_place("PrintTotalStats", "nnet-diagnostics.cc", 165)``.

Kaldi: base/kaldi-error.h.
"""
from __future__ import annotations

import atexit
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import logging

KALDI_VERSION = "5.5"  # version of Kaldi's programs in log lines, for which scripts may look

_DEBUG = 10  # logging.DEBUG, which is VLOG[1]; 9 is VLOG[2] and so on

_CLEAR_LINE = "\r\x1b[K"
_BAR = 30          # characters
_USUAL_WIDTH = 80
_SECONDS_BETWEEN = 0.2   # seconds between two updates of the progress

_program = ""
_status = ""             # text on the terminal's last line
_shows_status = True
_verbose = 0
_show_warning_before: Any = None   # warnings.showwarning before connect_logging
_shown: Any = None       # handler of show_log
# Loggers whose INFO records are of no interest at a prompt.
_HOUSEKEEPING = ("nnet3py.network.", "nnet3py.compiler.", "nnet3py.runtime.")
_FOR_SCRIPTS = "[this line is to be parsed by a script:]"

_times: dict[tuple[str, str], int] = {}      # occurrences of the warnings of warn_once, by logger and message

T = TypeVar("T")


def set_program(name: str) -> None:
    """Set the name of the running command for the headers of log lines: Kaldi's name, such as ``nnet3-train``."""
    global _program
    _program = name


def set_verbose(level: int) -> None:
    """Show ``VLOG[n]`` lines for n up to ``level``, the value of ``--verbose``."""
    global _verbose
    _verbose = level
    if "logging" in sys.modules:
        sys.modules["logging"].getLogger("nnet3py").setLevel(_logging_level())


def program() -> str:
    """Return the name of the running command, from :func:`set_program`."""
    return _program


def verbose() -> int:
    """Return the current verbose level."""
    return _verbose


def log(message: str, function: str = "main", file: str | None = None, line: int | None = None) -> None:
    """Write a LOG line with ``function``, ``file`` and ``line`` in its header; default: the caller's file and line."""
    _write("LOG", message, function, *_place(file, line, sys._getframe(1)))


def warning(message: str, function: str = "main", file: str | None = None, line: int | None = None) -> None:
    """Write a WARNING line. Arguments as for :func:`log`."""
    _write("WARNING", message, function, *_place(file, line, sys._getframe(1)))


def error(message: str, function: str = "main", file: str | None = None, line: int | None = None) -> None:
    """Write an ERROR line, without raising an exception. Arguments as for :func:`log`."""
    _write("ERROR", message, function, *_place(file, line, sys._getframe(1)))


def vlog(level: int, message: str, function: str = "main", file: str | None = None, line: int | None = None) -> None:
    """Write a ``VLOG[level]`` line if ``--verbose`` is at least ``level``. Arguments as for :func:`log`."""
    if level <= _verbose:
        _write(f"VLOG[{level}]", message, function, *_place(file, line, sys._getframe(1)))


def warn_once(logger: logging.Logger, message: str) -> None:
    """Log a warning the first time, and only count it after that, until the counts are reset.

    :func:`warn_of_repeats` and :func:`count_repeats_anew` reset them.
    """
    key = logger.name, message
    _times[key] = _times.get(key, 0) + 1
    if _times[key] == 1:
        logger.warning("%s", message, stacklevel=2)


def warn_of_repeats() -> None:
    """Log each warning of :func:`warn_once` that occurred more than once, with its count; reset the counts."""
    import logging

    for (name, message), count in _times.items():
        if count > 1:
            logging.getLogger(name).warning("%s (%d times in all)", message, count)
    _times.clear()


def count_repeats_anew() -> None:
    """Reset the counts of :func:`warn_once`, so that the warnings are logged again."""
    _times.clear()


def kaldi_place(function: str, file: str, line: int) -> dict[str, Any]:
    """Return the argument ``extra=`` of a :mod:`logging` call whose line shall have Kaldi's function, file and line."""
    return {"kaldi_place": (function, file, line)}


def short_path(path: str) -> str:
    """Shorten a source path to its last folder and file name, as in headers of log lines."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _place(file: str | None, line: int | None, frame: FrameType) -> tuple[str, int]:
    if file is None:
        return short_path(frame.f_code.co_filename), frame.f_lineno if line is None else line
    return file, line or 0


def _write(kind: str, message: str, function: str, file: str, line: int) -> None:
    # A single write, so that lines of processes that share a terminal or a log file do not mix.
    write_text(f"{kind} ({_program}[{KALDI_VERSION}]:{function}():{file}:{line}) {message}\n")


def write_text(text: str) -> None:
    """Write text to standard error; errors are ignored, since there is no other place to report them."""
    if _status:
        show_status("")
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def _logging_level() -> int:
    return max(1, _DEBUG + 1 - _verbose) if _verbose > 0 else _DEBUG + 1


def show_log(level: str | None = "INFO") -> None:
    """Print the records of the ``nnet3py`` loggers to standard error, for programs and notebooks.

    This is the default in interactive use, unless logging is set up otherwise.

    Parameters
    ----------
    level : "INFO" for passes of training and the like, "DEBUG" for all records, "WARNING" for warnings and errors; None
        stops printing
    """
    global _shown
    import logging

    from nnet3py.errors import UsageError

    number = logging.NOTSET if level is None else logging.getLevelName(level.upper())
    if not isinstance(number, int):
        raise UsageError(f"expected a level such as INFO, DEBUG or WARNING, found {level!r}")
    logger = logging.getLogger("nnet3py")
    if _shown is not None:
        logger.removeHandler(_shown)
        logger.setLevel(0)
        _shown = None
    if level is None:
        return
    _shown = logging.StreamHandler()
    _shown.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    _shown.addFilter(lambda record: record.levelno != logging.INFO or number < logging.INFO
                     or not (record.name.startswith(_HOUSEKEEPING) or record.getMessage().startswith(_FOR_SCRIPTS)))
    logger.addHandler(_shown)
    logger.setLevel(number)


def show_log_if_interactive() -> None:
    """Call :func:`show_log` at a prompt or in a notebook, unless the program has set up logging."""
    if hasattr(sys, "ps1"):
        import logging

        if not logging.getLogger("nnet3py").hasHandlers():
            show_log()


def connect_logging() -> None:
    """Write records of the ``nnet3py`` loggers as Kaldi's lines.

    INFO becomes LOG, DEBUG (level 10) VLOG[1], level 9 VLOG[2], and so on. Warnings of Python's module ``warnings`` (a
    library's RuntimeWarning) become WARNING lines.
    """
    global _show_warning_before
    import logging
    import warnings

    show_log(None)
    logger = logging.getLogger("nnet3py")
    if not any(getattr(handler, "writes_kaldi_lines", False) for handler in logger.handlers):
        handler = logging.Handler()
        handler.writes_kaldi_lines = True  # type: ignore[attr-defined]
        handler.emit = _emit  # type: ignore[method-assign]
        logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(_logging_level())
    if _show_warning_before is None:
        _show_warning_before = warnings.showwarning
        warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int,
                  file: Any = None, line: str | None = None) -> None:
    _write("WARNING", f"{category.__name__}: {' '.join(str(message).split())}", "main", short_path(filename), lineno)


def disconnect_logging() -> None:
    """Undo :func:`connect_logging`, for a program that has called a command and continues."""
    global _show_warning_before
    if _show_warning_before is not None:
        sys.modules["warnings"].showwarning = _show_warning_before   # type: ignore[attr-defined]
        _show_warning_before = None
    if "logging" not in sys.modules:
        return
    logger = sys.modules["logging"].getLogger("nnet3py")
    for handler in [attached for attached in logger.handlers if getattr(attached, "writes_kaldi_lines", False)]:
        logger.removeHandler(handler)
    logger.propagate = True
    logger.setLevel(0)
    show_log_if_interactive()


def _emit(record: logging.LogRecord) -> None:
    if record.levelno >= 40:
        kind = "ERROR"
    elif record.levelno >= 30:
        kind = "WARNING"
    elif record.levelno > _DEBUG:
        kind = "LOG"
    else:
        kind = f"VLOG[{_DEBUG + 1 - record.levelno}]"
    place = getattr(record, "kaldi_place", None) or (record.funcName, short_path(record.pathname), record.lineno)
    _write(kind, record.getMessage(), *place)



# -- progress on a terminal --------------------------------------------------------------------------------------------


def show_status(text: str) -> bool:
    """Replace the status line, the last line on the terminal, by ``text``; return whether there is a terminal.

    It is written to standard error if that is a terminal, or else to the terminal whose path is
    ``$NNET3PY_PROGRESS``. A process whose standard output is a pipe shows no status: the process that reads the pipe
    does.
    """
    global _status
    stream = _terminal()
    if stream is None:
        return False
    if text != _status:
        atexit.unregister(show_status)
        if text:
            atexit.register(show_status, "")
        _status = text
        try:
            stream.write(_clear_line(stream) + text[:_width(stream) - 1])
            stream.flush()
        except (OSError, ValueError):
            pass
    return True


def bar(done: int, total: int, what: str, seconds: float) -> str:
    """Format a progress bar: ``done`` of ``total`` (above 0) after ``seconds``.

    ``what`` is a format for ``total``, such as ``"{} files"``.
    """
    filled = _BAR * min(done, total) // total
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {done} of {what.format(total)}, {seconds:.0f} s"


def leave_status_to_others() -> None:
    """Show no status from now on, in a worker process: its parent process uses the terminal."""
    global _shows_status
    _shows_status = False


def _terminal() -> Any:
    """Return the stream for the status line; None if there is no terminal or notebook."""
    if not _shows_status:
        return None
    if _is_notebook(sys.stderr):
        return sys.stderr
    try:
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            return None
    except OSError:                    # standard output is closed
        pass
    try:
        if sys.stderr.isatty():
            return sys.stderr
    except (AttributeError, ValueError):
        pass
    path = os.environ.get("NNET3PY_PROGRESS")
    return _opened_terminal(path) if path else None


def _is_notebook(stream: Any) -> bool:
    """Return whether a stream is the output of a notebook's cell."""
    return type(stream).__module__.startswith("ipykernel.")


def _clear_line(stream: Any) -> str:
    # notebooks do not interpret the terminal's control sequence
    return f"\r{' ' * _USUAL_WIDTH}\r" if _is_notebook(stream) else _CLEAR_LINE


@cache
def _opened_terminal(path: str) -> Any:
    try:
        stream = open(path, "w")  # noqa: SIM115 (stays open until the process ends)
    except OSError:
        return None
    return stream if stream.isatty() else None


def _width(stream: Any) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


def progress(items: Iterable[T], label: str, length: int | None = None, size: Callable[[T], int] | None = None,
             share: Callable[[], float | None] | None = None) -> Iterator[T]:
    """Yield ``items``, and show their count, their rate and the remaining time on the terminal, if there is one.

    Parameters
    ----------
    label : beginning of the status line
    length : number of items, or of examples if ``size`` is given; None if unknown
    size : function that returns the number of examples of an item; None to count items
    share : function that returns the finished fraction of the whole, from 0 to 1, or None if unknown; it gives the
        remaining time without ``length``
    """
    start = shown = time.monotonic()
    total = f" of {length}" if length and size is None else ""
    unit = " a second" if size is None else " examples a second"
    amount = 0
    try:
        for count, item in enumerate(items):
            now = time.monotonic()
            if now - shown >= _SECONDS_BETWEEN:
                shown = now
                seconds = max(now - start, 1e-3)
                done = amount / length if length else share() if share and count else None
                left = f", {clock_time(seconds * (1.0 / min(done, 1.0) - 1.0))} left" if done else ""
                show_status(f"{label}: {count}{total} done, {seconds:.0f} s, {rate(amount / seconds)}{unit}{left}")
            yield item
            amount += 1 if size is None else size(item)
    finally:
        show_status("")


def rate(value: float) -> str:
    """Format a rate: without decimals from 10 on, else with one."""
    return f"{value:.0f}" if value >= 10.0 else f"{value:.1f}"


def clock_time(seconds: float) -> str:
    """Format a duration in seconds as ``h:mm:ss``, or as ``1 day, h:mm:ss``."""
    from datetime import timedelta  # slow to load, and rarely needed

    return str(timedelta(seconds=round(seconds)))
