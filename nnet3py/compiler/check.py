"""Whether a command list is sound: one function per rule. A broken rule is the compiler's fault, not the user's.

Kaldi: ``ComputationChecker`` (nnet-analyze.h).
"""
from __future__ import annotations

from nnet3py.compiler.check_accesses import (
    COMPRESSION_RULES,
    MATRIX_RULES,
    debug_info_fits,
    nothing_changes_after_it_was_read,
    variables_are_defined_before_use,
    variables_are_used,
)
from nnet3py.compiler.check_arguments import ARGUMENT_RULES
from nnet3py.compiler.check_fused import fused_commands_are_what_their_passes_make, fused_commands_have_parts
from nnet3py.compiler.check_subject import Subject
from nnet3py.compiler.computation import Computation
from nnet3py.network.nnet import Nnet

# All rules, in the order in which they are applied; each may trust those before it.
FUSED_RULES = (fused_commands_have_parts, fused_commands_are_what_their_passes_make)
RULES = (*FUSED_RULES, *ARGUMENT_RULES, *MATRIX_RULES, *COMPRESSION_RULES, variables_are_defined_before_use,
         variables_are_used, debug_info_fits, nothing_changes_after_it_was_read)


def check_computation(computation: Computation, nnet: Nnet, check_rewrite: bool = False, check_unused: bool = True,
                      thorough: bool = False, after: str = "") -> None:
    """Apply the checker's rules. A fused command must be what its parts are, one after the other.

    Parameters
    ----------
    check_rewrite : also that nothing is changed after it was read (true before optimization only)
    check_unused : also that every part of every matrix is used
    thorough : also what running does not depend on: the marks of memory compression, and debug info
    after : what made the computation, such as the name of an optimizer's pass, to be named in the error

    Raises CheckError for the first rule that is broken; it names the rule, the command or matrix, and ``after``.
    """
    left_out = {*(() if check_rewrite else (nothing_changes_after_it_was_read,)),
                *(() if check_unused else (variables_are_used,)),
                *(() if thorough else (*COMPRESSION_RULES, debug_info_fits))}
    for rule in FUSED_RULES:
        Subject(computation, nnet, after).apply(rule)
    subject = Subject(computation.unfused(), nnet, after)
    for rule in RULES[len(FUSED_RULES):]:
        if rule not in left_out:
            subject.apply(rule)
