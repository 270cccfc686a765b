"""ARPA files: n-gram language models with back-off, read as arrays; and numbering of word sequences.

Text before ``\\data\\`` is ignored, and n-grams of words that a symbol table lacks are left out, each with a warning.
Kaldi: ``ArpaFileParser``.
"""
from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.io.streams import complete_input
from nnet3py.log import kaldi_place

ROOT, MISSING = 0, -1
_SHIFT = 31                    # bits of a word in a key; words are from 0 to 2 ** 31 - 1


class Histories:
    """A growing set of word sequences with all their prefixes, as nodes of a tree. The empty sequence is node 0."""

    def __init__(self) -> None:
        self.num_nodes = 1
        self._keys: list[np.ndarray] = []       # by length: (node of the beginning, last word), sorted
        self._nodes: list[np.ndarray] = []

    def find(self, words: np.ndarray) -> np.ndarray:
        """Return the node of each row of ``words`` (rows, length), int64 (rows,); MISSING if it was not added."""
        nodes = np.zeros(len(words), dtype=np.int64)
        for place in range(words.shape[1]):
            nodes = self._step(place, nodes, words[:, place])
        return nodes

    def add(self, words: np.ndarray) -> np.ndarray:
        """Return the node of each row of ``words`` (rows, length), int64 (rows,); new sequences are added."""
        nodes = np.zeros(len(words), dtype=np.int64)
        for place in range(words.shape[1]):
            if place == len(self._keys):
                self._keys.append(np.empty(0, dtype=np.int64))
                self._nodes.append(np.empty(0, dtype=np.int64))
            states = self._step(place, nodes, words[:, place])
            missing = states == MISSING
            if missing.any():
                new, which = np.unique((nodes[missing] << _SHIFT) | words[missing, place], return_inverse=True)
                numbers = self.num_nodes + np.arange(len(new))
                self.num_nodes += len(new)
                states[missing] = numbers[which.reshape(-1)]
                keys = np.concatenate((self._keys[place], new))
                order = np.argsort(keys, kind="stable")
                self._keys[place] = keys[order]
                self._nodes[place] = np.concatenate((self._nodes[place], numbers))[order]
            nodes = states
        return nodes

    def _step(self, place: int, nodes: np.ndarray, words: np.ndarray) -> np.ndarray:
        if place >= len(self._keys) or not len(self._keys[place]):
            return np.full(len(nodes), MISSING, dtype=np.int64)
        key_there = self._keys[place]
        keys = (nodes << _SHIFT) | words
        at = np.minimum(np.searchsorted(key_there, keys), len(key_there) - 1)
        return np.where((key_there[at] == keys) & (nodes >= 0), self._nodes[place][at], MISSING)


logger = logging.getLogger(__name__)

LN10 = math.log(10.0)
_LARGEST_ID = np.iinfo(np.int32).max
_MOST_ORDER = 100                  # a larger order means a damaged file
_LARGEST_LOG = 1e30                # a larger number means a damaged file
_BLOCK = 1 << 22                   # bytes of text that are parsed at a time
_SHOWN = 80                        # characters of a line in a message
_COUNT = re.compile(rb"ngram\s+([0-9]{1,3})\s*=\s*([0-9]{1,18})")
_INTEGER = re.compile(rb"[0-9]{1,10}")
_BLANK = np.zeros(256, dtype=bool)
_BLANK[list(b" \t\n\r\v\f")] = True


class Section(NamedTuple):
    """The n-grams of one order."""

    words: np.ndarray  # int32 (count, order)
    # log_probs, backoffs: float32 (count,), natural logarithms; 0 for a missing back-off
    log_probs: np.ndarray
    backoffs: np.ndarray


@dataclass(frozen=True)
class Arpa:
    """A language model: ``sections[n - 1]`` has its n-grams of order n."""

    sections: list[Section]

    @property
    def order(self) -> int:
        """Order of the longest n-grams."""
        return len(self.sections)


