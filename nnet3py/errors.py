"""Exceptions of nnet3py.

All errors that a caller may want to catch derive from :class:`Nnet3Error`. A message has what was found, what was
expected, where, and what to try. Commands print the message as a single ``ERROR`` line and exit with a status.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Nnet3Error(Exception):
    """Base of every error raised on purpose.

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
    """Prefix messages of errors in the block with ``where``, such as the key of an utterance."""
    try:
        yield
    except Nnet3Error as error:
        error.message = f"{where}: {error.message}"
        raise


class UsageError(Nnet3Error):
    """Options or arguments that cannot be used, alone or together."""


class ArgumentsError(UsageError):
    """Too few or too many arguments, or an unknown command: Kaldi's programs print their usage and exit with 1."""

    exit_code = 1


class ConfigError(Nnet3Error):
    """Unusable line of a network config."""


class DescriptorError(ConfigError):
    """Descriptor, the ``input=`` of a node, that cannot be parsed or normalized."""


class FormatError(Nnet3Error):
    """File whose bytes do not follow its format.

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
    """Unusable rspecifier, wspecifier, rxfilename or wxfilename."""


class NotComputableError(Nnet3Error):
    """Request whose outputs cannot be computed from its inputs."""


class CompileError(Nnet3Error):
    """Computation that the compiler cannot make, for an unusual network or by a fault of the compiler."""


class CheckError(CompileError):
    """Command list that violates a rule of the checker.

    Parameters
    ----------
    message : description of the fault
    rule : name of the rule, that of the function that checks it
    command : number of the faulty command; None for a fault of a matrix or a list
    after : pass of the optimizer, or other function, that made the command list; empty if unknown
    """

    def __init__(self, message: str, hint: str | None = None, rule: str = "", command: int | None = None,
                 after: str = "") -> None:
        super().__init__(message, hint)
        self.rule, self.command, self.after = rule, command, after


class ShapeError(Nnet3Error, ValueError):
    """Matrix whose dimensions differ from those of the network or the request."""


class NumericError(Nnet3Error):
    """NaN or infinity in place of a number."""


class DeviceError(Nnet3Error):
    """Unusable compute device."""


class NoSuchAttribute(AttributeError):
    """AttributeError whose hint is only made when it is printed, since ``hasattr`` and imports often fail silently.

    Parameters
    ----------
    message : object and missing attribute
    advice : function that returns the hint, or None
    """

    def __init__(self, message: str, advice: Callable[[], str | None]) -> None:
        super().__init__(message)
        self._advice = advice

    def __str__(self) -> str:
        advice = self._advice()
        return super().__str__() + (f": {advice}" if advice else "")
