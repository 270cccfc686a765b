"""Tables of names and numbers: ``words.txt``, ``phones.txt``. Kaldi: symbol tables."""
from __future__ import annotations

import re
from collections.abc import Iterable

from nnet3py.errors import FormatError
from nnet3py.hmm.alignment import read_symbol_table
from nnet3py.io.streams import write_text
from nnet3py.io.text_lines import read_text

EPSILON = "<eps>"
_DISAMBIGUATION = re.compile(r"#[0-9]+")
_SHOWN = 5              # names in a message


class SymbolTable:
    """Names with their numbers; number 0 is epsilon.

    Attributes
    ----------
    ids : the number of each name
    names : the name of each number
    what : ``word`` or ``phone``, for messages
    """

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

    @classmethod
    def of(cls, names: Iterable[str], what: str = "word") -> SymbolTable:
        """Epsilon, then ``names``, numbered from 1."""
        return cls(dict(enumerate((EPSILON, *names))), what)

    @classmethod
    def read(cls, rxfilename: str, what: str = "word") -> SymbolTable:
        """Read lines ``NAME NUMBER``. FormatError for any other line."""
        return cls(read_symbol_table(read_text(rxfilename), str(rxfilename)), what, str(rxfilename))

    def write(self, path: str) -> None:
        """Write lines ``NAME NUMBER``."""
        write_text(path, "".join(f"{name} {number}\n" for number, name in sorted(self.names.items())))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self.ids

    def __getitem__(self, name: str) -> int:
        """The number of ``name``; FormatError if it has none."""
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

    def extended(self, names: Iterable[str]) -> SymbolTable:
        """A table with ``names`` numbered after the largest number; names that it already has keep theirs."""
        names = [name for name in names if name not in self.ids]
        first = max(self.names, default=-1) + 1
        return SymbolTable(self.names | dict(enumerate(names, first)), self.what, self.path)

    def _some_names(self) -> str:
        names = [name for number, name in sorted(self.names.items()) if number][:_SHOWN]
        return ", ".join(names) + (", ..." if len(self.names) > _SHOWN + 1 else "")