class Warner:
    """A logger of warnings about single n-grams that shows at most ``most`` of them; -1: all."""

    def __init__(self, most: int = 30) -> None:
        self.most, self.count = most, 0

    def __call__(self, messages: Callable[[int], str], count: int = 1) -> None:
        """Count ``count`` more warnings and show them within the limit; ``messages(i)`` is the text of the i-th."""
        left = count if self.most < 0 else self.most - self.count
        for i in range(min(count, left)):
            logger.warning("%s", messages(i), extra=kaldi_place("Read", "arpa-file-parser.cc", 219))
        self.count += count

    def finish(self) -> None:
        """Log how many warnings were not shown."""
        if 0 <= self.most < self.count:
            logger.warning("Of %d parse warnings, %d were reported. Run program with --max-arpa-warnings=-1 to see all "
                           "warnings", self.count, self.most,
                           extra=kaldi_place("Read", "arpa-file-parser.cc", 263))


class WordIds:
    """A map from the words of an ARPA file to numbers: ``ids``; None if the file's words are numbers themselves.

    With ``grow``, new words get the next numbers; otherwise they have none.
    """

    def __init__(self, ids: dict[bytes, int] | None, grow: bool = False) -> None:
        self.ids, self._grow = ids, grow
        self._next = max(ids.values(), default=-1) + 1 if ids is not None else 0

    def __call__(self, words: list[bytes]) -> np.ndarray:
        """Return the numbers of words, int64; -1 for a word without number.

        ValueError if the file's words must be numbers, and one is not.
        """
        if self.ids is None:
            wrong = next((word for word in words if not _INTEGER.fullmatch(word)), None)
            if wrong is not None:
                raise ValueError(wrong)
            return np.array([int(word) for word in words], dtype=np.int64)
        if self._grow:
            for word in words:
                if word not in self.ids:
                    self.ids[word] = self._next
                    self._next += 1
        get = self.ids.get
        return np.array([get(word, -1) for word in words], dtype=np.int64)


def read_arpa(rxfilename: str, words: WordIds, warn: Warner | None = None) -> Arpa:
    """Read an ARPA file or pipe; ``warn`` tells n-grams that are left out (None: at most 30).

    Raises FormatError for other files, for more n-grams than the header announces, and for word 0 if words are numbers.
    """
    with complete_input(rxfilename) as stream:
        arpa = _Parser(stream.without_mark(), str(rxfilename), words, warn or Warner()).read()
    return arpa


