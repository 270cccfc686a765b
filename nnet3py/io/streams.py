"""Byte streams by Kaldi's names: plain files, ``-``, ``command |``, ``| command`` and ``file:offset``; lines of text.

:func:`open_input` and :func:`open_output` return binary file objects that are context managers. An output file appears
under its own name only when it is complete. Kaldi: ``Input`` and ``Output`` of ``kaldi-io.h``.
"""
from __future__ import annotations

import errno
import io
import logging
import os
import stat
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nnet3py import system
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.io import temporary_files
from nnet3py.io.byte_source import size_of
from nnet3py.io.specifiers import FileName, Medium, parse_rxfilename, parse_wxfilename

logger = logging.getLogger(__name__)

BUFFER_SIZE = 1 << 15          # small, because looking ahead copies it
_FILE_BUFFER_SIZE = 1 << 18    # of files that are written; with pipes, others wait for the data
_NOT_BY_SYSTEM = (None, errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP)    # not a file, or appended to
PIPES_VARIABLE = "NNET3PY_PIPES"               # any value but "yes" forbids them
_BROKEN_PIPE = (-system.SIGPIPE, 128 + system.SIGPIPE)     # exit statuses of a command whose reader went away
_pipes_forbidden = False


class ClosedOutput(Nnet3Error):
    """The error of a standard output that its reader has closed (``… | head``), with the exit status of a broken pipe.
    """

    exit_code = 128 + system.SIGPIPE


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


# -- pipes -----------------------------------------------------------------------------------------------------------


def forbid_pipes() -> None:
    """Refuse every ``command |`` and ``| command`` in this process from now on; this cannot be undone.

    For services that get names of files from others. In child processes ``NNET3PY_PIPES=no`` does the same.
    """
    global _pipes_forbidden
    _pipes_forbidden = True


def _start_command(command: str, path: str, reads: bool) -> Any:
    """Start the command of a pipe, to read its output or, without ``reads``, to write to it; return a Popen or alike.

    Nnet3Error if pipes are forbidden.
    """
    if _pipes_forbidden or os.environ.get(PIPES_VARIABLE, "yes") != "yes":
        raise Nnet3Error(f"'{path}' would run a shell command, which is forbidden here", "name a file instead; pipes "
                         f"are forbidden by {PIPES_VARIABLE}=no in the environment, or by forbid_pipes()")
    _flush_standard_output()
    process = None if system.pipe_starter is None else system.pipe_starter(command, reads)
    if process is not None:
        return process
    import subprocess  # slow to load, and only pipes need it

    stdin, stdout = (None, subprocess.PIPE) if reads else (subprocess.PIPE, None)
    return subprocess.Popen(system.shell_words(command), stdin=stdin, stdout=stdout, bufsize=0)


# -- input -----------------------------------------------------------------------------------------------------------


class _RawInput(io.RawIOBase):
    """An unbuffered stream of a file descriptor or of another file object; its errors name the file."""

    def __init__(self, source: Any, path: str) -> None:
        self._source, self._path = source, path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._source.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        return self._source.tell()

    def fileno(self) -> int:
        return self._source.fileno()

    def readinto(self, buffer: Any) -> int | None:
        try:
            return self._source.readinto(buffer)
        except OSError as error:
            raise Nnet3Error(f"cannot read {self._path}: {_reason(error)}") from error

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._source is not getattr(sys.stdin, "buffer", None):
                self._source.close()


def failed_command(path: str, status: int) -> Nnet3Error:
    """Return the error for a pipe whose command ended with a status other than 0.

    Kaldi only warns, except for tables that are read.
    """
    return Nnet3Error(f"the command of '{path}' failed with status {status}", "its own messages say why")


