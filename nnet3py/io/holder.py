"""What a table reader or writer is given besides its specifier. Kaldi: the Holder classes of ``kaldi-holder.h``.

Light: moving bytes does not need numpy.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from nnet3py.io.skim import EntryFinder

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter

BINARY_HEADER = b"\0B"

Value = TypeVar("Value")


class Holder(Generic[Value]):
    """One type of table values.

    Attributes
    ----------
    name : for messages
    read : reads a value, after its header
    write : writes a value, after its header
    has_header : whether binary values begin with ``\\0B``
    select : the part of a value that a range such as ``0:9`` in a script line asks for; None if there are no ranges
    skimmer : makes what finds values in the bytes of an archive without reading them; None if they must be read
    """

    def __init__(self, name: str, read: Callable[[TokenReader], Value], write: Callable[[TokenWriter, Value], None],
                 has_header: bool = True, select: Callable[[Value, str], Value] | None = None,
                 skimmer: Callable[[], EntryFinder] | None = None) -> None:
        self.name, self.read, self.write = name, read, write
        self.has_header, self.select, self.skimmer = has_header, select, skimmer

    def read_value(self, reader: TokenReader) -> Value:
        """Read the header, if there may be one, and the value."""
        if self.has_header:
            reader.read_header()
        return self.read(reader)
