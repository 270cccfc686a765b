"""Looking values up by key. Kaldi: ``RandomAccessTableReader`` and ``RandomAccessTableReaderMapped``.

How an archive is searched depends on the options of the rspecifier: without ``s``, all values read so far are kept;
with ``s``, keys are sorted, and reading stops after the key; with ``s,cs``, keys are also looked up in sorted order,
and only one value is kept.
"""
from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Generic, TypeVar

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.io.archive import ArchiveScanner, LoadedObject, Script, sort_key
from nnet3py.io.holder import TOKEN, Holder
from nnet3py.io.specifiers import Rspecifier, is_token, parse_rspecifier
from nnet3py.io.streams import failed_command, open_input

logger = logging.getLogger(__name__)

Value = TypeVar("Value")


class RandomAccessReader(Generic[Value]):
    """The values of a table by key: ``key in reader``, ``reader[key]``, ``reader.get(key)``.

    ``reader[key]`` raises Nnet3Error for a missing key. :meth:`close`, or leaving the ``with`` block, raises after a
    read error in an archive, unless the rspecifier is permissive (``p``).
    """

    def __init__(self, rspecifier: str, holder: Holder[Value]) -> None:
        specifier = parse_rspecifier(rspecifier)
        self.specifier = specifier
        self._lookup: _ScriptLookup[Value] | _UnsortedLookup[Value] | _SortedLookup[Value] | _DoublySortedLookup[Value]
        if specifier.kind == "scp":
            self._lookup = _ScriptLookup(specifier, holder)
        elif not specifier.sorted:
            self._lookup = _UnsortedLookup(specifier, holder)
        elif not specifier.called_sorted:
            self._lookup = _SortedLookup(specifier, holder)
        else:
            self._lookup = _DoublySortedLookup(specifier, holder)

    def __contains__(self, key: str) -> bool:
        return self._lookup.has(_checked(key))

    def __getitem__(self, key: str) -> Value:
        return self._lookup.value(_checked(key))

    def get(self, key: str) -> Value | None:
        """Return the value, or None if the table has no such key."""
        return self[key] if key in self else None

    def close(self) -> None:
        """Close the table; FormatError after a read error in an archive, unless permissive."""
        self._lookup.close(quiet=False)

    def __enter__(self) -> RandomAccessReader[Value]:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._lookup.close(quiet=kind is not None)


def _checked(key: str) -> str:
    if not is_token(key):
        raise Nnet3Error(f"'{key}' cannot be a key", "keys are not empty and contain no blanks")
    return key


class _ScriptLookup(Generic[Value]):
    def __init__(self, specifier: Rspecifier, holder: Holder[Value]) -> None:
        self._specifier = specifier
        self._script = Script(specifier.source, sorted=specifier.sorted)
        self._loaded = LoadedObject(holder)

    def has(self, key: str) -> bool:
        """Return whether the script has the key and, with option ``p``, whether its value can be read."""
        name = self._script.get(key)
        if name is None or not self._specifier.permissive:
            return name is not None
        try:
            self._loaded.load(key, name)
        except Nnet3Error as error:
            logger.warning("Cannot load %s of %s: %s", key, self._specifier.text, error)
            return False
        return True

    def value(self, key: str) -> Value:
        name = self._script.get(key)
        if name is None:
            raise _missing(key, self._specifier)
        return self._loaded.load(key, name)

    def close(self, quiet: bool) -> None:
        pass


def _missing(key: str, specifier: Rspecifier) -> Nnet3Error:
    return Nnet3Error(f"there is no key {key} in '{specifier.text}'")


class _ArchiveLookup(Generic[Value]):
    """Base of the three ways of searching an archive: reads entries and keeps an error for :meth:`close`."""

    def __init__(self, specifier: Rspecifier, holder: Holder[Value]) -> None:
        self._specifier = specifier
        self._stream = open_input(specifier.source)
        self._scanner = ArchiveScanner(self._stream, holder)
        self._at_end = False
        self._error: Nnet3Error | None = None
        self._first = True

    def _next(self) -> tuple[str, Value] | None:
        """Return the archive's next entry, or None at its end or after an error."""
        if self._at_end:
            return None
        if self._first:
            self._stream.without_mark()
        try:
            entry = self._scanner.next()
            self._first = False
            if entry is not None:
                return entry
        except Nnet3Error as error:
            if self._first:
                raise
            logger.warning("Stopped reading %s: %s", self._specifier.text, error)
            self._error = error
        self._at_end = True
        return None

    def _in_order(self, key: str, previous: str | None) -> None:
        if previous is not None and sort_key(key) <= sort_key(previous):
            what = "occurs twice" if key == previous else f"follows {previous}"
            raise FormatError(f"key {key} {what} although the archive is said to be sorted",
                              path=self._specifier.source, hint="leave out 's' and 'cs', or sort with LC_ALL=C")

    def close(self, quiet: bool) -> None:
        """Close the archive; raise the error met while it was read, unless ``quiet``."""
        if self._stream.closed:
            return
        self._stream.close()
        error = self._error
        if error is None and self._at_end and self._stream.status:   # keys may be missing because the command failed
            error = failed_command(self._specifier.text, self._stream.status)
        if error is not None and not quiet and not self._specifier.permissive:
            raise error


