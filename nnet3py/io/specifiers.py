"""Parsing of the names that Kaldi's programs take for inputs and outputs: tables, files, pipes, offsets and row ranges.

No file is opened here. Kaldi: ``kaldi-table.h`` (ClassifyRspecifier, ClassifyWspecifier) and ``kaldi-io.h``
(ClassifyRxfilename, ClassifyWxfilename).
"""
from __future__ import annotations

import os
import re
from enum import Enum
from typing import NamedTuple

from nnet3py.errors import SpecifierError, UsageError

WHITESPACE = " \t\n\r\f\v"             # C's isspace; Python's str.isspace knows many more
RANGE_TOLERANCE = 3                    # rows that a range may end beyond the object before it is an error

_OFFSET = re.compile(r"(.*):([0-9]+)", re.DOTALL)
_NUMBERS = re.compile(r"([0-9]+):([0-9]+)")
_TOKEN = re.compile("[^\x00-\x20\x7f\udcff]+")


class Medium(Enum):
    """Kinds of sources and targets of bytes: files, pipes and so on."""

    FILE = "file"
    STANDARD = "standard input or output"
    PIPE = "pipe"
    OFFSET = "file with an offset"


class FileName(NamedTuple):
    """A parsed rxfilename or wxfilename: ``target`` is a path or a shell command, empty for the standard streams."""

    medium: Medium
    target: str = ""
    offset: int = 0


class Rspecifier(NamedTuple):
    """A parsed rspecifier; ``source`` is the rxfilename of the archive (``kind`` "ark") or of the script ("scp")."""

    text: str
    kind: str
    source: str
    once: bool = False
    sorted: bool = False
    called_sorted: bool = False
    permissive: bool = False
    background: bool = False


class Wspecifier(NamedTuple):
    """A parsed wspecifier; ``archive`` and ``script`` are wxfilenames, None if there is no such output."""

    text: str
    archive: str | None
    script: str | None
    binary: bool = True
    flush: bool = False
    permissive: bool = False


# -- tables --------------------------------------------------------------------------------------------------------


# options -> fields of Rspecifier and Wspecifier that they set
_READ_OPTIONS: dict[str, dict[str, bool]] = {
    "o": {"once": True}, "no": {"once": False}, "s": {"sorted": True}, "ns": {"sorted": False},
    "cs": {"called_sorted": True}, "ncs": {"called_sorted": False}, "p": {"permissive": True},
    "np": {"permissive": False}, "bg": {"background": True}, "b": {}, "t": {}}
_WRITE_OPTIONS: dict[str, dict[str, bool]] = {
    "b": {"binary": True}, "t": {"binary": False}, "f": {"flush": True}, "nf": {"flush": False},
    "p": {"permissive": True}}


def _split_specifier(text: str, switches: dict[str, dict[str, bool]]) -> tuple[list[str], str, dict[str, bool]] | None:
    """Return ark and scp as they occur among the options, what follows the colon, and the fields that options set."""
    options, colon, rest = text.partition(":")
    if not colon or text[-1] in WHITESPACE:
        return None
    kinds: list[str] = []
    chosen: dict[str, bool] = {}
    for option in re.split("[, ]", options):
        if option in ("ark", "scp"):
            kinds.append(option)
        elif option in switches:
            chosen |= switches[option]
        else:
            return None
    return kinds, rest, chosen


def _match_rspecifier(text: str) -> Rspecifier | None:
    kinds, source, chosen = _split_specifier(text, _READ_OPTIONS) or ([], "", {})
    return Rspecifier(text, kinds[0], source, **chosen) if len(kinds) == 1 else None


def _match_wspecifier(text: str) -> Wspecifier | None:
    kinds, rest, chosen = _split_specifier(text, _WRITE_OPTIONS) or ([], "", {})
    if kinds == ["ark"]:
        return Wspecifier(text, rest, None, **chosen)
    if kinds == ["scp"]:
        return Wspecifier(text, None, rest, **chosen)
    if kinds == ["ark", "scp"] and "," in rest:
        archive, script = rest.split(",", 1)
        return Wspecifier(text, archive, script, **chosen)
    return None


def is_rspecifier(text: str) -> bool:
    """Return whether ``text`` is a valid rspecifier."""
    return _match_rspecifier(text) is not None


def is_wspecifier(text: str) -> bool:
    """Return whether ``text`` is a valid wspecifier."""
    return _match_wspecifier(text) is not None


def parse_rspecifier(text: str) -> Rspecifier:
    """Parse e.g. ``ark,s,cs:feats.ark`` or ``scp:feats.scp``; SpecifierError if it is not a valid rspecifier."""
    text = _as_text(text, "an rspecifier such as 'ark:feats.ark'")
    parsed = _match_rspecifier(text)
    if parsed is None:
        kind = os.path.splitext(text)[1][1:]
        raise SpecifierError(f"invalid rspecifier '{text}'", hint=(
            f"try '{kind}:{text}'" if kind in ("ark", "scp") and ":" not in text else
            "expected OPTIONS:FILE with exactly one of ark and scp among o,no,s,ns,cs,ncs,p,np,bg,b,t, no blanks, "
            "as in ark:feats.ark"))
    return parsed


