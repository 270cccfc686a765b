"""What the commands that rescore lattices share: options, writing what is left, what is logged."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from nnet3py import log
from nnet3py.cli.lattices.options import change_lattices, status
from nnet3py.cli.process.options import Options, declared, fields_from
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.transducers.compact_lattice import CompactLattice

PRUNING = declared(settings_of(PrunedCompositionOptions))
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
    from nnet3py.lattices.scaling import Scales, scaled

    scales = Scales(1.0, options.acoustic_scale)
    undone = scales.undone()
    how = fields_from(options, PrunedCompositionOptions())
    return rescore_lattices(args, lambda lattice: scaled(rescore(scaled(lattice, scales), how), undone),
                            "Overall, succeeded for {} lattices, failed for {}")
