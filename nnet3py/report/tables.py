"""Report of a compilation as text: costs of commands, lifetimes and memory of matrices, passes, listing."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.compiler.computation import BACKPROPS, COMMANDS, WITHOUT_CALL, CommandPrinter, CommandType, Role
from nnet3py.compiler.fuse import fusion_steps
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.components.base import Component, Properties
from nnet3py.errors import UsageError
from nnet3py.index import distinct, format_indexes

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Command, Computation
    from nnet3py.compiler.optimize_options import OptimizeOptions
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.nnet import Nnet

_WITHOUT_WORK = WITHOUT_CALL | {CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT}
_WRITTEN = (Role.WRITE, Role.READ_WRITE, Role.PROPAGATED, Role.BACKPROPAGATED)


def _attention(component: Any) -> int:
    shape = component.shape
    return shape.num_heads * shape.positions * (shape.key_dim + shape.value_dim)


# The multiplications of the forward product, for a row of the output; types that are not here have no products.
_PER_ROW: dict[str, Callable[[Any], int]] = {
    **dict.fromkeys(("AffineComponent", "NaturalGradientAffineComponent", "FixedAffineComponent", "TdnnComponent",
                     "BlockAffineComponent"), lambda c: c.linear_params.size),
    "LinearComponent": lambda c: c.params.size,
    **dict.fromkeys(("RepeatedAffineComponent", "NaturalGradientRepeatedAffineComponent"),
                    lambda c: c.num_repeats * c.linear_params.size),
    "TimeHeightConvolutionComponent": lambda c: c.model.height_out * c.linear_params.size,
    "ConvolutionComponent": lambda c: c.output_dim * c.filter_params.shape[1],
    "GruNonlinearityComponent": lambda c: c.w_h.size,
    "RestrictedAttentionComponent": _attention,
    "CompositeComponent": lambda c: sum(multiplications_per_row(child) for child in c.children),
}


def multiplications_per_row(component: Component) -> int:
    """Return the number of multiplications in matrix products of ``propagate``, per output row, padding included."""
    count = _PER_ROW.get(type(component).__name__)
    return int(count(component)) if count else 0


@dataclass(frozen=True)
class Costs:
    """Costs of the commands of a computation."""

    # int64 (commands,), operations of matrix products: 2mnk for m × k times k × n elements. Natural gradient is not
    # counted
    operations: np.ndarray
    # int64 (commands,), matrix elements written; those that several parts of a fused command write count once
    elements: np.ndarray

    @classmethod
    def of(cls, computation: Computation, nnet: Nnet) -> Costs:
        """Count the costs of a computation without running it."""
        per_row = [multiplications_per_row(component) for component in nnet.components]
        parts = [computation.parts_of(command) for command in computation.commands]
        operations = [sum(_operations(computation, nnet, part, per_row) for part in each) for each in parts]
        elements = [_elements(computation, each) for each in parts]
        return cls(np.array(operations, np.int64), np.array(elements, np.int64))


def _operations(computation: Computation, nnet: Nnet, command: Command, per_row: list[int]) -> int:
    if command.type == CommandType.PROPAGATE:
        return 2 * computation.submatrices[command.args[3]].num_rows * per_row[command.args[0]]
    if command.type not in BACKPROPS:
        return 0
    component = nnet.components[command.args[0]]
    updates = (command.type == CommandType.BACKPROP and computation.need_model_derivative
               and component.has(Properties.UPDATABLE))
    products = int(command.args[5] > 0) + int(updates)     # the derivative of the input, that of the parameters
    return 2 * computation.submatrices[command.args[4]].num_rows * per_row[command.args[0]] * products


def _elements(computation: Computation, parts: Sequence[Command]) -> int:
    written, total = set(), 0
    for part in parts:
        if part.type in _WITHOUT_WORK:
            continue
        for role, argument in zip(COMMANDS[part.type].roles, part.args, strict=False):
            if role in _WRITTEN and argument > 0:
                written.add(computation.submatrices[argument])
            elif role == Role.CHANGED_PAIRS:
                real = int((computation.indexes_multi[argument][:, 0] >= 0).sum())
                total += real * computation.submatrices[part.args[0]].num_cols
    return total + sum(sub.num_rows * sub.num_cols for sub in written)


@dataclass(frozen=True)
class Share:
    """Costs of one component, or of one kind of row operation, in a computation."""

    # name and type of the component; or name of the command, and ``row operation``
    name: str
    kind: str
    commands: int    # number of commands
    # sums over these commands, see :class:`Costs`
    operations: int
    elements: int


def shares(computation: Computation, nnet: Nnet) -> list[Share]:
    """Return the costs by component (in order of the network), then by kind of row operation.

    The parts of fused commands are counted one by one, since they belong to several components.
    """
    computation = computation.unfused()
    costs = Costs.of(computation, nnet)
    groups: dict[tuple[int, str, str], list[int]] = {}
    for c, command in enumerate(computation.commands):
        if command.type == CommandType.PROPAGATE or command.type in BACKPROPS:
            component = nnet.components[command.args[0]]
            key = command.args[0], nnet.component_names[command.args[0]], type(component).__name__
        elif costs.elements[c] or command.type == CommandType.SET_CONST:
            key = len(nnet.components) + int(command.type), COMMANDS[command.type].name, "row operation"
        else:
            continue
        groups.setdefault(key, []).append(c)
    return [Share(name, kind, len(rows), int(costs.operations[rows].sum()), int(costs.elements[rows].sum()))
            for (_, name, kind), rows in sorted(groups.items())]


BYTES = 4      # of a float32
_NAMES = 3     # nodes of a matrix that are named


@dataclass(frozen=True)
class Lifetime:
    """Lifetime of a matrix in a computation."""

    matrix: int      # index of the matrix
    num_rows: int
    num_cols: int
    begin: int       # command that allocates it, or accepts it as input
    end: int         # command that frees it; the number of commands if none does
    kind: str        # ``input``, ``output``, ``value`` or ``derivative``
    nodes: str       # names of the nodes whose rows it has
    contents: str    # text with these nodes and the indexes of the rows

    @property
    def num_bytes(self) -> int:
        """Bytes of the matrix: 4 · rows · columns."""
        return BYTES * self.num_rows * self.num_cols


def _spans(computation: Computation) -> tuple[dict[int, int], dict[int, int]]:
    """Return the command that allocates each matrix, or accepts it as input, and the one that frees it, if any."""
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for c, command in enumerate(computation.commands):
        first = computation.submatrices[command.args[0]].matrix if command.args[0] > 0 else 0
        if command.type in (CommandType.ALLOC_MATRIX, CommandType.ACCEPT_INPUT, CommandType.SWAP_MATRIX):
            begin.setdefault(first, c)
        if command.type == CommandType.DEALLOC_MATRIX:
            end[first] = c
        elif command.type == CommandType.SWAP_MATRIX:       # the first takes the memory of the second
            end[computation.submatrices[command.args[1]].matrix] = c
    return begin, end


def lifetimes(computation: Computation, nnet: Nnet) -> list[Lifetime]:
    """Return the lifetimes of all matrices, ordered by their first command."""
    begin, end = _spans(computation)
    kinds = {CommandType.PROVIDE_OUTPUT: "output", CommandType.ACCEPT_INPUT: "input"}
    exchanged = {computation.submatrices[command.args[0]].matrix: name for kind, name in kinds.items()
                 for command in computation.commands if command.type == kind}       # one that is both is an input
    return [_lifetime(computation, nnet, m, begin[m], end.get(m, len(computation.commands)), exchanged.get(m))
            for m in sorted(begin, key=lambda m: (begin[m], m))]


def _lifetime(computation: Computation, nnet: Nnet, m: int, begin: int, end: int, exchanged: str | None) -> Lifetime:
    info = computation.matrices[m]
    nodes, contents, kind = "", "", "value"
    if m < len(computation.debug_info):
        rows = computation.debug_info[m]
        kind = "derivative" if rows.is_deriv else "value"
        named = [nnet.node_names[node] for node in distinct(rows.nodes).tolist()]
        nodes = ", ".join(named[:_NAMES]) + (", …" if len(named) > _NAMES else "")
        contents = f"{'derivative' if rows.is_deriv else 'value'} of {nodes} {format_indexes(rows.indexes)}"
    return Lifetime(m, info.num_rows, info.num_cols, begin, end, exchanged or kind, nodes, contents)


def memory_in_use(computation: Computation) -> np.ndarray:
    """Return the bytes of all matrices that exist after each command: int64 (commands,)."""
    begin, end = _spans(computation)
    change = np.zeros(len(computation.commands) + 1, np.int64)
    for m, c in begin.items():
        size = BYTES * computation.matrices[m].num_rows * computation.matrices[m].num_cols
        change[c] += size
        change[end.get(m, -1)] -= size
    return np.cumsum(change[:-1])


def peak_memory(computation: Computation) -> tuple[int, int]:
    """Return the largest number of bytes in use, and the first command at which so many are."""
    used = memory_in_use(computation)
    if not len(used):
        return 0, 0
    return int(used.max()), int(used.argmax())


UNOPTIMIZED = "unoptimized"     # the name of the computation before all passes

Step = tuple[str, "Computation"]


def compilation_steps(nnet: Nnet, request: ComputationRequest, options: OptimizeOptions) -> Iterator[Step]:
    """Yield the unoptimized computation, then the result of each optimization pass, as pairs (name, computation).

    The name of a pass is that of its option; the last computation is the one that runs. Raises NotComputableError if an
    output row cannot be computed from the inputs, and Nnet3Error if the network has no such inputs or outputs, or
    cannot be compiled.
    """
    computation = generate_computation(nnet, request)
    yield UNOPTIMIZED, computation
    last_t = max(int(io.indexes[:, 1].max()) for io in request.outputs)
    for step in optimization_steps(computation, nnet, options.for_outputs_until(last_t)):
        yield step
        computation = step[1]
    yield from fusion_steps(computation, nnet, options)


def chosen_passes(text: str, steps: Sequence[Step]) -> list[str]:
    """Parse a comma-separated list of names of steps, or ``all``. Raises UsageError for a step that did not run."""
    names = list(dict.fromkeys(name for name, _ in steps))
    chosen = [word.strip() for word in text.split(",") if word.strip()]
    if chosen == ["all"]:
        return names
    for name in chosen:
        if name not in names:
            raise UsageError(f"--passes: no pass '{name}' ran", f"these did: {', '.join(names)}")
    return chosen


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Align columns of texts, two blanks apart: numbers to the right, words to the left."""
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
    """Return bytes as text: ``768 bytes``, ``17.4 kB``, ``4.8 GB``; a kB has 1000 bytes."""
    return _scaled(count, ("bytes", "kB", "MB", "GB", "TB"))


