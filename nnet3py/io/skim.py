"""Finding the ends of binary values in an archive without reading them, so that their bytes can be copied.

For each type of values, a function advances a :class:`Walk` over one: over the bytes that tell its sizes (``expect``,
``integer``, ``take``), and over the bytes of its contents (``skip``). Most values of an archive have the same sizes.
From the former bytes of such a value, its layout, a regular expression is made, which finds further values at the
speed of copying them; the function is called for other values. That halves the time of nnet3-copy-egs
(``benchmarks/tables.py``, "copying: finding examples"). Unusual values, such as text, are read by the code that
reads values from any file, which also reports what is wrong.
"""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nnet3py.system import read_at

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader

KEY = rb"([!-~\x80-\xfe]{1,10000}) \x00B"      # a key, a blank and the binary header
_HEADER = b"\0B"
_ENTRY = re.compile(KEY)
_PARTIAL_ENTRY = re.compile(rb"[!-~\x80-\xfe]{0,10000}( \x00?)?", re.DOTALL)
_MOST_LAYOUTS = 6               # layouts that are tried on each value; more would cost more than walking
_FEWEST_PEEKED, _MOST_PEEKED = 1 << 14, 1 << 26        # bytes that are looked at in order to find a single value
_MOST_SKIPPED = 256             # ranges of skipped bytes; expressions with more take long to make
_MOST_SEEN = 10_000             # layouts whose values are counted
_FEWEST_ALIKE = 3               # values with a layout before expression n is made, times n: that takes 0.3 ms


class Unusual(Exception):
    """Bytes that are not a value in the expected binary form."""


class Incomplete(Exception):
    """Bytes that end before the value does."""


