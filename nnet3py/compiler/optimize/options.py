"""What the optimiser may do. Kaldi: ``NnetOptimizeOptions``."""
from __future__ import annotations

from dataclasses import dataclass, replace

INT32_MIN, INT32_MAX = -2147483648, 2147483647


@dataclass(frozen=True)
class OptimizeOptions:
    """The ``--optimization.*`` options of commands, by the same names, with Kaldi's defaults.

    Results never depend on them, but for ``min_deriv_time``, ``max_deriv_time`` and ``max_deriv_time_relative``.
    ``optimize=False`` switches off everything else but what running needs and the marks of memory compression.

    Attributes
    ----------
    fuse : what comes after Kaldi's passes (compiler/fuse/): "all", "none", or names of passes with commas; ours
    """

    optimize: bool = True
    consolidate_model_update: bool = True
    propagate_in_place: bool = True
    backprop_in_place: bool = True
    extend_matrices: bool = True
    optimize_row_ops: bool = True
    split_row_ops: bool = True
    convert_addition: bool = True
    remove_assignments: bool = True
    allow_left_merge: bool = True
    allow_right_merge: bool = True
    initialize_undefined: bool = True
    move_sizing_commands: bool = True
    allocate_from_other: bool = True
    snip_row_ops: bool = True
    min_deriv_time: int = INT32_MIN
    max_deriv_time: int = INT32_MAX
    max_deriv_time_relative: int = INT32_MAX
    memory_compression_level: int = 1
    fuse: str = "all"

    def for_outputs_until(self, last_t: int) -> OptimizeOptions:
        """The same with ``max_deriv_time`` instead of ``max_deriv_time_relative``, which counts from the last output.

        Parameters
        ----------
        last_t : the greatest t of all outputs in the request
        """
        if self.max_deriv_time_relative == INT32_MAX:
            return self
        return replace(self, max_deriv_time=last_t + self.max_deriv_time_relative, max_deriv_time_relative=INT32_MAX)

    def limits_derivatives(self) -> bool:
        """Whether derivatives outside of a range of times are to be taken as zero."""
        return (self.min_deriv_time, self.max_deriv_time, self.max_deriv_time_relative) != (
            INT32_MIN, INT32_MAX, INT32_MAX)

    def allows(self, name: str) -> bool:
        """The switch of this name, as commands spell it (``convert-addition``)."""
        return bool(getattr(self, name.replace("-", "_")))

    def merges(self) -> bool:
        """Whether matrices are merged."""
        return ((self.remove_assignments or self.propagate_in_place or self.backprop_in_place)
                and (self.allow_left_merge or self.allow_right_merge))
