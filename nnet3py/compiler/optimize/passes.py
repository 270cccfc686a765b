"""The order of the optimizer's passes. Kaldi: ``Optimize`` (nnet-optimize.cc)."""
from __future__ import annotations

from collections.abc import Iterator

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.optimize.allocate_from_other import allocate_from_other
from nnet3py.compiler.optimize.compress_memory import compress_memory
from nnet3py.compiler.optimize.consolidate_io import consolidate_io
from nnet3py.compiler.optimize.consolidate_model_update import consolidate_model_update
from nnet3py.compiler.optimize.convert_addition import convert_addition
from nnet3py.compiler.optimize.extend_matrices import extend_matrices
from nnet3py.compiler.optimize.form_loop import form_loop
from nnet3py.compiler.optimize.limit_derivative_times import limit_derivative_times
from nnet3py.compiler.optimize.merge_variables import merge_variables
from nnet3py.compiler.optimize.move_sizing import move_sizing_commands
from nnet3py.compiler.optimize.remove_zeroing import remove_unnecessary_zeroing
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.compiler.optimize.replace_row_ops import replace_row_ops
from nnet3py.compiler.optimize.snip_row_ops import snip_row_ops
from nnet3py.compiler.optimize.split_row_ops import split_row_ops
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.network.nnet import Nnet

# Kaldi's option and the pass that it switches, in order, before and after merging.
_BEFORE_MERGING = (("consolidate-model-update", consolidate_model_update), ("convert-addition", convert_addition),
                   ("snip-row-ops", snip_row_ops), ("split-row-ops", split_row_ops),
                   ("optimize-row-ops", replace_row_ops), ("extend-matrices", extend_matrices))
_AFTER_MERGING = (("initialize-undefined", remove_unnecessary_zeroing), ("move-sizing-commands", move_sizing_commands),
                  ("allocate-from-other", allocate_from_other))


_NOT_LOOPED = frozenset(("extend-matrices", "allocate-from-other"))


def optimize(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None,
             looped: bool = False) -> Computation:
    """An equivalent computation that is faster and smaller; ``computation`` itself is not changed.

    Parameters
    ----------
    looped : make a computation with segments that are all alike go on for ever, if possible (see form_loop)
    """
    return list(optimization_steps(computation, nnet, options or OptimizeOptions(), looped))[-1][1]


def optimization_steps(computation: Computation, nnet: Nnet, options: OptimizeOptions,
                       looped: bool = False) -> Iterator[tuple[str, Computation]]:
    """The name of each pass that runs, by Kaldi's option name, and what it makes of the computation."""

    def is_wanted(name: str) -> bool:
        return options.allows(name) and not (looped and name in _NOT_LOOPED)

    if options.limits_derivatives():
        computation = limit_derivative_times(computation, nnet, options.min_deriv_time, options.max_deriv_time)
        yield "max-deriv-time", computation
    if options.optimize:
        for name, run in _BEFORE_MERGING:
            if is_wanted(name):
                computation = run(computation, nnet)
                yield name, computation
        computation = _merge_repeatedly(computation, nnet, options)
        yield "remove-assignments", computation
        for name, run in _AFTER_MERGING:
            if is_wanted(name):
                computation = run(computation, nnet)
                yield name, computation
    if looped and not (options.optimize and options.move_sizing_commands):      # what a loop needs
        computation = move_sizing_commands(computation, nnet)
        yield "move-sizing-commands", computation
    computation = consolidate_io(computation)
    yield "consolidate-io", computation
    if looped:
        yield "optimize-looped-computation", form_loop(computation, nnet)
        return
    computation = compress_memory(computation, nnet, options.memory_compression_level)
    yield "memory-compression-level", computation


def _merge_repeatedly(computation: Computation, nnet: Nnet, options: OptimizeOptions) -> Computation:
    """Merge until a round changes nothing; every round leaves fewer matrices, so there is an end.

    Only a copy that went away can make more possible: a sub-matrix is then used later for the first time, or earlier
    for the last time, and what was copied may have been zero, so that an addition to it becomes another copy. The row
    operations depend on lists of rows, which merging leaves as they are.
    """
    merged = merge_variables(computation, nnet, options) if options.merges() else computation
    if merged is computation:
        return renumber(computation)
    while merged is not computation:
        computation = convert_addition(merged, nnet) if options.convert_addition else merged
        merged = merge_variables(computation, nnet, options)
    return merged
