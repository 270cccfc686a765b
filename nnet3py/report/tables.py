"""The report of a compilation as text: the passes, the listing, the matrices, memory, operations."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nnet3py.compiler.computation import COMMANDS, CommandPrinter, CommandType
from nnet3py.compiler.fuse import fusion_steps
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.errors import UsageError
from nnet3py.report.costs import Costs, shares
from nnet3py.report.lifetimes import lifetimes, peak_memory

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Command, Computation
    from nnet3py.compiler.optimize_options import OptimizeOptions
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.nnet import Nnet

UNOPTIMIZED = "unoptimized"     # the name of the computation before all passes

Step = tuple[str, "Computation"]


def compilation_steps(nnet: Nnet, request: ComputationRequest, options: OptimizeOptions) -> Iterator[Step]:
    """The unoptimized computation of the whole request, then what each pass makes of it, by the passes' option names.

    The last one is what runs.

    Raises
    ------
    NotComputableError : an output row cannot be computed from the inputs
    Nnet3Error : the network has no such inputs or outputs, or cannot be compiled
    """
    computation = generate_computation(nnet, request)
    yield UNOPTIMIZED, computation
    last_t = max(int(io.indexes[:, 1].max()) for io in request.outputs)
    for step in optimization_steps(computation, nnet, options.for_outputs_until(last_t)):
        yield step
        computation = step[1]
    yield from fusion_steps(computation, nnet, options)


def chosen_passes(text: str, steps: Sequence[Step]) -> list[str]:
    """The steps' names in ``text``, with commas; ``all`` stands for all. Raises UsageError for one that did not run."""
    names = list(dict.fromkeys(name for name, _ in steps))
    chosen = [word.strip() for word in text.split(",") if word.strip()]
    if chosen == ["all"]:
        return names
    for name in chosen:
        if name not in names:
            raise UsageError(f"--passes: no pass '{name}' ran", f"these did: {', '.join(names)}")
    return chosen


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns that line up, with two blanks between: numbers to the right, words to the left."""
    texts = [list(headings), *([str(value) for value in row] for row in rows)]
    is_number = [bool(rows) and all(isinstance(row[i], int | float) or _is_measure(str(row[i])) for row in rows)
                 for i in range(len(headings))]
    widths = [max(len(row[i]) for row in texts) for i in range(len(headings))]
    lines = ["  ".join(text.rjust(width) if right else text.ljust(width)
                       for text, width, right in zip(row, widths, is_number, strict=True)).rstrip()
             for row in texts]
    return "".join(f"{line}\n" for line in lines)


def _is_measure(text: str) -> bool:
    number, _, unit = text.partition(" ")
    return number.replace(".", "", 1).isdigit() and unit in _UNITS


_UNITS = ("", "k", "M", "G", "T", "bytes", "kB", "MB", "GB", "TB")


def bytes_text(count: int) -> str:
    """``768 bytes``, ``17.4 kB``, ``4.8 GB``; a kB has 1000 bytes."""
    return _scaled(count, ("bytes", "kB", "MB", "GB", "TB"))


def count_text(count: int) -> str:
    """``768``, ``17.4 k``, ``131.7 G``."""
    return _scaled(count, ("", "k", "M", "G", "T"))


def _scaled(count: int, units: Sequence[str]) -> str:
    value, place = float(count), 0
    while value >= 999.95 and place < len(units) - 1:
        value, place = value / 1000, place + 1
    return (f"{value:.1f} {units[place]}" if place else f"{count} {units[0]}").rstrip()


def passes_table(steps: Sequence[Step], nnet: Nnet) -> str:
    """A line for each step: how many commands and matrices there are after it, the peak memory, and the work."""
    rows = []
    for name, computation in steps:
        costs = Costs.of(computation, nnet)
        rows.append((name, len(computation.commands), len(computation.matrices) - 1, len(computation.submatrices) - 1,
                     bytes_text(peak_memory(computation)[0]), count_text(int(costs.operations.sum())),
                     count_text(int(costs.elements.sum()))))
    return table(("after", "commands", "matrices", "submatrices", "peak", "operations", "elements"), rows)


def kinds_table(steps: Sequence[Step]) -> str:
    """How many commands of each kind there are before and after optimization."""
    counts = [Counter(_kind(computation, command) for command in computation.commands)
              for _, computation in (steps[0], steps[-1])]
    rows = [(name, counts[0][kind, name], counts[1][kind, name]) for kind, name in sorted(counts[0] | counts[1])]
    rows.append(("all", len(steps[0][1].commands), len(steps[-1][1].commands)))
    return table(("command", "unoptimized", "optimized"), rows)


def _kind(computation: Computation, command: Command) -> tuple[CommandType, str]:
    """A command's type, and its name; that of the pass for a fused one."""
    is_fused = command.type == CommandType.FUSED
    return command.type, computation.parts[command.args[0]].fusion if is_fused else COMMANDS[command.type].name


