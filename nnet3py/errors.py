"""The exceptions of nnet3py.

Everything a caller may want to catch derives from :class:`Nnet3Error`. A message says what was found, what was
expected, where, and what to try. The command line turns one into a single ``ERROR`` line and an exit status.
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

    exit_code = 255   # what Kaldi's programs return after a fatal error

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


@contextmanager
def within(where: str) -> Iterator[None]:
    """Errors raised in the block begin with ``where`` they happened, such as the utterance."""
    try:
        yield
    except Nnet3Error as error:
        error.message = f"{where}: {error.message}"
        raise


class UsageError(Nnet3Error):
    """Options or arguments that cannot be used, alone or together."""


class ArgumentsError(UsageError):
    """Too few or too many arguments, or no such command: what Kaldi's programs answer with their usage and status 1."""

    exit_code = 1


class ConfigError(Nnet3Error):
    """A network config line that cannot be used."""


class DescriptorError(ConfigError):
    """The ``input=`` expression of a node that cannot be parsed or normalized."""


class FormatError(Nnet3Error):
    """A file whose bytes are not what its format asks for.

    Parameters
    ----------
    message : what was found and what was expected
    path : the file, archive or pipe, as the user named it
    offset : byte offset in it
    component : the network component being read
    hint : what to try
    field : the tag that it follows, such as ``<Dim>``
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
    """An rspecifier, wspecifier, rxfilename or wxfilename that cannot be used."""


class NotComputableError(Nnet3Error):
    """A request whose outputs cannot be computed from its inputs."""


class CompileError(Nnet3Error):
    """A computation that the compiler cannot make (not the user's fault, except in exotic networks)."""


class CheckError(CompileError):
    """A command list that breaks one of the checker's rules.

    Parameters
    ----------
    message : what is wrong
    rule : the rule's name, that of the function that checks it
    command : the command's number, or None if it is a matrix or a list that is wrong
    after : the optimizer's pass, or whatever else made the command list; empty if unknown
    """

    def __init__(self, message: str, hint: str | None = None, rule: str = "", command: int | None = None,
                 after: str = "") -> None:
        super().__init__(message, hint)
        self.rule, self.command, self.after = rule, command, after


class ShapeError(Nnet3Error, ValueError):
    """A matrix whose dimensions are not those that the network or the request asks for."""


class NumericError(Nnet3Error):
    """NaN or infinity where a number is needed."""


class DeviceError(Nnet3Error):
    """A compute device that cannot be used."""


class NoSuchAttribute(AttributeError):
    """An AttributeError with a hint that is made when it is shown: ``hasattr`` and imports ask for many names in vain.

    Parameters
    ----------
    message : which object lacks which attribute
    advice : gives what to type instead, or None
    """

    def __init__(self, message: str, advice: Callable[[], str | None]) -> None:
        super().__init__(message)
        self._advice = advice

    def __str__(self) -> str:
        advice = self._advice()
        return super().__str__() + (f": {advice}" if advice else "")
