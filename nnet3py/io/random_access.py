"""Looking values up by key. Kaldi: ``RandomAccessTableReader`` and ``RandomAccessTableReaderMapped``.

How an archive is searched depends on the options of the rspecifier: without ``s``, all values read so far are kept;
with ``s``, keys are sorted, and reading stops after the key; with ``s,cs``, keys are also looked up in sorted order,
and only one value is kept.
"""
from __future__ import annotations

import logging
from typing import Generic, TypeVar

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.io.archive import ArchiveScanner, Closing, LoadedObject, read_script, sort_key
from nnet3py.io.holder import TOKEN, Holder
from nnet3py.io.specifiers import Rspecifier, is_token, parse_rspecifier
from nnet3py.io.streams import failed_command, open_input

logger = logging.getLogger(__name__)

Value = TypeVar("Value")


class RandomAccessReader(Closing, Generic[Value]):
    """The values of a table by key: ``key in reader``, ``reader[key]``, ``reader.get(key)``.

    ``reader[key]`` raises Nnet3Error for a missing key. :meth:`close`, or leaving the ``with`` block, raises after a
    read error in an archive, unless the rspecifier is permissive (``p``).
    """

    def __init__(self, rspecifier: str, holder: Holder[Value]) -> None:
        self.specifier = parse_rspecifier(rspecifier)
        kind = (_ScriptLookup if self.specifier.kind == "scp" else
                _SortedLookup if self.specifier.sorted else _UnsortedLookup)
        self._lookup: _ScriptLookup[Value] | _ArchiveLookup[Value] = kind(self.specifier, holder)

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

    def abandon(self) -> None:
        """Close the table without raising errors."""
        self._lookup.close(quiet=True)


def _checked(key: str) -> str:
    if not is_token(key):
        raise Nnet3Error(f"'{key}' cannot be a key", "keys are not empty and contain no blanks")
    return key


class _ScriptLookup(Generic[Value]):
    def __init__(self, specifier: Rspecifier, holder: Holder[Value]) -> None:
        self._specifier = specifier
        self._script = read_script(specifier.source, specifier.sorted)
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
    """Base of the two ways of searching an archive: reads entries and keeps an error for :meth:`close`."""

    def __init__(self, specifier: Rspecifier, holder: Holder[Value]) -> None:
        self._specifier = specifier
        self._stream = open_input(specifier.source)
        self._scanner = ArchiveScanner(self._stream, holder)
        self._values: dict[str, Value] = {}
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

    def has(self, key: str) -> bool:
        """Return whether the archive has the key; entries are read until that is known."""
        raise NotImplementedError

    def value(self, key: str) -> Value:
        """Return the value of a key; with option ``o`` it is not kept."""
        if not self.has(key):
            raise _missing(key, self._specifier)
        return self._values[key]

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
        value = super().value(key)
        if self._specifier.once:
            self._to_drop = key
        return value


class _SortedLookup(_ArchiveLookup[Value]):
    def __init__(self, specifier: Rspecifier, holder: Holder[Value]) -> None:
        super().__init__(specifier, holder)
        self._last: str | None = None               # key that was read last
        self._asked: str | None = None              # key that was asked for last
        self._given: set[str] = set()

    def has(self, key: str) -> bool:
        """Return whether the archive has the key; entries are read up to the first later key.

        With option ``cs``, keys must be looked up in sorted order, so one value is kept.
        """
        if key in self._given:
            raise Nnet3Error(f"key {key} was asked for twice in '{self._specifier.text}'", hint="leave out the 'o'")
        if self._specifier.called_sorted:
            if self._asked is not None and sort_key(key) < sort_key(self._asked):
                raise Nnet3Error(f"key {key} was asked for after {self._asked} in '{self._specifier.text}'",
                                 hint="leave out the 'cs', or sort with LC_ALL=C what the keys come from")
            self._asked = key
        while self._last is None or sort_key(self._last) < sort_key(key):
            entry = self._next()
            if entry is None:
                return False
            self._check_order(entry[0])
            self._last = entry[0]
            if self._specifier.called_sorted:
                self._values.clear()
            self._values[entry[0]] = entry[1]
        return key in self._values

    def _check_order(self, key: str) -> None:
        if self._last is not None and sort_key(key) <= sort_key(self._last):
            problem = "occurs twice" if key == self._last else f"follows {self._last}"
            raise FormatError(f"key {key} {problem} although the archive is said to be sorted",
                              path=self._specifier.source, hint="leave out 's' and 'cs', or sort with LC_ALL=C")

    def value(self, key: str) -> Value:
        """Return the value of a key; with option ``o``, but not ``cs``, only once."""
        value = super().value(key)
        if self._specifier.once and not self._specifier.called_sorted:
            self._given.add(key)
            del self._values[key]
        return value


class RandomAccessMappedReader(Closing, Generic[Value]):
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
                self._table.abandon()
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

    def abandon(self) -> None:
        """Close both tables without raising errors."""
        if self._map is not None:
            self._map.abandon()
        self._table.abandon()
