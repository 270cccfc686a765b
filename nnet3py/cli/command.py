"""A Kaldi program as a command.

A command file declares its command and stays thin::

    from nnet3py.cli.command import kaldi_command
    from nnet3py.cli.option_groups import BINARY
    from nnet3py.cli.options import option

    @kaldi_command("nnet3-copy", usage=\"\"\"...\"\"\", arguments=(2, 2), options=[
        BINARY,
        option("scale", float, 1.0, "Factor by which the parameters are multiplied"),
    ])
    def copy(args, options):
        from nnet3py.network.model_file import read_nnet   # everything heavy is imported here
        source, target = args
        ...                                                # options.scale, options["optimization.optimize"]
        return 0                                           # exit status; None is 0 as well

The command parses as Kaldi does, repeats its command line on standard error, and turns errors into one ERROR line and
Kaldi's exit status. Called with a list (``copy.execute(["in", "out"])``) it returns the exit status instead of exiting.
"""
from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from nnet3py import log
from nnet3py.cli import options as kaldi_options
from nnet3py.cli.options import Option, Options, print_error_text
from nnet3py.errors import Nnet3Error

FATAL, WRONG_USAGE, INTERRUPTED, BROKEN_PIPE = 255, 1, 130, 141   # 141: what a shell shows for SIGPIPE
LONGEST_MESSAGE = 2000                                            # characters; a quoted line of a file can be longer

Function = Callable[[list[str], Options], "int | None"]


class KaldiCommand:
    """A command with Kaldi's option manners; made by :func:`kaldi_command`. ``group.py`` makes it one of click's.

    Attributes
    ----------
    name : Kaldi's name of the program
    usage : what ``--help`` prints before the options
    arguments : the least and the greatest number of arguments; None for no upper limit
    declared : the options besides the standard ones
    """

    def __init__(self, name: str, function: Function, usage: str, arguments: tuple[int, int | None],
                 options: Sequence[Option], detached_values: bool = False) -> None:
        self.name, self.usage = name, usage.strip("\n")
        self.arguments, self.declared = arguments, tuple(options)
        self._function, self._detached_values = function, detached_values

    def __call__(self) -> NoReturn:
        self.main()

    def main(self, args: Sequence[str] | None = None) -> NoReturn:
        """Run the command on ``args``, by default the process's, and exit with its status."""
        sys.exit(self.execute(sys.argv[1:] if args is None else args))

    def usage_text(self) -> str:
        """What ``--help`` prints."""
        return kaldi_options.usage_text(self.usage, self.declared)

    def execute(self, args: Sequence[str]) -> int:
        """Run the command on the words after its name; return the exit status, having reported any error."""
        log.set_program(self.name)
        log.set_verbose(0)
        return guarded(lambda: self._run(list(args)))

    def _run(self, words: list[str]) -> int:
        if self._detached_values:
            words = kaldi_options.attach_values(self.declared, words)
        try:
            args, options, wants_help = kaldi_options.parse(self.declared, words)
        except kaldi_options.OptionError as error:
            if error.show_usage:
                echo = kaldi_options.command_echo(self.name, words)
                print_error_text(f"{self.usage_text()}Command line was: {echo}\n")
            raise
        if wants_help:
            print_error_text(self.usage_text())
            return 0
        log.set_verbose(options.verbose)
        if options.print_args:
            print_error_text(kaldi_options.command_echo(self.name, words) + "\n")
        least, most = self.arguments
        if len(args) < least or (most is not None and len(args) > most):
            print_error_text(self.usage_text())
            return WRONG_USAGE
        log.connect_logging()
        return self._function(args, options) or 0


