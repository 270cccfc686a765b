"""Tables: sequences of keys and values in archives (ark) and script files (scp).

Kaldi: ``SequentialTableReader``, ``TableWriter`` of ``kaldi-table.h``; random access is in ``random_access.py``.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.io.archive import ArchiveScanner, Closing, LoadedObject, Run, check_script, read_script, read_script_line
from nnet3py.io.holder import BINARY_HEADER, BytePieces, Holder
from nnet3py.io.random_access import RandomAccessMappedReader, RandomAccessReader
from nnet3py.io.read_ahead import read_ahead
from nnet3py.io.specifiers import Medium, is_token, parse_rspecifier, parse_wspecifier, parse_wxfilename
from nnet3py.io.streams import InputStream, OutputStream, failed_command, open_input, open_output

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenWriter

__all__ = ["RandomAccessMappedReader", "RandomAccessReader", "SequentialReader", "TableWriter", "write_table"]

logger = logging.getLogger(__name__)

Value = TypeVar("Value")


def _identity(value: Value) -> Value:
    return value


class SequentialReader(Closing, Generic[Value]):
    """The entries of a table in their order.

    Iterating yields (key, value). An unreadable first entry of an archive raises FormatError. A later one ends the
    iteration with a warning, and then :meth:`close` (or leaving the ``with`` block) raises, unless the rspecifier is
    permissive (``p``). In a script, an unreadable object raises, or with ``p`` is skipped. ``stream`` is the open
    archive or script.
    """

    def __init__(self, rspecifier: str, holder: Holder[Value]) -> None:
        self.specifier = parse_rspecifier(rspecifier)
        self.holder = holder
        self._error: Exception | None = None
        self._at_end = False
        self._first = True
        self.stream: InputStream = open_input(self.specifier.source)
        if self.specifier.kind == "scp":
            check_script(self.stream)

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        entries = (self._archive_entries() if self.specifier.kind == "ark"
                   else ((key, load()) for key, load in self._script_entries()))
        return read_ahead(entries) if self.specifier.background else entries

    def runs(self, find: Callable[[InputStream], Iterator[Run]]) -> Iterator[Run]:
        """Yield the runs of entries that ``find`` finds at the beginning of an archive, for :meth:`TableWriter.move`.

        The archive must be a file. Iterating over the reader afterwards yields the entries that follow.
        """
        if self.specifier.kind == "ark" and not self.specifier.background:
            for run in find(self.stream):
                self._first = False
                yield run

    @property
    def archive_size(self) -> int | None:
        """Number of bytes of the archive; None for scripts and pipes."""
        return self.stream.size if self.specifier.kind == "ark" else None

    def share_read(self) -> float | None:
        """Return the share of the archive or script read so far, from 0 to 1; None if unknown (pipes).

        It includes entries that were read ahead.
        """
        try:
            return self.stream.tell() / self.stream.size if self.stream.size else None
        except (OSError, ValueError):          # it is closed
            return None

    def lazy(self) -> Iterator[tuple[str, Callable[[], Value]]]:
        """Iterate over (key, function that returns the value): the objects of a script are read only when it is called.
        """
        if self.specifier.kind == "ark":
            return ((key, partial(_identity, value)) for key, value in self._archive_entries())
        return self._script_entries()

    def _archive_entries(self) -> Iterator[tuple[str, Value]]:
        scanner = ArchiveScanner(self.stream.without_mark(), self.holder)
        while True:
            try:
                entry = scanner.next()
            except Nnet3Error as error:
                if self._first:
                    raise
                self._stop(error)
                return
            if entry is None:
                self._at_end = True
                return
            self._first = False
            yield entry

    def _stop(self, error: Exception) -> None:
        logger.warning("Stopped reading %s: %s", self.specifier.text, error)
        self._error = error

    def _script_entries(self) -> Iterator[tuple[str, Callable[[], Value]]]:
        loaded = LoadedObject(self.holder)
        self.stream.without_mark()
        for line in iter(self.stream.readline, b""):
            entry = read_script_line(line)
            if entry is None:
                self._stop(FormatError(f"a script line is KEY FILE, found {line!r}", path=self.specifier.source))
                return
            key, name = entry
            if self.specifier.permissive:
                try:
                    value = loaded.load(key, name)
                except Nnet3Error as error:
                    logger.warning("Skipping %s of %s: %s", key, self.specifier.text, error)
                    continue
                yield key, partial(_identity, value)
            else:
                yield key, partial(loaded.load, key, name)
        self._at_end = True

    def close(self) -> None:
        """Close; unless permissive, raise FormatError after a read error, Nnet3Error if a pipe's command failed."""
        if self.stream.closed:
            return
        self.stream.close()
        error = self._error
        if error is None and self._at_end and self.stream.status:
            error = failed_command(self.specifier.text, self.stream.status)
        self._error = None
        if error is not None and not self.specifier.permissive:
            raise error

    def abandon(self) -> None:
        """Close without reporting what went wrong."""
        self.stream.close()