class _UnsortedLookup(_ArchiveLookup[Value]):
    def __init__(self, specifier: Rspecifier, holder: Holder[Value]) -> None:
        super().__init__(specifier, holder)
        self._values: dict[str, Value] = {}
        self._first_dropped: str | None = None
        self._to_drop: str | None = None

    def _drop(self, but: str) -> None:
        """Drop the value that was returned last, with option ``o``, unless its key is ``but``."""
        if self._to_drop is not None and self._to_drop != but:
            del self._values[self._to_drop]
            self._first_dropped = self._first_dropped or self._to_drop
            self._to_drop = None

    def has(self, key: str) -> bool:
        """Return whether the archive has the key; entries are read up to it, and all values are kept."""
        self._drop(but=key)
        if key == self._first_dropped:
            raise Nnet3Error(f"key {key} was asked for twice in '{self._specifier.text}'", hint="leave out the 'o'")
        while key not in self._values:
            entry = self._next()
            if entry is None:
                return False
            if entry[0] in self._values:
                raise FormatError(f"key {entry[0]} occurs twice", path=self._specifier.source)
            self._values[entry[0]] = entry[1]
        return True

    def value(self, key: str) -> Value:
        """Return the value of a key; with option ``o`` it is dropped when the next one is looked up."""
        if not self.has(key):
            raise _missing(key, self._specifier)
        if self._specifier.once:
            self._to_drop = key
        return self._values[key]


class _SortedLookup(_ArchiveLookup[Value]):
    def __init__(self, specifier: Rspecifier, holder: Holder[Value]) -> None:
        super().__init__(specifier, holder)
        self._values: dict[str, Value] = {}
        self._last: str | None = None
        self._given: set[str] = set()

    def has(self, key: str) -> bool:
        """Return whether the archive has the key; entries are read up to the first later key."""
        if key in self._given:
            raise Nnet3Error(f"key {key} was asked for twice in '{self._specifier.text}'", hint="leave out the 'o'")
        while self._last is None or sort_key(self._last) < sort_key(key):
            entry = self._next()
            if entry is None:
                break
            self._in_order(entry[0], self._last)
            self._last = entry[0]
            self._values[entry[0]] = entry[1]
        return key in self._values

    def value(self, key: str) -> Value:
        """Return the value of a key; with option ``o`` only once."""
        if not self.has(key):
            raise _missing(key, self._specifier)
        if self._specifier.once:
            self._given.add(key)
            return self._values.pop(key)
        return self._values[key]


class _DoublySortedLookup(_ArchiveLookup[Value]):
    def __init__(self, specifier: Rspecifier, holder: Holder[Value]) -> None:
        super().__init__(specifier, holder)
        self._key: str | None = None
        self._value: Any = None
        self._asked: str | None = None

    def has(self, key: str) -> bool:
        """Return whether the archive has the key; keys must be looked up in sorted order, so one value is kept."""
        if self._asked is not None and sort_key(key) < sort_key(self._asked):
            raise Nnet3Error(f"key {key} was asked for after {self._asked} in '{self._specifier.text}'",
                             hint="leave out the 'cs', or sort with LC_ALL=C what the keys come from")
        self._asked = key
        while self._key is None or sort_key(self._key) < sort_key(key):
            entry = self._next()
            if entry is None:
                return False
            self._in_order(entry[0], self._key)
            self._key, self._value = entry
        return self._key == key

    def value(self, key: str) -> Value:
        if not self.has(key):
            raise _missing(key, self._specifier)
        return self._value


class RandomAccessMappedReader(Generic[Value]):
    """A table by speaker that is looked up by utterance through an utt2spk table; used like RandomAccessReader.

    ``utt2spk`` is an rspecifier of tokens; if it is empty, keys are used as they are. An utterance that it lacks raises
    Nnet3Error; a speaker that the table lacks counts as a missing key.
    """

    def __init__(self, rspecifier: str, utt2spk: str, holder: Holder[Value]) -> None:
        self._table = RandomAccessReader(rspecifier, holder)
        self._map: RandomAccessReader[str] | None = None
        if utt2spk:
            try:
                self._map = RandomAccessReader(utt2spk, TOKEN)
            except BaseException:
                self._table._lookup.close(quiet=True)
                raise

    def _mapped(self, key: str) -> str:
        if self._map is None:
            return key
        if key not in self._map:
            raise Nnet3Error(f"utterance {key} is not in the utt2spk map '{self._map.specifier.text}'")
        return self._map[key]

    def __contains__(self, key: str) -> bool:
        return self._mapped(key) in self._table

    def __getitem__(self, key: str) -> Value:
        return self._table[self._mapped(key)]

    def get(self, key: str) -> Value | None:
        """Return the value of the utterance's speaker, or None if the table lacks it."""
        mapped = self._mapped(key)
        return self._table[mapped] if mapped in self._table else None

    def close(self) -> None:
        """Close both tables; raise as RandomAccessReader does."""
        if self._map is not None:
            self._map.close()
        self._table.close()

    def __enter__(self) -> RandomAccessMappedReader[Value]:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._map is not None:
            self._map.__exit__(kind, value, traceback)
        self._table.__exit__(kind, value, traceback)