class _Parser:
    """The parser of one file, which is read in blocks of text."""

    def __init__(self, stream: Any, path: str, words: WordIds, warn: Warner) -> None:
        self._stream, self._path, self._words, self._warn = stream, path, words, warn
        self._line = 0                              # lines consumed
        self._text, self._at = b"", 0               # the text read, and how much of it is consumed
        self._ended = False

    def read(self) -> Arpa:
        """Read the whole file; FormatError with the number of the wrong line."""
        counts = self._header()
        sections = [self._section(order, counts) for order in range(1, len(counts) + 1)]
        if self._directive != b"\\end\\":
            raise self._error("expected \\end\\", self._directive)
        self._warn.finish()
        return Arpa(sections)

    def _error(self, message: str, line: bytes, number: int | None = None) -> FormatError:
        shown = line.decode("utf-8", "backslashreplace")[:_SHOWN]
        return FormatError(f"line {self._line if number is None else number} of an ARPA file: {message}, found "
                           f"{shown!r}", path=self._path)

    # -- lines and blocks ------------------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Read the next block of text; return False at the end of the file."""
        piece = b"" if self._ended else self._stream.read(_BLOCK)
        self._ended = not piece
        if piece:
            self._text, self._at = self._text[self._at:] + piece, 0
        return bool(piece)

    def _next_line(self) -> bytes | None:
        """Return the next line without blanks around it; None at the end of the file."""
        while (end := self._text.find(b"\n", self._at)) < 0 and self._fill():
            if len(self._text) > 2 * _BLOCK:
                raise FormatError("expected an ARPA file, found a line of millions of characters", path=self._path)
        if end < 0 and self._at == len(self._text):
            return None
        end = len(self._text) if end < 0 else end
        line, self._at = self._text[self._at:end], min(end + 1, len(self._text))
        self._line += 1
        return line.strip()

    def _blocks(self) -> Iterator[bytes]:
        """Yield the text up to the next line that begins with a backslash, in pieces of whole lines."""
        while self._text[self._at:self._at + 1] != b"\\":
            directive = self._text.find(b"\n\\", self._at)
            end = directive if directive >= 0 else self._text.rfind(b"\n", self._at)
            if end < 0:
                if self._fill():
                    continue
                end = len(self._text) - 1
            block, self._at = self._text[self._at:end + 1], end + 1
            if block:
                yield block
                self._line += block.count(b"\n")
            elif not self._fill():
                return

    def _header(self) -> list[int]:
        """Read the header; return the numbers of n-grams that it announces for order 1, 2, and so on."""
        while (line := self._next_line()) != b"\\data\\":
            if line is None:
                raise FormatError("expected an ARPA file, found no line \\data\\", path=self._path)
        _log("Reading \\data\\ section.", 94)
        counts: dict[int, int] = {}
        while (line := self._next_line()) is not None and line[:1] != b"\\":
            match = _COUNT.fullmatch(line)
            if match:
                counts[int(match[1])] = int(match[2])
            elif line.startswith(b"ngram") and b"=" in line:
                raise self._error("expected a count of n-grams such as ngram 1=1000", line)
            elif line:
                self._warn_of_line(line)
        order = max(counts, default=0)
        if not counts or not 1 <= min(counts) <= order <= _MOST_ORDER:
            raise FormatError("\\data\\ section missing or empty, or of impossible orders, in an ARPA file",
                              path=self._path)
        self._directive = line or b""
        return [counts.get(n, 0) for n in range(1, order + 1)]

    def _warn_of_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "backslashreplace")
        self._warn(lambda _: f"line {self._line} [{text}] uninterpretable line in \\data\\ section")

    # -- n-grams -----------------------------------------------------------------------------------------------------

    def _section(self, order: int, counts: list[int]) -> Section:
        if self._directive != b"\\%d-grams:" % order:
            raise self._error(f"expected \\{order}-grams:", self._directive)
        _log(f"Reading \\{order}-grams: section.", 149)
        pieces, count = [], 0
        for block in self._blocks():
            piece, num_lines = self._ngrams(block, order, order == len(counts))
            count += num_lines
            if count > counts[order - 1]:
                raise FormatError(f"the head of an ARPA file announces {counts[order - 1]} n-grams of order {order}, "
                                  f"but there are more (line {self._line})", path=self._path)
            pieces.append(piece)
        if count < counts[order - 1]:
            logger.warning("The head of %s announces %d n-grams of order %d, but there are %d", self._path,
                           counts[order - 1], order, count)
        self._directive = self._next_line() or b""
        empty = Section(np.empty((0, order), np.int32), np.empty(0, np.float32), np.empty(0, np.float32))
        return Section(*(np.concatenate(columns) for columns in zip(empty, *pieces, strict=True)))

    def _ngrams(self, block: bytes, order: int, highest: bool) -> tuple[Section, int]:
        """Parse lines of n-grams; return those whose words all have numbers, and the number of lines with n-grams."""
        fields = block.split()
        starts, num_fields, lines = first_fields(block, len(fields))
        wrong = (num_fields < 1 + order) | (num_fields > (1 if highest else 2) + order)
        if wrong.any():
            raise self._line_error(block, int(lines[wrong.argmax()]), f"expected an n-gram of {order} words")
        firsts = starts.tolist()
        probs = self._numbers([fields[i] for i in firsts], block, lines)
        has_backoff = np.flatnonzero(num_fields == 2 + order)
        backoffs = np.zeros(len(firsts))
        backoffs[has_backoff] = self._numbers([fields[i + 1 + order] for i in starts[has_backoff].tolist()], block,
                                              lines[has_backoff])
        words = np.empty((len(firsts), order), dtype=np.int64)
        for place in range(order):
            try:
                words[:, place] = self._words([fields[i + 1 + place] for i in firsts])
            except ValueError as error:
                raise self._error("expected numbers of words", error.args[0]) from None
        self._check_numbers(block, words, lines)
        unknown = (words < 0).any(axis=1)
        if unknown.any():
            self._warn_of_unknown(block, words, lines, np.flatnonzero(unknown), fields, firsts)
        kept = ~unknown
        return Section(words[kept].astype(np.int32), natural(probs[kept]), natural(backoffs[kept])), len(firsts)

    def _line_error(self, block: bytes, line: int, message: str) -> FormatError:
        return self._error(message, block.split(b"\n")[line].strip(), self._line + line + 1)

    def _numbers(self, texts: list[bytes], block: bytes, lines: np.ndarray) -> np.ndarray:
        """Parse ``texts`` as logarithms, float64; an error names the line of ``block`` that ``lines`` gives for each.
        """
        try:
            values = np.array(list(map(float, texts)))
            right = _can_be(values) if not any(b"_" in text for text in texts) else None
        except ValueError:
            right = None
        if right is None:
            right = np.array([_is_number(text) for text in texts])
        if not right.all():
            raise self._line_error(block, int(lines[right.argmin()]), "expected a logarithm of a probability")
        return values

    def _check_numbers(self, block: bytes, words: np.ndarray, lines: np.ndarray) -> None:
        wrong = ((words == 0) | (words > _LARGEST_ID)).any(axis=1)
        if wrong.any():
            raise self._line_error(block, int(lines[wrong.argmax()]), f"expected words of numbers 1 to {_LARGEST_ID}")

    def _warn_of_unknown(self, block: bytes, words: np.ndarray, lines: np.ndarray, rows: np.ndarray,
                         fields: list[bytes], firsts: list[int]) -> None:
        texts: list[bytes] = []

        def message(i: int) -> str:
            if not texts:
                texts.extend(block.split(b"\n"))
            row = int(rows[i])
            place = int((words[row] < 0).argmax())
            line, word = texts[int(lines[row])].strip(), fields[firsts[row] + 1 + place]
            return (f"line {self._line + int(lines[row]) + 1} [{line.decode('utf-8', 'backslashreplace')}] skipped: "
                    f"word '{word.decode('utf-8', 'backslashreplace')}' not in symbol table")

        self._warn(message, len(rows))


