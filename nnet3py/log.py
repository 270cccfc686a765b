"""Kaldi's log lines, on standard error.

A line reads ``LOG (PROGRAM[VERSION]:FUNCTION():FILE:LINE) MESSAGE``; recipes search both the header and the message.
Commands call :func:`log`, :func:`warning` and :func:`vlog`. The library itself uses :mod:`logging`; once a command
runs, :func:`connect_logging` turns what the ``nnet3py`` loggers say into lines of the same form. A library record that
must carry Kaldi's own header gives it as ``extra=kaldi_place("PrintTotalStats", "nnet-diagnostics.cc", 165)``.

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

KALDI_VERSION = "5.5"  # the version whose programs and log lines these are; scripts may look for it

_DEBUG = 10  # logging.DEBUG: VLOG[1]; every number below it one level more

_CLEAR_LINE = "\r\x1b[K"
_BAR = 30          # characters
_USUAL_WIDTH = 80
_SECONDS_BETWEEN = 0.2   # between two changes of what is shown

_program = ""
_status = ""             # what stands on the terminal's last line
_shows_status = True
_verbose = 0
_show_warning_before: Any = None   # warnings.showwarning before connect_logging
_shown: Any = None       # the handler of show_log
# What these say at INFO does not interest someone who tries things at a prompt.
_HOUSEKEEPING = ("nnet3py.network.", "nnet3py.compiler.", "nnet3py.runtime.")
_FOR_SCRIPTS = "[this line is to be parsed by a script:]"

_times: dict[tuple[str, str], int] = {}      # how often what was to be said once: by logger and message

T = TypeVar("T")


def set_program(name: str) -> None:
    """Return name the running command in the headers that follow (Kaldi's name, such as ``nnet3-train``)."""
    global _program
    _program = name


def set_verbose(level: int) -> None:
    """Show ``VLOG[n]`` messages for n <= ``level`` (the value of ``--verbose``)."""
    global _verbose
    _verbose = level
    if "logging" in sys.modules:
        sys.modules["logging"].getLogger("nnet3py").setLevel(_logging_level())


def program() -> str:
    """Return the name given to :func:`set_program`."""
    return _program


def verbose() -> int:
    """Return the current verbose level."""
    return _verbose


def log(message: str, function: str = "main", file: str | None = None, line: int | None = None) -> None:
    """Write a LOG line. Without ``file`` and ``line`` the caller's own are shown."""
    _write("LOG", message, function, *_place(file, line, sys._getframe(1)))


def warning(message: str, function: str = "main", file: str | None = None, line: int | None = None) -> None:
    """Write a WARNING line. Arguments as for :func:`log`."""
    _write("WARNING", message, function, *_place(file, line, sys._getframe(1)))


def error(message: str, function: str = "main", file: str | None = None, line: int | None = None) -> None:
    """Write an ERROR line; it raises nothing. Arguments as for :func:`log`."""
    _write("ERROR", message, function, *_place(file, line, sys._getframe(1)))


def vlog(level: int, message: str, function: str = "main", file: str | None = None, line: int | None = None) -> None:
    """Write a ``VLOG[level]`` line if ``--verbose`` is at least ``level``. Arguments as for :func:`log`."""
    if level <= _verbose:
        _write(f"VLOG[{level}]", message, function, *_place(file, line, sys._getframe(1)))


def warn_once(logger: logging.Logger, message: str) -> None:
    """Let a logger warn when it is the first time since :func:`count_repeats_anew`, and count the times after that."""
    key = logger.name, message
    _times[key] = _times.get(key, 0) + 1
    if _times[key] == 1:
        logger.warning("%s", message, stacklevel=2)


def warn_of_repeats() -> None:
    """Warn of what was to be said more than once, with how often it was, and count anew."""
    import logging

    for (name, message), count in _times.items():
        if count > 1:
            logging.getLogger(name).warning("%s (%d times in all)", message, count)
    _times.clear()


def count_repeats_anew() -> None:
    """Let all warnings of :func:`warn_once` be said again."""
    _times.clear()


def kaldi_place(function: str, file: str, line: int) -> dict[str, Any]:
    """Return the ``extra=`` of a :mod:`logging` call whose line must show Kaldi's function, file and line."""
    return {"kaldi_place": (function, file, line)}


def short_path(path: str) -> str:
    """Return a source path with at most one folder, as headers show it."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _place(file: str | None, line: int | None, frame: FrameType) -> tuple[str, int]:
    if file is None:
        return short_path(frame.f_code.co_filename), frame.f_lineno if line is None else line
    return file, line or 0


def _write(kind: str, message: str, function: str, file: str, line: int) -> None:
    # One write, so that lines of processes that share a terminal or a log file do not mix.
    write_text(f"{kind} ({_program}[{KALDI_VERSION}]:{function}():{file}:{line}) {message}\n")


def write_text(text: str) -> None:
    """Write text to standard error as it is; if that is closed or full, there is nowhere left to complain."""
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
    """Show on standard error what the ``nnet3py`` loggers say, one per line: for programs and notebooks.

    This is the default where Python is used interactively and logging was not set up otherwise.

    Parameters
    ----------
    level : "INFO" shows passes of a training and the like, "DEBUG" all there is, "WARNING" what may be wrong; None
        shows nothing any more
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
    """Call :func:`show_log` at a prompt or in a notebook, unless the program has set up logging itself."""
    if hasattr(sys, "ps1"):
        import logging

        if not logging.getLogger("nnet3py").hasHandlers():
            show_log()


def connect_logging() -> None:
    """Show what the ``nnet3py`` loggers say as Kaldi's lines: INFO as LOG, DEBUG as VLOG[1], 9 as VLOG[2] and so on.

    Python's own warnings (a library's RuntimeWarning) become WARNING lines.
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
    """Undo :func:`connect_logging`, for a program that goes on after running a command."""
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
    """Show on the last line of the terminal what goes on now, in place of what was shown there; "" shows nothing.

    The terminal is standard error, else the one that ``$NNET3PY_PROGRESS`` names. A process whose output is a pipe
    leaves it to the one that reads from it. Returns whether there is a terminal.
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
    """Return a bar for :func:`show_status`: ``done`` of ``total`` (positive), after so many seconds."""
    filled = _BAR * min(done, total) // total
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {done} of {what.format(total)}, {seconds:.0f} s"


def leave_status_to_others() -> None:
    """Stop showing anything: a process that helps another one leaves the terminal to it."""
    global _shows_status
    _shows_status = False


def _terminal() -> Any:
    """Return the stream on which status is shown; None for none."""
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
    """Return whether a stream's lines are shown below a notebook's cell."""
    return type(stream).__module__.startswith("ipykernel.")


def _clear_line(stream: Any) -> str:
    return f"\r{' ' * _USUAL_WIDTH}\r" if _is_notebook(stream) else _CLEAR_LINE    # a notebook knows no more


@cache
def _opened_terminal(path: str) -> Any:
    try:
        stream = open(path, "w")  # noqa: SIM115 (open as long as the process lives)
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
    """Yield ``items``; on a terminal show how many they were, how many a second, and the time left.

    Where there is no terminal, nothing is written (see :func:`show_status`).

    Parameters
    ----------
    label : what goes on
    length : how many items there will be, or examples if ``size`` is given; None: not known
    size : how many examples are in an item; None: items are counted
    share : how much of the whole was read so far, from 0 to 1, which gives the time left where ``length`` does not;
        it may give None: not known
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
    """Return a number per second: whole from ten on, below that with one decimal."""
    return f"{value:.0f}" if value >= 10.0 else f"{value:.1f}"


def clock_time(seconds: float) -> str:
    """Return a duration as ``h:mm:ss``, with the days before it from one day on."""
    from datetime import timedelta  # most commands show no time left

    return str(timedelta(seconds=round(seconds)))
