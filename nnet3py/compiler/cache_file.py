"""Files of compiled computations: the optimizer's options, then requests and computations. Kaldi's ``--write-cache``.

Kaldi: ``CachingOptimizingCompiler::ReadCache``, ``WriteCache``, ``NnetOptimizeOptions::Read``, ``Write``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.computation_file import read_computation, read_request, write_computation, write_request
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest
from nnet3py.io.tokens import TokenReader, TokenWriter

SMALLEST_PAIR = 100            # bytes; of a request and a computation, which have more tags than that

# the options in the order of the file, and whether they may be missing (in older files)
_FIELDS = (("optimize", False), ("consolidate_model_update", False), ("propagate_in_place", False),
           ("backprop_in_place", False), ("optimize_row_ops", True), ("split_row_ops", True),
           ("extend_matrices", True), ("convert_addition", False), ("remove_assignments", False),
           ("allow_left_merge", False), ("allow_right_merge", False), ("initialize_undefined", False),
           ("move_sizing_commands", False), ("allocate_from_other", False), ("min_deriv_time", False),
           ("max_deriv_time", False), ("max_deriv_time_relative", True), ("snip_row_ops", True),
           ("memory_compression_level", True))

Pair = tuple[ComputationRequest, Computation]


def _tag(name: str) -> str:
    return f"<{name.title().replace('_', '')}>"


def read_optimize_options(reader: TokenReader) -> OptimizeOptions:
    """Read the optimizer's options; FormatError for anything else."""
    defaults = OptimizeOptions()
    values: dict[str, Any] = {}
    reader.expect("<NnetOptimizeOptions>")
    for name, may_lack in _FIELDS:
        tag = _tag(name)
        if not may_lack or reader.peek_token() == tag[1]:
            reader.expect(tag)
            is_flag = isinstance(getattr(defaults, name), bool)
            values[name] = reader.boolean() if is_flag else reader.integer()
    reader.expect("</NnetOptimizeOptions>")
    return OptimizeOptions(**values)


def write_optimize_options(writer: TokenWriter, options: OptimizeOptions) -> None:
    """Write the optimizer's options."""
    writer.token("<NnetOptimizeOptions>")
    for name, _ in _FIELDS:
        writer.token(_tag(name))
        value = getattr(options, name)
        if isinstance(value, bool):
            writer.boolean(value)
        else:
            writer.integer(value)
    writer.token("</NnetOptimizeOptions>")


def read_cache(reader: TokenReader, options: OptimizeOptions) -> list[Pair] | None:
    """The requests and computations of a cache file; None if they were compiled with other options than ``options``.

    As in Kaldi ``extend_matrices`` does not count; nor does ``fuse``, for files hold Kaldi's commands.
    Raises FormatError for what is not a cache.
    """
    theirs = read_optimize_options(reader)
    if dataclasses.replace(theirs, extend_matrices=options.extend_matrices, fuse=options.fuse) != options:
        return None
    reader.expect("<ComputationCacheSize>")
    count = reader.integer()
    reader.expect("<ComputationCache>")
    reader.check_count(count, SMALLEST_PAIR, "computations")
    return [(read_request(reader), read_computation(reader)) for _ in range(count)]


def write_cache(writer: TokenWriter, options: OptimizeOptions, pairs: Iterable[Pair]) -> None:
    """Write a cache file."""
    kept = list(pairs)
    write_optimize_options(writer, options)
    writer.token("<ComputationCacheSize>")
    writer.integer(len(kept))
    writer.token("<ComputationCache>")
    for request, computation in kept:
        write_request(writer, request)
        write_computation(writer, computation)