class TableWriter(Closing, Generic[Value]):
    """A writer of entries to an archive, to an archive and a script of offsets, or to the files that a script names.

    ``writer.write(key, value)`` raises on any failure. As a context manager it makes the files appear when complete.
    """

    def __init__(self, wspecifier: str, holder: Holder[Value]) -> None:
        self.specifier = parse_wspecifier(wspecifier)
        self.holder = holder
        self._archive: OutputStream | None = None
        self._script: OutputStream | None = None
        self._names: dict[str, str] = {}
        self._tokens: tuple[OutputStream, TokenWriter] | None = None      # of the stream that was written to last
        self._header = BINARY_HEADER if self.specifier.binary and holder.has_header else b""
        archive, script = self.specifier.archive, self.specifier.script
        if archive is not None:
            if script is not None and parse_wxfilename(archive).medium is not Medium.FILE:
                logger.warning("The archive of '%s' is not a file, so its script cannot be used", wspecifier)
            self._archive = open_output(archive)
            if script is not None:
                try:
                    self._script = open_output(script)
                except Exception:
                    self._archive.close()
                    raise
        elif script is not None:
            self._names = read_script(script)

    def write(self, key: str, value: Value) -> None:
        """Write one entry; values that are bytes or BytePieces are written as they are.

        Nnet3Error for a key that is empty or contains blanks.
        """
        if not is_token(key):
            raise Nnet3Error(f"'{key}' cannot be a key", hint="keys are not empty and contain no blanks")
        if self._archive is None:
            self._write_to_named_file(key, value)
            return
        encoded = key.encode("utf-8", "surrogateescape")
        self._archive.write(encoded + b" ")
        self._note_place(encoded, self._archive.tell())
        self._write_value(self._archive, value)
        self._flush_if_asked()

    def _write_value(self, stream: OutputStream, value: Value) -> None:
        if self._header:
            stream.write(self._header)
        if isinstance(value, bytes):
            stream.write(value)
        elif isinstance(value, BytePieces):
            for piece in value.pieces:
                stream.write(piece)
        else:
            if self._tokens is None or self._tokens[0] is not stream:
                from nnet3py.io.tokens import TokenWriter

                self._tokens = stream, TokenWriter(stream, self.specifier.binary)
            self.holder.write(self._tokens[1], value)

    @property
    def takes_runs(self) -> bool:
        """True if the output is a binary archive, to which :meth:`move` can write."""
        return self._archive is not None and self._header == BINARY_HEADER

    def move(self, source: SequentialReader, run: Run) -> None:
        """Copy the bytes of a run of entries of ``source``, whose values must be in the binary form of this table."""
        assert self._archive is not None
        begin = self._archive.tell()
        self._archive.copy_range(source.stream, run.first, run.end - run.first)
        if self._script is not None:
            for entry in run.entries:
                self._note_place(entry.key.encode("utf-8", "surrogateescape"), begin + entry.value_at)
        self._flush_if_asked()

    def _note_place(self, key: bytes, value_at: int) -> None:
        if self._script is not None:
            name = (self.specifier.archive or "").encode("utf-8", "surrogateescape")
            self._script.write(b"%b %b:%d\n" % (key, name, value_at))

    def _flush_if_asked(self) -> None:
        if self.specifier.flush:
            for stream in (self._archive, self._script):
                if stream is not None:
                    stream.flush()

    def _write_to_named_file(self, key: str, value: Value) -> None:
        name = self._names.get(key)
        if name is not None:
            with open_output(name) as stream:
                self._write_value(stream, value)
        elif not self.specifier.permissive:
            raise Nnet3Error(f"the script of '{self.specifier.text}' has no entry for key {key}")

    def close(self) -> None:
        """Complete the files, which then appear; Nnet3Error if that fails."""
        if self._archive is not None:
            try:
                if self._script is not None:      # neither appears unless both can be written
                    self._archive.flush()
                    self._script.flush()
                self._archive.commit()
                if self._script is not None:
                    self._script.commit()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Close and remove the files that are not complete."""
        for stream in (self._archive, self._script):
            if stream is not None:
                stream.close()


def write_table(wspecifier: str, holder: Holder[Value],
                entries: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> int:
    """Write all entries, of a dict or (key, value) pairs; return their number. Raises as :class:`TableWriter`."""
    count = 0
    with TableWriter(wspecifier, holder) as writer:
        for key, value in entries.items() if isinstance(entries, Mapping) else entries:
            writer.write(key, value)
            count += 1
    return count


class Entries(Iterator[tuple[str, Value]], Generic[Value]):
    """An iterator over (key, value) of a table, which is opened when the first entry is requested.

    Parameters
    ----------
    rspecifier : str, rspecifier of the table; SpecifierError at once if it is invalid
    holder : Holder, type of the values
    reader : str, name of the public function that returns the entries, for messages
    """

    def __init__(self, rspecifier: str, holder: Holder[Value], reader: str) -> None:
        parse_rspecifier(rspecifier)
        self._rspecifier, self._holder, self._function = rspecifier, holder, reader
        self._pairs = self._read()

    def _read(self) -> Generator[tuple[str, Value], None, None]:
        with SequentialReader(self._rspecifier, self._holder) as reader:
            yield from reader

    def __next__(self) -> tuple[str, Value]:
        return next(self._pairs)

    def close(self) -> None:
        """Close the table and end the iteration."""
        self._pairs.close()

    def __getitem__(self, key: object) -> NoReturn:
        """Raise UsageError: the entries of a table can only be read in order."""
        raise UsageError("the entries (key, value) of a table can only be read in order, not by key or number",
                         f"dict(nnet3py.{self._function}({self._rspecifier!r}))[{key!r}]" if isinstance(key, str) else
                         f"list(nnet3py.{self._function}({self._rspecifier!r}))[{key!r}]")

    def __repr__(self) -> str:
        return f"<entries of {self._rspecifier}>"