class InputStream(io.BufferedReader):
    """A buffered binary stream to read. Closing it warns of a failed command, as in Kaldi.

    Attributes
    ----------
    path : str, the rxfilename, for messages
    size : int, bytes in the file; None where unknown (pipes)
    status : int, exit status of a pipe's command after ``close``; 0 if it succeeded
    """

    def __init__(self, source: Any, path: str, process: Any = None, keep: bool = False) -> None:
        super().__init__(_RawInput(source, path), BUFFER_SIZE)
        self.path = path
        self.size = size_of(source)
        self.status = 0
        self._process, self._keep = process, keep

    @property
    def name(self) -> str:
        """The rxfilename."""
        return self.path

    def without_mark(self) -> InputStream:
        """Skip a byte-order mark at the beginning of a text, with a warning; return the stream itself.

        Editors on Windows write such a mark; it would become part of the first key or word.
        """
        if self.peek(len(BOM_UTF8))[:len(BOM_UTF8)] == BOM_UTF8:
            self.read(len(BOM_UTF8))
            logger.warning("%s begins with a byte-order mark, which is skipped", self.path)
        return self

    def close(self) -> None:
        """Close the stream and wait for a pipe's command; if that fails, warn and set ``status``."""
        if self._keep or self.closed:
            return
        process, self._process = self._process, None
        at_end = process is None or not self.peek(1)
        super().close()
        if process is not None:
            self.status = process.wait()
            if self.status in _BROKEN_PIPE and not at_end:
                self.status = 0      # the command failed because this process stopped reading
            if self.status:
                logger.warning("Pipe %s had nonzero return status %d", self.path, self.status)


_standard_input: tuple[Any, InputStream] | None = None


def _open_standard_input() -> InputStream:
    """Return the stream of standard input, the same one each time, so that several objects can be read from ``-``."""
    global _standard_input
    if _standard_input is None or _standard_input[0] is not sys.stdin or _standard_input[1].closed:
        source = getattr(sys.stdin, "buffer", None)
        if source is None:
            raise Nnet3Error("standard input is closed")
        if isinstance(source, io.BufferedReader) and sys.stdin is sys.__stdin__:
            source = source.raw
        _standard_input = (sys.stdin, InputStream(source, "-", keep=True))
    return _standard_input[1]


def _open_file(path: str) -> io.FileIO:
    try:
        return io.FileIO(system.device_path(path), "r")
    except (OSError, ValueError) as error:
        raise Nnet3Error(f"cannot open '{path}' for reading: {_reason(error)}") from error


def open_input(rxfilename: str | os.PathLike[str]) -> InputStream:
    """Open the input that an rxfilename names; the result is a context manager. Kaldi: Input::Open.

    Raises SpecifierError for an invalid name and Nnet3Error if it cannot be opened.
    """
    rxfilename = os.fspath(rxfilename)
    name = parse_rxfilename(rxfilename)
    if name.medium is Medium.STANDARD:
        return _open_standard_input()
    if name.medium is Medium.PIPE:
        process = _start_command(name.target, rxfilename, reads=True)
        return InputStream(process.stdout, rxfilename, process)
    stream = InputStream(_open_file(name.target), rxfilename)
    if name.medium is Medium.OFFSET:
        _seek(stream, name)
    return stream


@contextmanager
def complete_input(rxfilename: str | os.PathLike[str]) -> Iterator[InputStream]:
    """Open an input that is read to its end; at the end of the block, Nnet3Error if it was a command that failed."""
    with open_input(rxfilename) as stream:
        yield stream
    if stream.status:
        raise failed_command(stream.path, stream.status)


def _seek(stream: InputStream, name: FileName) -> None:
    if stream.size is not None and name.offset > stream.size:
        stream.close()
        raise Nnet3Error(f"offset {name.offset} lies beyond the end of '{name.target}' ({stream.size} bytes)")
    try:
        stream.seek(name.offset)
    except OSError as error:
        stream.close()
        raise Nnet3Error(f"cannot seek to {name.offset} in '{name.target}': {_reason(error)}") from error


# -- output ----------------------------------------------------------------------------------------------------------