def count_text(count: int) -> str:
    """Return a number as text: ``768``, ``17.4 k``, ``131.7 G``."""
    return _scaled(count, ("", "k", "M", "G", "T"))


def _scaled(count: int, units: Sequence[str]) -> str:
    value, place = float(count), 0
    while value >= 999.95 and place < len(units) - 1:
        value, place = value / 1000, place + 1
    return (f"{value:.1f} {units[place]}" if place else f"{count} {units[0]}").rstrip()


def passes_table(steps: Sequence[Step], nnet: Nnet) -> str:
    """Return a table of the steps: commands, matrices, peak memory and operations after each."""
    rows = []
    for name, computation in steps:
        costs = Costs.of(computation, nnet)
        rows.append((name, len(computation.commands), len(computation.matrices) - 1, len(computation.submatrices) - 1,
                     bytes_text(peak_memory(computation)[0]), count_text(int(costs.operations.sum())),
                     count_text(int(costs.elements.sum()))))
    return table(("after", "commands", "matrices", "submatrices", "peak", "operations", "elements"), rows)


def kinds_table(steps: Sequence[Step]) -> str:
    """Return a table of the number of commands of each kind before and after optimization."""
    counts = [Counter(_kind(computation, command) for command in computation.commands)
              for _, computation in (steps[0], steps[-1])]
    rows = [(name, counts[0][kind, name], counts[1][kind, name]) for kind, name in sorted(counts[0] | counts[1])]
    rows.append(("all", len(steps[0][1].commands), len(steps[-1][1].commands)))
    return table(("command", "unoptimized", "optimized"), rows)


