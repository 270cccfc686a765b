"""Shared by the lattice programs: options, reading and writing tables of lattices, log lines, exit statuses."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.copying import Counts, convert_table
from nnet3py.cli.process.options import Options, fields_from, option

if TYPE_CHECKING:
    from nnet3py.cli.process.copying import Inputs
    from nnet3py.lattices.determinize_options import PrunedCompositionOptions
    from nnet3py.lattices.scaling import Scales
    from nnet3py.transducers.compact_lattice import CompactLattice

ACOUSTIC_SCALE = option("acoustic-scale", float, 1.0, "Factor of the acoustic costs")
INV_ACOUSTIC_SCALE = option("inv-acoustic-scale", float, 1.0, "Inverse of --acoustic-scale; give only one of them")
LM_SCALE = option("lm-scale", float, 1.0, "Factor of the graph costs")
WRITE_COMPACT = option("write-compact", bool, True, "Write compact lattices; false: lattices with a transition-id on "
                       "each arc")
REORDER = option("reorder", bool, True, "HCLG was made with --reorder=true (Kaldi's default): self-loops come after "
                 "the transitions that leave their states")
WORD_SYMBOL_TABLE = option("word-symbol-table", str, "", "words.txt, to print words on standard error")


def scales_of(options: Options) -> Scales:
    """Return the scales of --acoustic-scale, --inv-acoustic-scale and --lm-scale; 1 if a command lacks the option."""
    from nnet3py.lattices.scaling import Scales, inverse_scale

    graph, acoustic, inverse = (options[name] if name in options else 1.0
                                for name in ("lm-scale", "acoustic-scale", "inv-acoustic-scale"))
    return Scales(graph, inverse_scale(acoustic, inverse))


def change_lattices(args: list[str], change: Callable[[str, Any], Any], compact: bool = True,
                    compact_output: bool | None = None, inputs: Inputs = None) -> Counts:
    """Write ``change(key, lattice)`` for every lattice of a table; a result of None counts as an error.

    Parameters
    ----------
    args : rspecifier and wspecifier
    change : function of key and lattice that returns a lattice or None
    compact : whether lattices are read as compact ones
    compact_output : whether they are written as compact ones; None: as they are read
    inputs : as for convert_table
    """
    from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES

    source: Any = COMPACT_LATTICES if compact else LATTICES
    target: Any = source if compact_output is None else COMPACT_LATTICES if compact_output else LATTICES
    return convert_table(args[0], args[1], source, target, change, inputs=inputs)


def not_empty(lattice: CompactLattice, warning: str) -> CompactLattice | None:
    """Return the lattice; None, having logged the warning, if it is empty."""
    if lattice.start >= 0:
        return lattice
    log.warning(warning)
    return None


def rescore_lattices(args: list[str], rescore: Callable[[CompactLattice], CompactLattice],
                     message: str = "Done {done} lattices, failed for {errors}") -> int:
    """Write ``rescore(lattice)`` for every lattice; empty results are left out. Return the exit status."""
    return change_lattices(args, lambda key, lattice: not_empty(
        rescore(lattice), f"Empty lattice for utterance {key} (incompatible LM?)")).report(message)


def rescore_within_beam(args: list[str], rescore: Callable[[CompactLattice, PrunedCompositionOptions], CompactLattice],
                        options: Options) -> int:
    """Write ``rescore(lattice, limits)`` for every lattice; return the exit status.

    ``limits`` are the options of pruned composition. Acoustic costs are scaled for it, and unscaled in the result.
    """
    from nnet3py.lattices.determinize_options import PrunedCompositionOptions
    from nnet3py.lattices.scaling import Scales, scaled

    scales = Scales(1.0, options.acoustic_scale)
    undone = scales.undone()
    limits = fields_from(options, PrunedCompositionOptions())
    return rescore_lattices(args, lambda lattice: scaled(rescore(scaled(lattice, scales), limits), undone),
                            "Overall, succeeded for {done} lattices, failed for {errors}")


DONE = "Done {done} lattices."


def per(total: float, count: float) -> float:
    """Return ``total / count`` as C computes it: nan or infinity where the count is 0."""
    if count:
        return total / count
    return float("nan") if total == 0 else float("inf")
