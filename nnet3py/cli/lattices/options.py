"""What the lattice tools share: options, reading and writing tables of lattices, exit codes."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.options import Options, option

if TYPE_CHECKING:
    from nnet3py.lattices.scaling import Scales

ACOUSTIC_SCALE = option("acoustic-scale", float, 1.0, "Factor of the acoustic costs")
INV_ACOUSTIC_SCALE = option("inv-acoustic-scale", float, 1.0, "One over --acoustic-scale, instead of that")
LM_SCALE = option("lm-scale", float, 1.0, "Factor of the graph costs")
WRITE_COMPACT = option("write-compact", bool, True, "Write compact lattices; false: a transition-id on each arc")
REORDER = option("reorder", bool, True, "Self-loops come after the transitions that leave their states, as usual")


def scales_of(options: Options) -> Scales:
    """The scales that --acoustic-scale or --inv-acoustic-scale and --lm-scale ask for, if a command has them."""
    from nnet3py.lattices.scaling import Scales, inverse_scale

    graph, acoustic, inverse = (options[name] if name in options else 1.0
                                for name in ("lm-scale", "acoustic-scale", "inv-acoustic-scale"))
    return Scales(graph, inverse_scale(acoustic, inverse))


def change_lattices(args: list[str], change: Callable[[str, Any], Any], compact: bool = True,
                    compact_output: bool | None = None) -> tuple[int, int]:
    """Write what ``change(key, lattice)`` makes of the lattices of a table; None is counted as failed.

    ``compact`` says what the lattices are read as, and written, unless ``compact_output`` says otherwise. Returns how
    many were written, and failed.
    """
    from nnet3py.cli.process.copying import convert_table
    from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES

    source: Any = COMPACT_LATTICES if compact else LATTICES
    target: Any = source if compact_output is None else COMPACT_LATTICES if compact_output else LATTICES
    return convert_table(args[0], args[1], source, target, change)


def status(done: int) -> int:
    """The exit status of a tool that has done that many lattices."""
    return 0 if done else 1


def log_done(done: int) -> int:
    """Log how many lattices were done; returns the exit status."""
    log.log(f"Done {done} lattices.")
    return status(done)


def per(total: float, count: float) -> float:
    """``total`` over ``count``, as C computes it: nan or infinity for none."""
    if count:
        return total / count
    return float("nan") if total == 0 else float("inf")