def kaldi_command(name: str, *, usage: str, arguments: tuple[int, int | None],
                  options: Sequence[Option] = (), detached_values: bool = False) -> Callable[[Function], KaldiCommand]:
    """Turn ``function(args, options) -> exit status or None`` into a command.

    Parameters
    ----------
    name : Kaldi's name of the program
    usage : what ``--help`` prints before the options
    arguments : the least and the greatest number of arguments; None for no upper limit
    options : besides the standard ones
    detached_values : ``--name value`` is understood as well, as by Kaldi's scripts in Python
    """
    def decorate(function: Function) -> KaldiCommand:
        return KaldiCommand(name, function, usage, arguments, options, detached_values)
    return decorate


def run_process(body: Callable[[], int]) -> NoReturn:
    """Run ``body`` as what this process is for, and exit with its status."""
    _occupy_closed_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:   # nohup ignores SIGHUP, and so it stays
            signal.signal(number, _clean_up_and_die)
    sys.exit(guarded(lambda: _bound(body)))


def _bound(body: Callable[[], int]) -> int:
    if "NNET3PY_NUM_THREADS" in os.environ:
        from nnet3py.ops.threads import bind_libraries

        bind_libraries()
    return body()


def _occupy_closed_streams() -> None:
    """Take the numbers of standard streams that the caller closed.

    Otherwise the next file that is opened gets such a number, and is written to by whoever logs to standard error.
    Standard input and output are opened the wrong way round, so that using them remains an error.
    """
    for stream, flags in ((sys.stdin, os.O_WRONLY), (sys.stdout, os.O_RDONLY), (sys.stderr, os.O_WRONLY)):
        if stream is None:
            os.open(os.devnull, flags)   # gets the lowest free number
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)


def _clean_up_and_die(number: int, frame: Any) -> None:
    """Signal handler: leave no temporary file behind, then die of the signal as if there were no handler."""
    streams = sys.modules.get("nnet3py.io.streams")
    if streams is not None:
        streams.remove_unfinished()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def guarded(body: Callable[[], int]) -> int:
    """Run ``body``; report whatever goes wrong in one line, and return the exit status."""
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
        if getattr(error, "exit_code", None) == BROKEN_PIPE:   # raised by whoever wrote the data
            return _silence_stdout(BROKEN_PIPE)
        status = report(error)
        return _silence_stdout(status) if isinstance(error, OSError) else status


def _silence_stdout(status: int) -> int:
    """Send what is still buffered for standard output nowhere, so that the interpreter's exit does not fail on it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass
    return status


def report(error: Exception) -> int:
    """Write the ERROR line for an exception, with the traceback at ``--verbose=2``; return the exit status."""
    message, status = _describe(error)
    function, file, line = _origin(error)
    if log.verbose() >= 2:
        import traceback

        print_error_text("".join(traceback.format_exception(error)))
    log.error(_one_line(message), function, file, line)
    if status == FATAL:
        print_error_text("kaldi::KaldiFatalError\n")
    return status


def _one_line(message: str) -> str:
    """A message as one line that any terminal can show, its middle left out if it is too long."""
    line = "".join(c if c.isprintable() else " " if c == "\n" else ascii(c)[1:-1] for c in message)
    if len(line) <= LONGEST_MESSAGE:
        return line
    return f"{line[:LONGEST_MESSAGE // 2]} ... {line[-LONGEST_MESSAGE // 2:]}"


def _describe(error: Exception) -> tuple[str, int]:
    if isinstance(error, Nnet3Error):
        return str(error), error.exit_code
    if hasattr(error, "format_message"):              # click's, which only `nnet3py` imports
        return error.format_message(), WRONG_USAGE
    if isinstance(error, MemoryError):
        return f"Out of memory{f': {error}' if str(error) else ''}", FATAL
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}", FATAL
    text = f"internal error: {type(error).__name__}: {error}"
    return f"{text} (run again with --verbose=2 for the traceback)", FATAL


def _origin(error: Exception) -> tuple[str, str, int]:
    """Function, file and line where an exception was raised."""
    trace = error.__traceback__
    if trace is None:
        return "main", "command.py", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_name, log.short_path(code.co_filename), trace.tb_lineno