class _RawOutput(io.RawIOBase):
    """An unbuffered stream to a file object; its errors name the file. If ``discard`` is set, data are dropped."""

    def __init__(self, target: Any, path: str, standard: bool = False) -> None:
        self.target, self._path, self._standard = target, path, standard
        self.discard = False
        self._position = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        """Write ``data``, perhaps only in part; return the number of bytes. After an error, further data are dropped.
        """
        if self.discard:
            return len(data)
        try:
            written = self.target.write(data)
        except OSError as error:
            self.discard = True
            raise self._error("write to", error) from error
        self._position += written
        return written

    def copy_range(self, source: int, first: int, count: int) -> None:
        """Write ``count`` bytes, from byte ``first`` on, of the file with the descriptor ``source``."""
        end = first + count
        by_system = hasattr(os, "sendfile")
        while first < end and not self.discard:
            try:
                if by_system:
                    moved = os.sendfile(self.target.fileno(), source, first, end - first)
                else:
                    moved = self.target.write(system.read_at(source, min(end - first, _FILE_BUFFER_SIZE), first))
            except OSError as error:
                if by_system and error.errno in _NOT_BY_SYSTEM:
                    by_system = False
                    continue
                self.discard = True
                raise self._error("write to", error) from error
            if not moved:
                raise Nnet3Error(f"a file became shorter while it was copied to '{self._path}'",
                                 "does another program write to it?")
            first += moved
            self._position += moved

    def close(self) -> None:
        """Close the target, or flush it if it is the standard output; errors name the file."""
        if self.closed:
            return
        super().close()
        try:
            if self._standard:
                self.target.flush()
            else:
                self.target.close()
        except OSError as error:
            if not self.discard:
                self.discard = True
                raise self._error("close", error) from error

    def _error(self, what: str, error: OSError) -> Nnet3Error:
        if isinstance(error, BrokenPipeError):
            if self._standard:
                return ClosedOutput("standard output was closed by its reader")
            return Nnet3Error(f"cannot write to '{self._path}': the command ended before all was written")
        name = "standard output" if self._standard else f"'{self._path}'"
        return Nnet3Error(f"cannot {what} {name}: {_reason(error)}")


class OutputStream(io.BufferedWriter):
    """A binary stream to write. :meth:`commit` gives a file its name; :meth:`close` without it removes the file.

    As a context manager it commits or, after an exception, closes. ``path`` is the wxfilename, for messages.
    """

    def __init__(self, target: Any, path: str, process: Any = None, standard: bool = False,
                 temporary: str | None = None) -> None:
        self._raw_output = _RawOutput(target, path, standard)
        super().__init__(self._raw_output, BUFFER_SIZE if temporary is None else _FILE_BUFFER_SIZE)
        self.path = path
        self.status = 0              # of a pipe's command, after close
        self._process, self._temporary = process, temporary

    def copy_range(self, source: InputStream, first: int, count: int) -> None:
        """Write ``count`` bytes of a file, from byte ``first`` on; where possible the operating system copies them."""
        self.flush()
        self._raw_output.copy_range(source.fileno(), first, count)

    @property
    def name(self) -> str:
        """The wxfilename."""
        return self.path

    def commit(self) -> None:
        """Write buffered bytes, wait for a pipe's command, rename the file. Nnet3Error if any of it fails."""
        if self.closed:
            return
        if self._temporary is not None and not temporary_files.is_ours(self._temporary):     # a child of a fork
            self.close()
            return
        try:
            self.flush()
            super().close()
            if self._temporary is not None:
                temporary, self._temporary = self._temporary, None
                try:
                    temporary_files.rename(temporary)
                except OSError as error:
                    raise Nnet3Error(f"cannot rename a temporary file to '{self.path}': {_reason(error)}") from error
        finally:
            self.close()
        if self.status:
            raise failed_command(self.path, self.status)

    def close(self) -> None:
        """Stop writing; a file that was not committed is removed (what was sent to a pipe cannot be taken back)."""
        if not self.closed:
            self._raw_output.discard = True
            super().close()
        if self._temporary is not None:
            temporary_files.remove(self._temporary)
            self._temporary = None
        process, self._process = self._process, None
        if process is not None:
            self.status = process.wait()
            if self.status:
                logger.warning("Pipe %s had nonzero return status %d", self.path, self.status)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None:
            self.commit()
        else:
            self.close()