def key_before(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the key of the entry at byte ``at``, and the byte after its header. Raises Incomplete, Unusual."""
    head = _ENTRY.match(data, at)
    if head is None:
        raise Incomplete if _PARTIAL_ENTRY.fullmatch(data, at) else Unusual
    return head[1], head.end()


class Walk:
    """A position ``at`` in ``data`` that advances over one value; ``skipped`` are the ranges of bytes not looked at.

    All methods raise Incomplete if the data end.
    """

    __slots__ = ("at", "begin", "data", "parts", "skipped")

    def __init__(self, data: bytes, begin: int) -> None:
        self.data, self.begin, self.at = data, begin, begin
        self.skipped: list[tuple[int, int]] = []         # first byte and number, counted from the value's begin
        self.parts: list[Any] = []                       # notes of the function that walks, such as layouts.Part

    def expect(self, literal: bytes) -> None:
        """Advance over ``literal``; Unusual if other bytes are there."""
        end = self.at + len(literal)
        text = self.data[self.at:end]
        if text != literal:
            raise Incomplete if literal.startswith(text) else Unusual
        self.at = end

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes, which are part of the value's layout, and advance over them."""
        taken = self.data[self.at:self.at + count]
        if len(taken) < count:
            raise Incomplete
        self.at += count
        return taken

    def integer(self, literal: bytes = b"") -> int:
        """Advance over ``literal`` and an int32 with its size byte; return the int32. Unusual if it is negative."""
        self.expect(literal + b"\4")
        number = int.from_bytes(self.take(4), "little", signed=True)
        if number < 0:
            raise Unusual
        return number

    def word(self) -> bytes:
        """Return the bytes before the next blank, and advance over both."""
        end = self.data.find(b" ", self.at)
        if end < 0:
            raise Incomplete
        word_ = self.take(end - self.at)
        self.at += 1
        return word_

    def skip(self, count: int) -> None:
        """Advance over ``count`` bytes that are not part of the value's layout."""
        if self.at + count > len(self.data):
            raise Incomplete
        if count:
            self.skipped.append((self.at - self.begin, count))
            self.at += count


def _walked_value(peek: Callable[[int], bytes], walk_value: Callable[[Walk], None]) -> bytes | None:
    """Return the bytes of the next value; None if it is not in the expected binary form.

    ``peek(n)`` returns the next n bytes, fewer only at the end.
    """
    size = _FEWEST_PEEKED
    while size <= _MOST_PEEKED:
        data = peek(size)
        walk = Walk(data, 0)
        try:
            walk_value(walk)
        except Unusual:
            return None
        except Incomplete:
            if len(data) < size:
                return None
            size *= 4
        else:
            return data[:walk.at]
    return None


def walked(reader: TokenReader, walk_value: Callable[[Walk], None]) -> bytes | None:
    """Read the reader's next value and return its bytes; None, with nothing read, if it is not in the expected form."""
    value = _walked_value(reader.peek, walk_value)
    return None if value is None else bytes(reader.raw(len(value)))


class Layout(NamedTuple):
    """A layout of values: all their bytes except skipped ones.

    ``pattern`` matches an entry with such a value, its groups are key and value; ``sample`` is one value; ``parts`` is
    ``Walk.parts`` of that value.
    """

    pattern: re.Pattern[bytes]
    sample: bytes
    parts: tuple[Any, ...]


Entry = tuple[bytes, Any]


class EntryFinder(Protocol):
    """Interface for finding entries in blocks of an archive without reading values.

    Attributes
    ----------
    block_bytes : int, bytes of the archive that are searched together
    archive_bytes : int, size of the archive, from which the amount of work is estimated; 0 if unknown
    """

    block_bytes: int
    archive_bytes: int

    def entries(self, data: bytes) -> tuple[list[Entry], int, bool]:
        """Find the entries with which ``data`` begins, as far as their values are in the expected binary form.

        Returns
        -------
        List of (key, value); number of bytes of these entries; True if the entry that follows must be read otherwise,
        False if it is incomplete or there is none
        """

    def value_at(self, source: int, at: int) -> Any | None:
        """Return the value at byte ``at`` of the file with the descriptor ``source``; its binary header is there.

        None if the value must be read otherwise. Raises OSError.
        """


class Skimmer(EntryFinder):
    """An EntryFinder whose values are bytes; ``walk`` advances over one value, header not included.

    ``runs`` lists, for the entries found last, (first entry, layout) of each run of entries with the same layout; None
    is the layout of a single entry that no known layout matched.
    """

    block_bytes = 1 << 16            # so small that the block stays in the cache
    archive_bytes = 0

    def __init__(self, walk: Callable[[Walk], None]) -> None:
        self._walk = walk
        self._layouts: list[Layout] = []                 # the last one that matched comes first
        self.runs: list[tuple[int, Layout | None]] = []
        self._seen: Counter[int] = Counter()             # hashes of layouts
        self._num_learned = 0

    def entries(self, data: bytes) -> tuple[list[Entry], int, bool]:
        entries: list[Entry] = []
        self.runs = []
        at = 0
        while at < len(data):
            for place, layout in enumerate(self._layouts):
                match = layout.pattern.match(data, at)
                if match is None:
                    continue
                if place:
                    self._layouts.insert(0, self._layouts.pop(place))
                self.runs.append((len(entries), layout))
                search = layout.pattern.match
                while match is not None:
                    entries.append(match.groups())  # type: ignore[arg-type]
                    at = match.end()
                    match = search(data, at)
                break
            else:
                try:
                    walked = self._walked(data, at)
                except Incomplete:
                    break
                except Unusual:
                    return entries, at, True
                self.runs.append((len(entries), None))
                entries.append(walked[0])
                at = walked[1]
        return entries, at, False

    def value_at(self, source: int, at: int) -> Any | None:
        if read_at(source, len(_HEADER), at) != _HEADER:
            return None
        return _walked_value(lambda size: read_at(source, size, at + len(_HEADER)), self._walk)

    def _walked(self, data: bytes, at: int) -> tuple[Entry, int]:
        """Return the entry at byte ``at``, and the byte after it. Raises Incomplete, Unusual."""
        key, begin = key_before(data, at)
        walk = Walk(data, begin)
        self._walk(walk)
        value = data[walk.begin:walk.at]
        self._learn(value, walk)
        return (key, value), walk.at

    def _learn(self, value: bytes, walk: Walk) -> None:
        """Count a value's layout; when enough values have had it, make its regular expression."""
        if len(walk.skipped) > _MOST_SKIPPED:
            return
        literals, at = [], 0
        for first, count in walk.skipped:
            literals.append(value[at:first])
            at = first + count
        literals.append(value[at:])
        form = hash((*walk.skipped, *literals))
        if form in self._seen or len(self._seen) < _MOST_SEEN:
            self._seen[form] += 1
        if self._seen[form] < _FEWEST_ALIKE * (1 + self._num_learned):
            return
        self._num_learned += 1
        pieces = [re.escape(literals[0])]
        for (_, count), literal in zip(walk.skipped, literals[1:], strict=True):
            pieces += [b".{%d}" % count, re.escape(literal)]
        self._layouts.insert(0, Layout(re.compile(KEY + b"(" + b"".join(pieces) + b")", re.DOTALL), value,
                                       tuple(walk.parts)))
        del self._layouts[_MOST_LAYOUTS:]