def parse_wspecifier(text: str) -> Wspecifier:
    """Parse e.g. ``ark,t:-`` or ``ark,scp:a.ark,a.scp``; SpecifierError if it is not a valid wspecifier."""
    text = _as_text(text, "a wspecifier such as 'ark:out.ark'")
    parsed = _match_wspecifier(text)
    if parsed is None:
        raise SpecifierError(f"invalid wspecifier '{text}'", hint=(
            f"try 'ark:{text}'" if text.endswith(".ark") and ":" not in text else
            "expected OPTIONS:FILE with ark, scp or ark,scp (then ARCHIVE,SCRIPT) among b,t,f,nf,p, no blanks, "
            "as in ark,t:out.ark"))
    return parsed


def _as_text(text: str, expected: str) -> str:
    """Return a name, a str or path, as str. UsageError for other types, such as arguments in the wrong order."""
    if not isinstance(text, str | os.PathLike):
        raise UsageError(f"expected {expected}, found {type(text).__name__}")
    return os.fspath(text)


# -- files ---------------------------------------------------------------------------------------------------------


def _looks_like_table(text: str) -> bool:
    return text[0] in "as" and ":" in text and (is_wspecifier(text) or is_rspecifier(text))


def _table_name_error(what: str, text: str) -> SpecifierError:
    return SpecifierError(f"invalid {what} '{text}': a table specifier where a file name was expected",
                          hint=f"leave out the '{text.partition(':')[0]}:'")


def parse_rxfilename(text: str) -> FileName:
    """Parse the name of an input: ``-``, ``command |``, ``file:offset`` or a file; SpecifierError if invalid."""
    if text in ("", "-"):
        return FileName(Medium.STANDARD)
    if text[0] == "|":
        raise SpecifierError(f"invalid rxfilename '{text}'", hint="an input pipe ends with '|': command |")
    if text[-1] == "|":
        return FileName(Medium.PIPE, text[:-1])
    if text[0] in WHITESPACE or text[-1] in WHITESPACE:
        raise SpecifierError(f"invalid rxfilename '{text}': it begins or ends with a blank")
    if _looks_like_table(text):
        raise _table_name_error("rxfilename", text)
    offset = _OFFSET.fullmatch(text)
    if offset:
        return FileName(Medium.OFFSET, offset[1], int(offset[2]))
    if "|" in text:
        raise SpecifierError(f"invalid rxfilename '{text}': '|' inside", hint="an input pipe ends with '|': command |")
    return FileName(Medium.FILE, text)


def parse_wxfilename(text: str) -> FileName:
    """Parse the name of an output: ``-``, ``| command`` or a file; SpecifierError if invalid."""
    if text in ("", "-"):
        return FileName(Medium.STANDARD)
    if text[0] == "|":
        return FileName(Medium.PIPE, text[1:])
    if text[0] in WHITESPACE or text[-1] in WHITESPACE:
        raise SpecifierError(f"invalid wxfilename '{text}': it begins or ends with a blank")
    if text[-1] == "|":
        raise SpecifierError(f"invalid wxfilename '{text}'", hint="an output pipe begins with '|': | command")
    if _looks_like_table(text):
        raise _table_name_error("wxfilename", text)
    if _OFFSET.fullmatch(text):
        raise SpecifierError(f"invalid wxfilename '{text}': it ends with an offset",
                             hint="offsets are for reading only")
    if "|" in text:
        raise SpecifierError(f"invalid wxfilename '{text}': '|' inside",
                             hint="an output pipe begins with '|': | command")
    return FileName(Medium.FILE, text)


# -- keys, script lines and ranges -----------------------------------------------------------------------------------


def is_token(key: str) -> bool:
    """Return whether ``key`` is a valid key of a table: not empty, no white space, no control characters."""
    return _TOKEN.fullmatch(key) is not None


def parse_script_line(line: str) -> tuple[str, str] | None:
    """Return the key and the file name of an scp line, without blanks around them; None if either is missing."""
    fields = line.strip(WHITESPACE)
    match = re.search(f"[{WHITESPACE}]+", fields)
    if match is None:
        return None
    return fields[:match.start()], fields[match.end():]


def split_range(text: str) -> tuple[str, str | None]:
    """Split ``foo.ark:123[0:9]`` into ``("foo.ark:123", "0:9")``; without a range the second is None."""
    if not text.endswith("]"):
        return text, None
    pieces = text.split("[")
    if len(pieces) != 2 or not pieces[0] or len(pieces[1]) < 2:
        raise SpecifierError(f"cannot make out the range at the end of '{text}'", hint="expected FILE[FIRST:LAST]")
    return pieces[0], pieces[1][:-1]


def parse_range(text: str, num_axes: int) -> list[tuple[int, int] | None]:
    """Parse ``first:last`` or ``rows,columns`` to one (first, last) per axis, both included; None means everything.

    ``num_axes`` is the number of axes of the object: 2 for a matrix, 1 for a vector. The result has that length.
    """
    parts = text.split(",")
    if len(parts) > num_axes:
        raise SpecifierError(f"range '[{text}]' has {len(parts)} parts", hint=f"at most {num_axes} here")
    ranges: list[tuple[int, int] | None] = []
    for part in parts:
        numbers = _NUMBERS.fullmatch(part)
        if part == ":":
            ranges.append(None)
        elif numbers and int(numbers[1]) <= int(numbers[2]):
            ranges.append((int(numbers[1]), int(numbers[2])))
        else:
            raise SpecifierError(f"invalid range '[{text}]'", hint="each part is ':' or FIRST:LAST, counted from 0, "
                                 "both included")
    return ranges + [None] * (num_axes - len(ranges))