def _flush_standard_output() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _open_standard_output() -> OutputStream:
    if sys.stdout is None:
        raise Nnet3Error("standard output is closed")
    sys.stdout.flush()
    target: Any = getattr(sys.stdout, "buffer", None)
    if target is None:
        raise Nnet3Error("standard output cannot take bytes")
    if sys.stdout is sys.__stdout__:
        target = io.FileIO(target.fileno(), "w", closefd=False)
    return OutputStream(target, "-", standard=True)


def _must_write_through(path: str) -> bool:
    """Return whether a file cannot be replaced by renaming: devices, fifos, and names in /dev and /proc."""
    if path.startswith(("/dev/", "/proc/")):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _open_output_file(path: str) -> OutputStream:
    try:
        if path.endswith("/"):
            raise IsADirectoryError(21, "Is a directory")
        final = os.path.realpath(path)
        if temporary_files.is_output(final):
            raise Nnet3Error(f"cannot open '{path}' for writing: it is another output of this command already",
                             hint="give every output a name of its own")
        if _must_write_through(path) or (os.path.exists(final) and not os.access(os.path.dirname(final), os.W_OK)):
            return OutputStream(io.FileIO(system.device_path(path), "w"), path)
        if os.path.exists(final) and not os.access(final, os.W_OK):
            raise PermissionError(13, "Permission denied")
        descriptor, temporary = temporary_files.create(final)
    except (OSError, ValueError) as error:
        raise Nnet3Error(f"cannot open '{path}' for writing: {_reason(error)}") from error
    return OutputStream(io.FileIO(descriptor, "w"), path, temporary=temporary)


def open_output(wxfilename: str | os.PathLike[str]) -> OutputStream:
    """Open the output that a wxfilename names; the result is a context manager. Kaldi: Output::Open.

    A file is written under a temporary name in the same folder and renamed when complete; devices, fifos and the like
    are written directly, and a symbolic link is kept. Raises SpecifierError for an invalid name, Nnet3Error if the
    output cannot be opened, written or closed.
    """
    wxfilename = os.fspath(wxfilename)
    name = parse_wxfilename(wxfilename)
    if name.medium is Medium.STANDARD:
        return _open_standard_output()
    if name.medium is Medium.PIPE:
        process = _start_command(name.target, wxfilename, reads=False)
        return OutputStream(process.stdin, wxfilename, process)
    return _open_output_file(name.target)


def write_text(wxfilename: str, text: str) -> None:
    """Write ``text`` (UTF-8) to a wxfilename, also to a standard output that accepts only text, as in a notebook.

    Raises as :func:`open_output` does.
    """
    only_text = sys.stdout is not None and not hasattr(sys.stdout, "buffer")
    if only_text and parse_wxfilename(wxfilename).medium is Medium.STANDARD:
        sys.stdout.write(text)
        return
    with open_output(wxfilename) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


_MOST_DIGITS = 9


def read_text(rxfilename: str | os.PathLike[str]) -> str:
    """Read the text of a file or pipe, in UTF-8.

    Bytes that are not UTF-8 are kept as surrogates (``surrogateescape``); a byte-order mark is skipped.
    """
    with complete_input(rxfilename) as stream:
        text = stream.without_mark().read().decode("utf-8", "surrogateescape")
    return text


def read_lines(rxfilename: str) -> list[str]:
    """Read the lines of a text file, without their ends."""
    return read_text(rxfilename).splitlines()


def read_integer_lines(rxfilename: str, keep_empty: bool = False) -> list[list[int]]:
    """Read the numbers, 0 or more, of each line; empty lines only if ``keep_empty``. FormatError for other words."""
    lines = [line.split() for line in read_lines(rxfilename)]
    for number, words in enumerate(lines, 1):
        if not all(word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS for word in words):
            raise FormatError(f"line {number} is not a list of numbers: {' '.join(words)[:80]!r}", path=rxfilename)
    return [[int(word) for word in words] for words in lines if words or keep_empty]
