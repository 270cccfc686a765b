"""Tables of names and numbers: ``words.txt``, ``phones.txt``. Kaldi: symbol tables."""
from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, overload

from nnet3py.advice import AdvisingType
from nnet3py.cached_property import cached_property
from nnet3py.errors import FormatError
from nnet3py.hmm.alignment import read_symbol_table
from nnet3py.io.object_files import FileContent
from nnet3py.io.streams import open_input, read_text, write_text
from nnet3py.transducers.fst import INPUT_SYMBOLS, MAGIC, OUTPUT_SYMBOLS, SymbolBytes, end_of_table, read_header

EPSILON = "<eps>"
_DISAMBIGUATION = re.compile(r"#[0-9]+")
_SHOWN = 5              # names in a message


class SymbolTable(metaclass=AdvisingType):
    """Names with their numbers; number 0 is epsilon.

    Attributes
    ----------
    ids : the number of each name
    names : the name of each number
    what : ``word`` or ``phone``, for messages
    """

    _FROM_FILE: ClassVar[str] = "SymbolTable.read('words.txt') reads a file"

    def __init__(self, names: dict[int, str], what: str = "word", path: str = "") -> None:
        """FormatError for a name that occurs twice, or if number 0 is not epsilon."""
        self.names, self.what, self.path = dict(names), what, path
        self.ids = {name: number for number, name in self.names.items()}
        if len(self.ids) != len(self.names):
            twice = next(name for number, name in self.names.items() if self.ids[name] != number)
            raise FormatError(f"the {what} {twice} occurs twice in a symbol table", path=path)
        if 0 in self.names and self.names[0] not in (EPSILON, "<epsilon>", "-"):
            raise FormatError(f"number 0 of a table of {what}s is '{self.names[0]}', but 0 stands for no {what}",
                              path=path, hint=f"begin with '{EPSILON} 0', and number the {what}s from 1")

    def __repr__(self) -> str:
        return f"<SymbolTable: {len(self.names):,} {self.what}s>"

    @classmethod
    def of(cls, names: Iterable[str], what: str = "word") -> SymbolTable:
        """Epsilon, then ``names``, numbered from 1."""
        return cls(dict(enumerate((EPSILON, *names))), what)

    @classmethod
    def read(cls, rxfilename: str, what: str = "word") -> SymbolTable:
        """Read lines ``NAME NUMBER``, or the output symbols that an FST's file has. FormatError for anything else."""
        stored = cls.of_fst_file(rxfilename, what)
        if stored is not None:
            return stored
        return cls(read_symbol_table(read_text(rxfilename), str(rxfilename)), what, str(rxfilename))

    @classmethod
    def of_fst_file(cls, rxfilename: str | os.PathLike[str], what: str = "word") -> SymbolTable | None:
        """The output symbols that an FST's file has; None if it has none, or is no FST. The FST itself is not read."""
        with open_input(rxfilename) as stream:
            reader = FileContent(stream).reader()
            header = read_header(reader) if reader.peek(1) == MAGIC[:1] else None
        if header is None or not header.flags & OUTPUT_SYMBOLS:
            return None
        after_inputs = end_of_table(header.symbols, 0) if header.flags & INPUT_SYMBOLS else 0
        return StoredSymbolTable(SymbolBytes(header.symbols, after_inputs), what, os.fspath(rxfilename))

    def write(self, path: str) -> None:
        """Write lines ``NAME NUMBER``."""
        write_text(path, "".join(f"{name} {number}\n" for number, name in sorted(self.names.items())))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self.ids

    def __iter__(self) -> Iterator[str]:
        """The names, epsilon among them."""
        return iter(self.ids)

    @overload
    def __getitem__(self, name: str) -> int: ...
    @overload
    def __getitem__(self, name: int) -> str: ...

    def __getitem__(self, name: str | int) -> int | str:
        """The number of a name, or the name of a number; FormatError if there is none."""
        return self.text([name]) if isinstance(name, int) else self._number(name)

    def _number(self, name: str) -> int:
        try:
            return self.ids[name]
        except KeyError:
            raise FormatError(f"there is no {self.what} '{name}' in {self.path or f'the table of {self.what}s'}, "
                              f"which has {self._some_names()}") from None

    def text(self, numbers: Iterable[int]) -> str:
        """The names of ``numbers`` with blanks between them; FormatError for a number without a name."""
        try:
            return " ".join([self.names[int(number)] for number in numbers])
        except KeyError as error:
            raise FormatError(f"there is no {self.what} of number {error.args[0]} in {self.path or 'the symbol table'}",
                              hint="the graph and the table must belong together") from None

    @property
    def disambiguation(self) -> list[int]:
        """The numbers of ``#0``, ``#1``, ..., ascending."""
        return sorted(number for number, name in self.names.items() if _DISAMBIGUATION.fullmatch(name))

    def first_beyond(self, limit: int) -> str:
        """The name with the least number that is at least ``limit`` and no disambiguation symbol's; empty for none."""
        beyond = sorted((number, name) for number, name in self.names.items()
                        if number >= limit and not _DISAMBIGUATION.fullmatch(name))
        return beyond[0][1] if beyond else ""

    def extended(self, names: Iterable[str]) -> SymbolTable:
        """A table with ``names`` numbered after the largest number; names that it already has keep theirs."""
        names = [name for name in names if name not in self.ids]
        first = max(self.names, default=-1) + 1
        return SymbolTable(self.names | dict(enumerate(names, first)), self.what, self.path)

    def _some_names(self) -> str:
        names = [name for number, name in sorted(self.names.items()) if number][:_SHOWN]
        return ", ".join(names) + (", ..." if len(self.names) > _SHOWN + 1 else "")


class StoredSymbolTable(SymbolTable):
    """A table whose names stay in a file of OpenFst's, as bytes, until they are asked for: there may be millions."""

    def __init__(self, symbols: SymbolBytes, what: str = "word", path: str = "") -> None:
        self._symbols, self.what, self.path = symbols, what, path

    @cached_property
    def names(self) -> dict[int, str]:      # type: ignore[override]
        """The name of each number."""
        return {key: self._name(place) for place, key in enumerate(self._symbols.keys.tolist())}

    @cached_property
    def ids(self) -> dict[str, int]:        # type: ignore[override]
        """The number of each name."""
        return {name: number for number, name in self.names.items()}

    def _name(self, place: int) -> str:
        return self._symbols.symbol(place).decode("utf-8", "replace")

    def first_beyond(self, limit: int) -> str:
        """As for other tables, without reading names where no number is so large."""
        return super().first_beyond(limit) if (self._symbols.keys >= limit).any() else ""

    def __len__(self) -> int:
        return len(self._symbols)

    def __contains__(self, name: str) -> bool:
        return self._symbols.place_of_symbol(name.encode()) >= 0

    def _number(self, name: str) -> int:
        place = self._symbols.place_of_symbol(name.encode())
        if place < 0:
            raise FormatError(f"there is no {self.what} '{name}' among the {len(self):,} of {self.path}")
        return int(self._symbols.keys[place])

    def text(self, numbers: Iterable[int]) -> str:
        numbers = [int(number) for number in numbers]
        places = [self._symbols.place_of_key(number) for number in numbers]
        if -1 in places:
            raise FormatError(f"there is no {self.what} of number {numbers[places.index(-1)]} in {self.path}",
                              hint="the graph and the table must belong together")
        return " ".join(map(self._name, places))
