"""Symbol tables (``words.txt``, ``phones.txt``), transcripts, and the spelling of a model's words."""
from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, overload

from nnet3py.advice import AdvisingType
from nnet3py.cached_property import cached_property
from nnet3py.errors import FormatError
from nnet3py.hmm.alignment import read_symbol_table
from nnet3py.io.object_files import FileContent
from nnet3py.io.streams import open_input, read_text, write_text
from nnet3py.transducers.fst import INPUT_SYMBOLS, MAGIC, OUTPUT_SYMBOLS, SymbolBytes, end_of_table, read_header

EPSILON = "<eps>"
BACKOFF = "#0"                                    # label of a grammar's back-off arcs
SENTENCE_START, SENTENCE_END = "<s>", "</s>"
NONTERMINAL = "#nonterm:"                         # prefix of the names of nonterminals, for grammars in parts
NONTERMINAL_BEGIN, NONTERMINAL_END, NONTERMINAL_BOS = "#nonterm_begin", "#nonterm_end", "#nonterm_bos"
_DISAMBIGUATION = re.compile(r"#[0-9]+")
_SHOWN = 5              # names in a message


class SymbolTable(metaclass=AdvisingType):
    """A symbol table: names with their numbers; number 0 is epsilon.

    Raises FormatError for a name that occurs twice, or a number 0 that is not epsilon.

    Parameters
    ----------
    names : the name of each number
    what : ``word`` or ``phone``, for error messages
    path : the table's file, for error messages

    Attributes
    ----------
    ids : dict of str, int, the number of each name
    names : dict of int, str, the name of each number
    """

    _FROM_FILE: ClassVar[str] = "SymbolTable.read('words.txt') reads a file"

    def __init__(self, names: dict[int, str], what: str = "word", path: str = "") -> None:
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
        """Return a table of epsilon and ``names``, numbered from 1."""
        return cls(dict(enumerate((EPSILON, *names))), what)

    @classmethod
    def read(cls, rxfilename: str, what: str = "word") -> SymbolTable:
        """Read lines ``NAME NUMBER``, or the output symbols in an FST's file. Raises FormatError for other files."""
        stored = cls.of_fst_file(rxfilename, what)
        if stored is not None:
            return stored
        return cls(read_symbol_table(read_text(rxfilename), str(rxfilename)), what, str(rxfilename))

    @classmethod
    def of_fst_file(cls, rxfilename: str | os.PathLike[str], what: str = "word") -> SymbolTable | None:
        """Read the output symbols in an FST's file; None if it has none, or is no FST."""
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
        """Iterate over all names, including epsilon."""
        return iter(self.ids)

    @overload
    def __getitem__(self, name: str) -> int: ...
    @overload
    def __getitem__(self, name: int) -> str: ...

    def __getitem__(self, name: str | int) -> int | str:
        """Return the number of a name, or the name of a number. Raises FormatError if there is none."""
        return self.text([name]) if isinstance(name, int) else self._number(name)

    def _number(self, name: str) -> int:
        try:
            return self.ids[name]
        except KeyError:
            raise FormatError(f"there is no {self.what} '{name}' in {self.path or f'the table of {self.what}s'}, "
                              f"which has {self._some_names()}") from None

    def text(self, numbers: Iterable[int]) -> str:
        """Return the names of ``numbers``, separated by blanks. Raises FormatError for a number without a name."""
        try:
            return " ".join([self.names[int(number)] for number in numbers])
        except KeyError as error:
            raise self._no_number(error.args[0], self.path or "the symbol table") from None

    def _no_number(self, number: int, where: str) -> FormatError:
        return FormatError(f"there is no {self.what} of number {number} in {where}",
                           hint="use the table of words that the graph was made with")

    @property
    def disambiguation(self) -> list[int]:
        """Numbers of the disambiguation symbols ``#0``, ``#1``, ..., ascending."""
        return sorted(number for number, name in self.names.items() if _DISAMBIGUATION.fullmatch(name))

    def first_beyond(self, limit: int) -> str:
        """Return the first name with the number ``limit`` or more, except disambiguation symbols; '' if there is none.
        """
        beyond = sorted((number, name) for number, name in self.names.items()
                        if number >= limit and not _DISAMBIGUATION.fullmatch(name))
        return beyond[0][1] if beyond else ""

    def extended(self, names: Iterable[str]) -> SymbolTable:
        """Return a table with more names, numbered after the largest number; names that it has already keep theirs."""
        names = [name for name in names if name not in self.ids]
        first = max(self.names, default=-1) + 1
        return SymbolTable(self.names | dict(enumerate(names, first)), self.what, self.path)

    def _some_names(self) -> str:
        names = [name for number, name in sorted(self.names.items()) if number][:_SHOWN]
        return ", ".join(names) + (", ..." if len(self.names) > _SHOWN + 1 else "")


