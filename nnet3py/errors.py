"""Exceptions of nnet3py.

All errors that a caller may want to catch derive from :class:`Nnet3Error`. A message says what was found, what was
expected, where, and what to try. Commands print the message as a single ``ERROR`` line and exit with a nonzero status.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Nnet3Error(Exception):
    """Base of all errors that nnet3py raises.

    Parameters
    ----------
    message : what was found, what was expected, and where
    hint : what to try, or None
    """

    exit_code = 255   # exit status of Kaldi's programs after a fatal error

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


@contextmanager
def within(where: str) -> Iterator[None]:
    """Add ``where``, such as the key of an utterance, to the messages of Nnet3Errors raised inside the ``with``."""
    try:
        yield
    except Nnet3Error as error:
        error.message = f"{where}: {error.message}"
        raise


class UsageError(Nnet3Error):
    """Invalid option or argument, or a combination that is not allowed."""


class ArgumentsError(UsageError):
    """Too few or too many arguments, or an unknown command: Kaldi's programs print their usage and exit with 1."""

    exit_code = 1


class ConfigError(Nnet3Error):
    """Invalid line of a network config."""


class DescriptorError(ConfigError):
    """Descriptor (the ``input=`` of a node) that cannot be parsed or normalized."""


class FormatError(Nnet3Error):
    """File whose content is not in the expected format.

    Parameters
    ----------
    message : what was found and what was expected
    path : the file, archive or pipe, as the user named it
    offset : byte offset in it
    component : the network component being read
    hint : what to try
    field : tag before the faulty bytes, such as ``<Dim>``
    """

    def __init__(self, message: str, path: str | None = None, offset: int | None = None,
                 component: str | None = None, hint: str | None = None, field: str | None = None) -> None:
        where = [part for part in (
            f"component '{component}'" if component else None,
            f"after {field}" if field and field not in message else None,
            path or None,
            f"byte {offset}" if offset is not None else None) if part]
        super().__init__(f"{message} [{', '.join(where)}]" if where else message, hint)
        self.path, self.offset, self.component, self.field = path, offset, component, field


class SpecifierError(FormatError):
    """Invalid rspecifier, wspecifier, rxfilename or wxfilename."""


class NotComputableError(Nnet3Error):
    """Computation request whose outputs cannot be computed from its inputs."""


class CompileError(Nnet3Error):
    """Failure to compile a request to a computation, for an unusual network or by a bug of the compiler."""


class CheckError(CompileError):
    """Command list of a computation that violates a rule of the checker.

    Parameters
    ----------
    message : description of the fault
    rule : name of the rule, which is the name of the function that checks it
    command : number of the faulty command; None if the fault is in a matrix or an index list
    after : function, such as a pass of the optimizer, that made the command list; empty if unknown
    """

    def __init__(self, message: str, hint: str | None = None, rule: str = "", command: int | None = None,
                 after: str = "") -> None:
        super().__init__(message, hint)
        self.rule, self.command, self.after = rule, command, after


class ShapeError(Nnet3Error, ValueError):
    """Matrix whose dimensions differ from those of the network or the request."""


class NumericError(Nnet3Error):
    """NaN or infinity where a finite number is needed."""


class DeviceError(Nnet3Error):
    """Compute device that is unknown or cannot be used, such as a GPU without driver."""


class NoSuchAttribute(AttributeError):
    """AttributeError whose hint is computed only when it is printed: most are caught, as by ``hasattr``.

    Parameters
    ----------
    message : text that names the object and the missing attribute
    advice : function that returns the hint, or None
    """

    def __init__(self, message: str, advice: Callable[[], str | None]) -> None:
        super().__init__(message)
        self._advice = advice

    def __str__(self) -> str:
        advice = self._advice()
        return super().__str__() + (f": {advice}" if advice else "")
