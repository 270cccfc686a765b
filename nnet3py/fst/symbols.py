"""OpenFst's tables of symbols: as text files, and inside binary FSTs.

Symbols are bytes here; no encoding is assumed.
"""
from __future__ import annotations

import dataclasses
import os
import re
import struct

from nnet3py.errors import FormatError
from nnet3py.io.streams import failed_command, open_input
from nnet3py.transducers.fst import Fst, Stored

INPUT, OUTPUT = 1, 2                       # bits of a file's flags: which tables it has
_MAGIC = struct.pack("<i", 2125658996)
_KEY = re.compile(rb"-?[0-9]{1,18}")
_SHOWN = 60                                # characters of a line in a message

Symbols = dict[bytes, int]


def read_symbols(rxfilename: str | os.PathLike[str]) -> Symbols:
    """Read lines ``SYMBOL NUMBER``. FormatError for any other line, or a symbol with two numbers."""
    with open_input(rxfilename) as stream:
        data = stream.without_mark().read()
    if stream.status:
        raise failed_command(stream.path, stream.status)
    symbols: Symbols = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or not _KEY.fullmatch(fields[1]):
            shown = line.decode("utf-8", "backslashreplace")[:_SHOWN]
            raise FormatError(f"line {number} of a symbol table is not SYMBOL NUMBER: {shown!r}", path=str(rxfilename))
        symbol, key = fields[0], int(fields[1])
        if symbols.setdefault(symbol, key) != key:
            raise FormatError(f"the symbol '{symbol.decode('utf-8', 'backslashreplace')}' has two numbers in a symbol "
                              f"table, {symbols[symbol]} and {key}", path=str(rxfilename))
    return symbols


def symbols_text(symbols: Symbols) -> bytes:
    """Lines ``SYMBOL<tab>NUMBER``."""
    return b"".join(b"%b\t%d\n" % pair for pair in symbols.items())


def names_of(symbols: Symbols) -> dict[int, bytes]:
    """The symbol of each number; the first of several."""
    names: dict[int, bytes] = {}
    for symbol, key in symbols.items():
        names.setdefault(key, symbol)
    return names


def with_symbols(fst: Fst, inputs: Symbols | None, outputs: Symbols | None, name: str = "") -> Fst:
    """The FST with symbol tables to be written into its file; None: without."""
    flags = (INPUT if inputs is not None else 0) | (OUTPUT if outputs is not None else 0)
    if not flags:
        return dataclasses.replace(fst, stored=None)
    from nnet3py.transducers.fst_operations import MUTABLE, known_properties

    tables = b"".join(_table_bytes(table, name) for table in (inputs, outputs) if table is not None)
    return dataclasses.replace(fst, stored=Stored("vector", known_properties(fst) | MUTABLE, 0, flags, tables))


def _table_bytes(symbols: Symbols, name: str) -> bytes:
    encoded = name.encode("utf-8", "surrogateescape")
    available = max(symbols.values(), default=-1) + 1
    parts = [_MAGIC, struct.pack("<i", len(encoded)), encoded, struct.pack("<qq", available, len(symbols))]
    for symbol, key in symbols.items():
        parts += [struct.pack("<i", len(symbol)), symbol, struct.pack("<q", key)]
    return b"".join(parts)


def symbols_of(fst: Fst) -> tuple[Symbols | None, Symbols | None]:
    """The input and output symbol tables of the file that an FST was read from; None: it has none."""
    if fst.stored is None or not fst.stored.flags:
        return None, None
    at, data, flags = 0, fst.stored.symbols, fst.stored.flags
    tables: list[Symbols | None] = []
    for bit in (INPUT, OUTPUT):
        table = None
        if flags & bit:
            table, at = _table_at(data, at)
        tables.append(table)
    return tables[0], tables[1]


def _table_at(data: bytes, at: int) -> tuple[Symbols, int]:
    """The table at a place in bytes known to be tables; and the place after it."""
    at += len(_MAGIC)
    at += 4 + struct.unpack_from("<i", data, at)[0]
    (size,) = struct.unpack_from("<q", data, at + 8)
    at += 16
    symbols: Symbols = {}
    for _ in range(size):
        (length,) = struct.unpack_from("<i", data, at)
        symbol = bytes(data[at + 4:at + 4 + length])
        (symbols[symbol],) = struct.unpack_from("<q", data, at + 4 + length)
        at += 12 + length
    return symbols, at