def natural(log10: np.ndarray) -> np.ndarray:
    """Convert base-10 logarithms to natural ones, float32; they are first rounded to float32, as in Kaldi."""
    return (log10.astype(np.float32).astype(np.float64) * LN10).astype(np.float32)


def _log(message: str, line: int) -> None:
    logger.info("%s", message, extra=kaldi_place("Read", "arpa-file-parser.cc", line))


def _is_number(text: bytes) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return b"_" not in text and bool(_can_be(np.array(value)))


def _can_be(values: np.ndarray) -> np.ndarray:
    """Return which numbers are plausible logarithms: below a limit in size, or minus infinity; bool."""
    return (np.abs(values) < _LARGEST_LOG) | (values == -np.inf)


def first_fields(block: bytes, num_fields: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return arrays with an element per nonblank line of ``block``: first field, number of fields, number of the line.

    Fields and lines are numbered from 0 in the block; ``num_fields`` is the number of all fields.
    """
    text = np.frombuffer(block, dtype=np.uint8)
    blank = _BLANK[text]
    begins = ~blank
    begins[1:] &= blank[:-1]
    places = np.flatnonzero(begins)
    line_ends = np.flatnonzero(text == ord("\n"))
    line_of = np.searchsorted(line_ends, places)
    assert len(places) == num_fields
    lines, starts, counts = np.unique(line_of, return_index=True, return_counts=True)
    return starts, counts, lines