class StoredSymbolTable(SymbolTable):
    """A symbol table whose names, perhaps millions, stay in the bytes of OpenFst's file until they are looked up."""

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
            raise self._no_number(numbers[places.index(-1)], self.path)
        return " ".join(map(self._name, places))


def grammar_words(words: SymbolTable) -> list[str]:
    """Return a table's words by number, without epsilon, ``#0``, sentence marks and nonterminals."""
    special = {EPSILON, BACKOFF, SENTENCE_START, SENTENCE_END} | {words.names[n] for n in words.disambiguation}
    return [name for number, name in sorted(words.names.items())
            if number and name not in special and not name.startswith("#nonterm")]


def read_transcripts(rxfilename: str) -> dict[str, list[str]]:
    """Read words by utterance from lines ``UTTERANCE WORD ...``, Kaldi's file ``text``.

    Raises FormatError for an utterance that occurs twice.
    """
    transcripts: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(rxfilename).split("\n"), 1):
        fields = line.split()
        if not fields:
            continue
        if fields[0] in transcripts:
            raise FormatError(f"line {number}: the utterance {fields[0]} occurs twice", path=str(rxfilename))
        transcripts[fields[0]] = fields[1:]
    return transcripts


_PUNCTUATION = ".,;:!?\"()[]{}…«»„“”‚‘’—–-*_/\\|"
MARKS = ("<", "[", "#", "!")  # first characters of symbols that are no words: <unk>, [noise], #nonterm


class Spelling:
    """The spelling of a model's words, and of ``more`` words: in small or capital letters, without punctuation."""

    def __init__(self, words: SymbolTable, more: Iterable[str] = ()) -> None:
        self.known = {word for word in grammar_words(words) if not word.startswith(MARKS)} | set(more)
        letters = Counter(letter for word in self.known for letter in word)
        self._letters, self._scripts = set(letters), set(map(_script, letters))
        self._is_upper = sum(count for letter, count in letters.items() if letter.isupper()) > sum(
            count for letter, count in letters.items() if letter.islower())
        self._of_folded: dict[str, str] = {}
        for word in sorted(self.known):
            self._of_folded.setdefault(word.casefold(), word)

    def written(self, text: Sequence[str]) -> tuple[str, ...]:
        """Return a text in the model's spelling: its small or capital letters, no punctuation around words."""
        return tuple(word for token in text for word in self._words(token))

    def _words(self, token: str) -> Sequence[str]:
        for candidate in (token, token.strip(_PUNCTUATION)):
            if candidate in self.known:
                return [candidate]
            if candidate.casefold() in self._of_folded:
                return [self._of_folded[candidate.casefold()]]
        stripped = token.strip(_PUNCTUATION).replace("’", "'")
        if stripped != token and stripped.casefold() in self._of_folded:
            return [self._of_folded[stripped.casefold()]]
        parts = stripped.replace("–", "-").replace("—", "-").split("-")
        if len(parts) > 1 and all(part.casefold() in self._of_folded for part in parts if part):
            return [self._of_folded[part.casefold()] for part in parts if part]
        return [stripped.upper() if self._is_upper else stripped.lower()] if stripped else []

    def is_odd(self, word: str) -> bool:
        """Return whether a word has a character that is neither in the model's words nor of their writing systems."""
        return any(letter not in self._letters and _script(letter) not in self._scripts for letter in word)


def _script(letter: str) -> str:
    """Return the writing system of a letter, such as LATIN; for other characters the character itself."""
    return unicodedata.name(letter, letter).split()[0] if letter.isalpha() else letter