def matrices_table(computation: Computation, nnet: Nnet) -> str:
    """Every matrix, by the command at which its life begins: its size, its life, its contents."""
    rows = [(f"m{life.matrix}", f"{life.num_rows} x {life.num_cols}", bytes_text(life.num_bytes),
             f"c{life.begin}", f"c{life.end}" if life.end < len(computation.commands) else "end", life.kind,
             life.contents.partition(" of ")[2] if life.kind in ("value", "derivative") else life.contents)
            for life in lifetimes(computation, nnet)]
    return table(("matrix", "size", "memory", "from", "to", "kind", "holds"), rows)


def shares_table(computation: Computation, nnet: Nnet) -> str:
    """Operations by component and by kind of row operation; components without commands are left out."""
    share_rows = shares(computation, nnet)
    rows = [(share.name, share.kind, share.commands, count_text(share.operations), count_text(share.elements))
            for share in share_rows]
    rows.append(("all", "", sum(share.commands for share in share_rows),
                 count_text(sum(share.operations for share in share_rows)),
                 count_text(sum(share.elements for share in share_rows))))
    return table(("name", "type", "commands", "operations", "elements"), rows)


def listings(steps: Sequence[Step], nnet: Nnet, chosen: Sequence[str]) -> str:
    """The listings after the steps of the names ``chosen``, each under a heading; a pass may run several times."""
    texts = []
    for number, (name, computation) in enumerate(steps):
        if name in chosen:
            before = steps[number - 1][1] if number else None
            note = " (it changed nothing)" if computation is before else ""
            texts.append(f"# Listing: {name}{note}\n{'' if note else computation.describe(nnet)}\n")
    return "".join(texts)


def changes(before: Computation, after: Computation, nnet: Nnet) -> str:
    """The commands that ``after`` has lost (``-``) and gained (``+``), without their numbers, a blank line per gap."""
    from difflib import SequenceMatcher  # slow to load

    old, new = ([CommandPrinter(computation, nnet).line(c).partition(": ")[2].rstrip("\n")
                 for c in range(len(computation.commands))] for computation in (before, after))
    lines: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lines += [""] if lines else []
            lines += [f"- {text}" for text in old[i:j]] + [f"+ {text}" for text in new[k:m]]
    return "".join(f"{line}\n" for line in lines) or "(nothing to do)\n"


def report(nnet: Nnet, request: ComputationRequest, steps: Sequence[Step], chosen: Sequence[str] = (),
           summary: bool = False) -> str:
    """The whole report: request, passes, listings (of the steps ``chosen``, then the last), matrices, peak, costs.

    With ``summary`` the last listing and the matrices are left out.
    """
    final = steps[-1][1]
    peak, command = peak_memory(final)
    exactly = "" if peak < 1000 else f" ({peak} bytes)"
    parts = [request.describe().replace(" # Computation request:", "# Computation request"), "\n",
             "# Passes\n", passes_table(steps, nnet), "\n",
             "# Commands by kind\n", kinds_table(steps), "\n",
             listings(steps, nnet, [name for name in chosen if summary or name != steps[-1][0]])]
    if not summary:
        parts += ["# Listing: optimized\n", final.describe(nnet), "\n",
                  "# Matrices\n", matrices_table(final, nnet), "\n"]
    parts += [f"# Peak memory: {bytes_text(peak)}{exactly} when c{command} has run\n\n",
              "# Operations: 2mnk for each matrix product, natural gradient not counted; elements written\n",
              shares_table(final, nnet)]
    return "".join(parts)
