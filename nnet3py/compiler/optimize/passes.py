"""The order of the optimizer's passes. Kaldi: ``Optimize`` (nnet-optimize.cc)."""
from __future__ import annotations

from collections.abc import Iterator

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.optimize.consolidate import consolidate_io, consolidate_model_update
from nnet3py.compiler.optimize.form_loop import form_loop
from nnet3py.compiler.optimize.limit_derivative_times import limit_derivative_times
from nnet3py.compiler.optimize.merge_variables import merge_variables
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.compiler.optimize.row_ops import convert_addition, replace_row_ops, snip_row_ops, split_row_ops
from nnet3py.compiler.optimize.sizing import (
    allocate_from_other,
    compress_memory,
    extend_matrices,
    has_marks,
    move_sizing_commands,
    remove_unnecessary_zeroing,
)
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.network.nnet import Nnet

# Kaldi's option and the pass that it switches, in order, before and after merging.
_BEFORE_MERGING = (("consolidate-model-update", consolidate_model_update), ("convert-addition", convert_addition),
                   ("snip-row-ops", snip_row_ops), ("split-row-ops", split_row_ops),
                   ("optimize-row-ops", replace_row_ops), ("extend-matrices", extend_matrices))
_AFTER_MERGING = (("initialize-undefined", remove_unnecessary_zeroing), ("move-sizing-commands", move_sizing_commands),
                  ("allocate-from-other", allocate_from_other))
_NOT_LOOPED = frozenset(("extend-matrices", "allocate-from-other"))
_ONLY_IN_KALDI_FORM = frozenset(("allocate-from-other",))      # as is memory compression


def optimize(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None,
             looped: bool = False) -> Computation:
    """Return an equivalent computation that is faster and smaller; ``computation`` itself is not changed.

    Parameters
    ----------
    looped : whether to end the computation with a jump back to an equal segment (see :func:`form_loop`)
    """
    return list(optimization_steps(computation, nnet, options or OptimizeOptions(), looped))[-1][1]


def optimization_steps(computation: Computation, nnet: Nnet, options: OptimizeOptions,
                       looped: bool = False) -> Iterator[tuple[str, Computation]]:
    """Yield the name of each pass that runs, by Kaldi's option name, and its result.

    If commands are to be fused, memory compression and swaps are left out (see :func:`to_kaldi_form`).
    """
    left_out = _NOT_LOOPED if looped else frozenset()
    if not options.keeps_kaldi_form():
        left_out |= _ONLY_IN_KALDI_FORM

    def is_wanted(name: str) -> bool:
        return options.allows(name) and name not in left_out

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
    if looped and not (options.optimize and options.move_sizing_commands):      # a loop needs this pass
        computation = move_sizing_commands(computation, nnet)
        yield "move-sizing-commands", computation
    computation = consolidate_io(computation)
    yield "consolidate-io", computation
    if looped:
        yield "optimize-looped-computation", form_loop(computation, nnet)
        return
    if options.keeps_kaldi_form():
        computation = compress_memory(computation, nnet, options.memory_compression_level)
        yield "memory-compression-level", computation


def to_kaldi_form(computation: Computation, nnet: Nnet, options: OptimizeOptions) -> Computation:
    """Return an optimized computation with Kaldi's swaps and memory compression, for files that Kaldi reads.

    A computation that runs here has neither, unless fusion is off (``OptimizeOptions.keeps_kaldi_form``): the memory
    plan reuses freed memory anyway, and nothing is compressed.
    """
    if options.keeps_kaldi_form() or has_marks(computation):      # it has the form already
        return computation
    if options.allocate_from_other:
        computation = allocate_from_other(computation, nnet)
    return compress_memory(computation, nnet, options.memory_compression_level)


def _merge_repeatedly(computation: Computation, nnet: Nnet, options: OptimizeOptions) -> Computation:
    """Merge variables until a round changes nothing.

    Only a removed copy can make further merges possible: the first use of a sub-matrix is then later, or its last use
    earlier, or an addition to the copy becomes another copy. Passes on row commands need not be repeated, since merging
    does not change lists of rows.
    """
    merged = merge_variables(computation, nnet, options) if options.merges() else computation
    if merged is computation:
        return renumber(computation)
    while merged is not computation:
        computation = convert_addition(merged, nnet) if options.convert_addition else merged
        merged = merge_variables(computation, nnet, options)
    return merged