def _kind(computation: Computation, command: Command) -> tuple[CommandType, str]:
    """Return type and name of a command; for a fused one the name of the fusion."""
    is_fused = command.type == CommandType.FUSED
    return command.type, computation.parts[command.args[0]].fusion if is_fused else COMMANDS[command.type].name


def matrices_table(computation: Computation, nnet: Nnet) -> str:
    """Return a table of all matrices in order of their first commands: size, lifetime, contents."""
    rows = [(f"m{life.matrix}", f"{life.num_rows} x {life.num_cols}", bytes_text(life.num_bytes),
             f"c{life.begin}", f"c{life.end}" if life.end < len(computation.commands) else "end", life.kind,
             life.contents.partition(" of ")[2] if life.kind in ("value", "derivative") else life.contents)
            for life in lifetimes(computation, nnet)]
    return table(("matrix", "size", "memory", "from", "to", "kind", "holds"), rows)


def shares_table(computation: Computation, nnet: Nnet) -> str:
    """Return a table of operations by component and by kind of row operation."""
    share_rows = shares(computation, nnet)
    rows = [(share.name, share.kind, share.commands, count_text(share.operations), count_text(share.elements))
            for share in share_rows]
    rows.append(("all", "", sum(share.commands for share in share_rows),
                 count_text(sum(share.operations for share in share_rows)),
                 count_text(sum(share.elements for share in share_rows))))
    return table(("name", "type", "commands", "operations", "elements"), rows)


def listings(steps: Sequence[Step], nnet: Nnet, chosen: Sequence[str]) -> str:
    """Return the computation after each of the ``chosen`` steps as text under a heading; passes may run repeatedly."""
    texts = []
    for number, (name, computation) in enumerate(steps):
        if name in chosen:
            before = steps[number - 1][1] if number else None
            note = " (it changed nothing)" if computation is before else ""
            texts.append(f"# Listing: {name}{note}\n{'' if note else computation.describe(nnet)}\n")
    return "".join(texts)


def changes(before: Computation, after: Computation, nnet: Nnet) -> str:
    """Return the commands only in ``before`` (``- COMMAND``) and only in ``after`` (``+ COMMAND``).

    Groups of changes are separated by a blank line.
    """
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
    """Return the whole report: request, passes, listings (``chosen`` steps, then the last), matrices, costs.

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
