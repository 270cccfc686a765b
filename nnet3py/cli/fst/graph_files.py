"""What the commands on graphs share: inputs and outputs that may be left out, and lists of numbers in files."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.errors import FormatError, Nnet3Error

if TYPE_CHECKING:
    from nnet3py.transducers.fst import Fst


def names_of_files(args: Sequence[str], first: int = 0) -> tuple[str, str]:
    """The input and the output file among ``args`` from ``first`` on: standard input and output if they are missing."""
    given = [*args[first:], "", ""]
    return given[0] or "-", given[1] or "-"


def read_graph(name: str) -> Fst:
    """Read a graph from a file; FormatError for costs that are not numbers, or minus infinity."""
    from nnet3py.transducers.fst import NO_WEIGHT
    from nnet3py.transducers.fst_text import read_fst_file

    fst = read_fst_file(name)
    for costs in (fst.weights, fst.final_weights):
        wrong = ~(costs > -NO_WEIGHT)               # NaN is wrong, too
        if wrong.any():
            raise FormatError(f"expected a graph, found the cost {costs.reshape(-1)[int(wrong.reshape(-1).argmax())]}",
                              path=name)
    return fst


def write_graph(name: str, fst: Fst, kind: str = "vector") -> None:
    """Write a graph to a file, in OpenFst's binary form."""
    from nnet3py.io.streams import open_output
    from nnet3py.io.tokens import TokenWriter
    from nnet3py.transducers.fst_binary import write_binary_fst

    with open_output(name or "-") as stream:
        write_binary_fst(TokenWriter(stream, binary=True), fst, kind)


def change_graph(args: Sequence[str], change: Callable[[Fst], Fst], first: int = 0) -> int:
    """Read a graph, write what ``change`` makes of it, with the graph's symbol tables; returns the exit status."""
    from nnet3py.fst.text import symbols_of, with_symbols

    source, target = names_of_files(args, first)
    fst = read_graph(source)
    changed, tables = change(fst), symbols_of(fst)
    write_graph(target, changed if tables == (None, None) else with_symbols(changed, *tables))
    return 0


def read_numbers(name: str) -> list[int]:
    """The integers of a text file, such as ``disambig.int``; FormatError for anything else."""
    import re

    from nnet3py.io.streams import failed_command, open_input

    with open_input(name) as stream:
        words = stream.read().split()
    if stream.status:
        raise failed_command(stream.path, stream.status)
    for word in words:
        if not re.fullmatch(rb"-?[0-9]{1,10}", word) or abs(int(word)) > 0x7FFFFFFF:
            raise FormatError(f"expected integers, found {word[:40]!r}", path=name)
    return [int(word) for word in words]


def each_of_table(pairs: Any, write: Callable[[str, Any], None], make: Callable[..., Any]) -> tuple[int, int]:
    """Write what ``make(value)`` gives for each entry; a failure is a warning. Returns the numbers of both."""
    done = failed = 0
    for key, value in pairs:
        try:
            value_out = make(value)
        except Nnet3Error as error:
            log.warning(f"key {key}: {error}")
            failed += 1
            continue
        write(key, value_out)
        done += 1
    return done, failed
