"""Shared by the commands on FSTs: reading and writing FSTs in files or standard streams, files of integers, options."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nnet3py.cli.process.options import option
from nnet3py.errors import FormatError

if TYPE_CHECKING:
    from nnet3py.transducers.fst import Fst


NONTERMINALS = option("nonterm-phones-offset", int, -1, "Number of #nonterm_bos in phones.txt, for the graphs of "
                      "grammars that are composed while decoding (-1: none)")
# Costs are rounded to multiples of this.
DELTA = option("delta", float, 1.0 / 1024.0, "Costs that differ by at most this are equal", above=0)
CONNECT = option("connect", bool, True, "Remove states and arcs that are on no path from the start to a final state")


def names_of_files(args: Sequence[str], first: int = 0) -> tuple[str, str]:
    """Return the names of input and output, from ``args[first]`` on; "-" (standard streams) where they are missing."""
    given = [*args[first:], "", ""]
    return given[0] or "-", given[1] or "-"


def read_graph(name: str) -> Fst:
    """Read an FST from a file; raise FormatError for costs that are NaN or minus infinity."""
    from nnet3py.transducers.fst import NO_WEIGHT
    from nnet3py.transducers.fst_text import read_fst_file

    fst = read_fst_file(name)
    for costs in (fst.weights, fst.final_weights):
        wrong = ~(costs > -NO_WEIGHT)               # also true for NaN
        if wrong.any():
            cost = costs.reshape(-1)[int(wrong.reshape(-1).argmax())]
            raise FormatError(f"the FST has the cost {cost}, expected numbers or Infinity", path=name)
    return fst


def write_graph(name: str, fst: Fst, kind: str = "vector") -> None:
    """Write an FST to a file in OpenFst's binary format; ``kind``: "vector" or "const"."""
    from nnet3py.io.streams import open_output
    from nnet3py.io.tokens import TokenWriter
    from nnet3py.transducers.fst_binary import write_binary_fst

    with open_output(name or "-") as stream:
        write_binary_fst(TokenWriter(stream, binary=True), fst, kind)


def change_graph(args: Sequence[str], change: Callable[[Fst], Fst], first: int = 0) -> int:
    """Read an FST, write ``change(fst)`` with the FST's symbol tables, and return 0."""
    from nnet3py.fst.text import symbols_of, with_symbols

    source, target = names_of_files(args, first)
    fst = read_graph(source)
    changed, tables = change(fst), symbols_of(fst)
    write_graph(target, changed if tables == (None, None) else with_symbols(changed, *tables))
    return 0


def read_numbers(name: str) -> list[int]:
    """Read the integers of a text file, such as ``disambig.int``; raise FormatError for other contents."""
    import re

    from nnet3py.io.streams import complete_input

    with complete_input(name) as stream:
        words = stream.read().split()
    for word in words:
        if not re.fullmatch(rb"-?[0-9]{1,10}", word) or abs(int(word)) > 0x7FFFFFFF:
            raise FormatError(f"expected integers, found {word[:40]!r}", path=name)
    return [int(word) for word in words]


def write_numbers(name: str, numbers: Iterable[int]) -> None:
    """Write integers to a text file, one on each line."""
    from nnet3py.io.streams import write_text

    write_text(name, "".join(f"{number}\n" for number in numbers))
