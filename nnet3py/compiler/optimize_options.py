"""Options of the optimizer and of the compiler. Kaldi: NnetOptimizeOptions, CachingOptimizingCompilerOptions."""
from __future__ import annotations

import os
from dataclasses import replace

from nnet3py.option_fields import opt, options_class

INT32_MIN, INT32_MAX = -2147483648, 2147483647
DEFAULT_CAPACITY = 64      # compiled computations
OMIT_MARKS = "omit-marks"      # value of ``fuse``: no fusion, but without Kaldi's swaps and memory compression


@options_class(frozen=True)
class OptimizeOptions:
    """The ``--optimization.*`` options of commands, by the same names, with Kaldi's defaults.

    Only ``min_deriv_time``, ``max_deriv_time`` and ``max_deriv_time_relative`` change results.
    ``optimize=False`` switches off all passes except memory compression and those that running needs.

    Attributes
    ----------
    fuse : the passes after Kaldi's (compiler/fuse/): "all", "none", or names of passes with commas; not in Kaldi
    """

    optimize: bool = opt("optimize", True, "Set this to false to turn off all optimizations")
    consolidate_model_update: bool = opt("consolidate-model-update", True,
                                         "Combine the model updates of a component that occurs at several times")
    propagate_in_place: bool = opt("propagate-in-place", True, "Let components propagate in place where they can")
    backprop_in_place: bool = opt("backprop-in-place", True, "Let components backpropagate in place where they can")
    extend_matrices: bool = opt("extend-matrices", True, "Extend matrices where that saves copying parts of them")
    optimize_row_ops: bool = opt("optimize-row-ops", True, "Replace copies of rows by copies of whole submatrices")
    split_row_ops: bool = opt("split-row-ops", True, "Split operations on many matrices into simpler ones")
    convert_addition: bool = opt("convert-addition", True, "Turn additions into copies where the target is new")
    remove_assignments: bool = opt("remove-assignments", True, "Remove assignments by merging matrices")
    allow_left_merge: bool = opt("allow-left-merge", True, "Allow merging into the left side of an assignment")
    allow_right_merge: bool = opt("allow-right-merge", True, "Allow merging into the right side of an assignment")
    initialize_undefined: bool = opt("initialize-undefined", True,
                                     "Leave matrices undefined where zeroing is not needed")
    move_sizing_commands: bool = opt("move-sizing-commands", True, "Allocate late and free early")
    allocate_from_other: bool = opt("allocate-from-other", True,
                                    "Reuse the memory of a freed matrix of the same size")
    snip_row_ops: bool = opt("snip-row-ops", True, "Leave out rows at the edges that no operation uses")
    min_deriv_time: int = opt("min-deriv-time", INT32_MIN, "Earliest time (t) at which derivatives are computed")
    max_deriv_time: int = opt("max-deriv-time", INT32_MAX, "Latest time (t) at which derivatives are computed")
    max_deriv_time_relative: int = opt("max-deriv-time-relative", INT32_MAX,
                                       "Latest time at which derivatives are computed, relative to the largest t of "
                                       "the outputs")
    memory_compression_level: int = opt("memory-compression-level", 1,
                                        "No effect: nothing is compressed, so that derivatives are exact, as with 0 "
                                        "and 1 (2 rounds in Kaldi)")
    fuse: str = opt("fuse", "all",
                    "Commands to run as one that Kaldi runs one by one: all, none, or passes with commas: omit-marks, "
                    "omit-copies, fuse-sums, fuse-affine, fuse-backprop, share-places (not in Kaldi)")

    def for_outputs_until(self, last_t: int) -> OptimizeOptions:
        """Return options with an absolute ``max_deriv_time`` in place of ``max_deriv_time_relative``.

        Parameters
        ----------
        last_t : the greatest t of all outputs in the request, from which ``max_deriv_time_relative`` counts
        """
        if self.max_deriv_time_relative == INT32_MAX:
            return self
        return replace(self, max_deriv_time=last_t + self.max_deriv_time_relative, max_deriv_time_relative=INT32_MAX)

    def limits_derivatives(self) -> bool:
        """Return whether derivatives outside a range of times are treated as zero."""
        return (self.min_deriv_time, self.max_deriv_time, self.max_deriv_time_relative) != (
            INT32_MIN, INT32_MAX, INT32_MAX)

    def fusions(self) -> set[str]:
        """Return the words of ``fuse``; an empty set for "none"."""
        return {word.strip() for word in self.fuse.split(",")} - {"", "none"}

    def keeps_kaldi_form(self) -> bool:
        """Return whether fusion is off, so that the computation that runs has Kaldi's swaps and memory compression."""
        return not (self.optimize and self.fusions())

    def allows(self, name: str) -> bool:
        """Return the value of the switch with this name, spelled as on command lines (``convert-addition``)."""
        return bool(getattr(self, name.replace("-", "_")))

    def merges(self) -> bool:
        """Return whether variables may be merged."""
        return ((self.remove_assignments or self.propagate_in_place or self.backprop_in_place)
                and (self.allow_left_merge or self.allow_right_merge))


@options_class(frozen=True)
class CompilerOptions:
    """Options of compiling and of keeping compiled computations. Kaldi: CachingOptimizingCompilerOptions.

    Attributes
    ----------
    cache_dir : as for :class:`nnet3py.compiler.cache.CachingCompiler`
    """

    use_shortcut: bool = opt("use-shortcut", True, "Compile for two sequences and extend to many")
    cache_capacity: int = opt("cache-capacity", DEFAULT_CAPACITY, "Number of compiled computations kept", least=1)
    cache_dir: str | os.PathLike[str] | None = opt(
        "cache-dir", None, "Folder where compiled computations are kept, so that the next process need not compile "
        "them (empty: $NNET3PY_COMPUTATION_CACHE, if that is set)")
