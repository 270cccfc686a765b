"""What the commands that rescore lattices share: options, writing what is left, what is logged."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from nnet3py import log
from nnet3py.cli.lattices.options import change_lattices, status
from nnet3py.cli.process.options import Options, option

if TYPE_CHECKING:
    from nnet3py.lattices.pruned_composition import PrunedCompositionOptions
    from nnet3py.transducers.compact_lattice import CompactLattice

PRUNING = (
    option("lattice-compose-beam", float, 6.0, "How much worse than the best one a path may be"),
    option("max-arcs", int, 100000, "The largest number of arcs in a result"),
    option("growth-ratio", float, 1.5, "Costs are computed again when there are that many times as many arcs"),
)
Rescore: TypeAlias = "Callable[[CompactLattice], CompactLattice]"


def rescore_lattices(args: list[str], rescore: Rescore, log_line: str = "Done {} lattices, failed for {}") -> int:
    """Write what is left of lattices; empty ones are counted as failed. Returns the exit status."""
    def not_empty(key: str, lattice: CompactLattice) -> CompactLattice | None:
        result = rescore(lattice)
        if result.start < 0:
            log.warning(f"Empty lattice for utterance {key} (incompatible LM?)")
            return None
        return result

    done, failed = change_lattices(args, not_empty)
    log.log(log_line.format(done, failed))
    return status(done)


def rescore_within_beam(args: list[str], rescore: Callable[[CompactLattice, PrunedCompositionOptions], CompactLattice],
                        options: Options) -> int:
    """The same for what compares paths with a beam, with scaled acoustic costs."""
    from nnet3py.lattices.pruned_composition import PrunedCompositionOptions
    from nnet3py.lattices.scaling import Scales, scaled

    scales = Scales(1.0, options.acoustic_scale)
    undone = scales.undone()
    how = PrunedCompositionOptions(options.lattice_compose_beam, options.max_arcs, options.growth_ratio)
    return rescore_lattices(args, lambda lattice: scaled(rescore(scaled(lattice, scales), how), undone),
                            "Overall, succeeded for {} lattices, failed for {}")
