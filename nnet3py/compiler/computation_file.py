"""Requests, computations and caches of computations in files, byte for byte Kaldi's.

Kaldi: ``ComputationRequest::Read``, ``NnetComputation::Read``, ``NnetOptimizeOptions::Read``,
``CachingOptimizingCompiler::ReadCache``, and their ``Write``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from nnet3py.compiler.computation import (
    COMMANDS,
    KALDI_TYPES,
    NUM_ARGS,
    Command,
    Computation,
    MatrixDebugInfo,
    MatrixInfo,
    SubMatrix,
)
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.base import Precomputed
from nnet3py.components.registry import precomputed_indexes_class
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.formats.index_vector import read_cindex_vector, read_index_vector, write_cindex_vector, write_index_vector
from nnet3py.io.tokens import TokenReader, TokenWriter

VERSION = 5
SMALLEST_ENTRY = 2             # bytes of the shortest entry of a list

Item = TypeVar("Item")

_NO_ROWS = np.zeros((0, 3), dtype=np.int32)

_TYPE_OF_NAME = {COMMANDS[kind].name: kind for kind in KALDI_TYPES}
_MATRIX_TAGS = ("<NumRows>", "<NumCols>")
_SUBMATRIX_TAGS = ("<MatrixIndex>", "<RowOffset>", "<NumRows>", "<ColOffset>", "<NumCols>")


def _read_list(reader: TokenReader, count_tag: str, tag: str, read: Callable[[TokenReader], Item],
               not_stored: int = 0) -> list[Item]:
    reader.expect(count_tag)
    count = reader.integer("uint64")
    reader.expect(tag)
    reader.check_count(count - not_stored, SMALLEST_ENTRY, f"entries after {tag}")
    return [read(reader) for _ in range(count - not_stored)]


def _write_list(writer: TokenWriter, count_tag: str, tag: str, items: list[Item],
                write: Callable[[TokenWriter, Item], None], not_stored: int = 0) -> None:
    writer.token(count_tag)
    writer.integer(len(items), "uint64")
    writer.token(tag)
    for item in items[not_stored:]:
        write(writer, item)


# -- requests ----------------------------------------------------------------------------------------------------------


def read_request(reader: TokenReader) -> ComputationRequest:
    """Read a request; FormatError for anything else, or for an impossible request."""
    reader.expect("<ComputationRequest>")
    inputs = _read_list(reader, "<NumInputs>", "<Inputs>", _read_io)
    outputs = _read_list(reader, "<NumOutputs>", "<Outputs>", _read_io)
    reader.expect("<NeedModelDerivative>")
    need_model_derivative = reader.boolean()
    reader.expect("<StoreComponentStats>")
    store_component_stats = reader.boolean()
    reader.expect("</ComputationRequest>")
    return _with_position(reader, lambda: ComputationRequest(inputs, outputs, need_model_derivative,
                                                             store_component_stats))


def _with_position(reader: TokenReader, make: Callable[[], Item]) -> Item:
    try:
        return make()
    except Nnet3Error as error:
        raise reader.error(error.message) from error


def _read_io(reader: TokenReader) -> IoSpecification:
    reader.expect("<IoSpecification>")
    name = reader.token()
    reader.expect("<NumIndexes>")
    reader.integer("uint64")                    # the list that follows has a count of its own
    reader.expect("<Indexes>")
    indexes = read_index_vector(reader)
    reader.expect("<HasDeriv>")
    has_deriv = reader.boolean()
    reader.expect("</IoSpecification>")
    return _with_position(reader, lambda: IoSpecification(name, indexes, has_deriv))


def write_request(writer: TokenWriter, request: ComputationRequest) -> None:
    """Write a request."""
    writer.token("<ComputationRequest>")
    writer.newline_if_text()
    for count_tag, tag, ios in (("<NumInputs>", "<Inputs>", request.inputs),
                                ("<NumOutputs>", "<Outputs>", request.outputs)):
        writer.token(count_tag)
        writer.integer(len(ios), "uint64")
        writer.newline_if_text()
        writer.token(tag)
        for io in ios:
            _write_io(writer, io)
        writer.newline_if_text()
    writer.token("<NeedModelDerivative>")
    writer.boolean(request.need_model_derivative)
    writer.token("<StoreComponentStats>")
    writer.boolean(request.store_component_stats)
    writer.token("</ComputationRequest>")
    writer.newline_if_text()


def _write_io(writer: TokenWriter, io: IoSpecification) -> None:
    with _element(writer, "IoSpecification"):
        writer.token(io.name)
        writer.token("<NumIndexes>")
        writer.integer(len(io.indexes), "uint64")
        writer.token("<Indexes>")
        write_index_vector(writer, io.indexes)
        writer.token("<HasDeriv>")
        writer.boolean(io.has_deriv)


@contextmanager
def _element(writer: TokenWriter, name: str) -> Iterator[None]:
    """Write tags around what is written inside the ``with``, in text on lines of their own."""
    writer.token(f"<{name}>")
    writer.newline_if_text()
    yield
    writer.newline_if_text()
    writer.token(f"</{name}>")
    writer.newline_if_text()


# -- computations ------------------------------------------------------------------------------------------------------


def read_computation(reader: TokenReader) -> Computation:
    """Read a computation; FormatError for anything else, or for a version other than 5.

    :func:`nnet3py.compiler.check.check_loaded` checks whether it can be run.
    """
    reader.expect("<NnetComputation>")
    version = 1
    if reader.peek_token() == "V":
        reader.expect("<Version>")
        version = reader.integer()
    if version != VERSION:
        raise reader.error(f"expected a computation of version {VERSION}, found version {version}",
                           hint="this only affects speed: it can be compiled again")
    result = Computation()
    result.matrices = _read_list(reader, "<NumMatrices>", "<Matrices>", _read_matrix_info)
    result.debug_info = _read_list(reader, "<NumMatrixDebugInfo>", "<MatrixDebugInfo>", _read_debug_info)
    result.submatrices = _read_list(reader, "<NumSubMatrices>", "<SubMatrices>", _read_submatrix)
    precomputed = _read_list(reader, "<NumComponentPrecomputedIndexes>", "<PrecomputedIndexesInfo>",
                             _read_precomputed, not_stored=1)
    result.precomputed_indexes = [None, *(indexes for indexes, _ in precomputed)]
    result.precomputed_rows = [(_NO_ROWS, _NO_ROWS), *(rows for _, rows in precomputed)]
    result.indexes = _read_list(reader, "<NumIndexes>", "<Indexes>", lambda r: _at_least_minus_one(
        r, r.integer_vector()))
    result.indexes_multi, result.indexes_ranges = (
        _read_list(reader, f"<Num{name}>", f"<{name}>", lambda r: _at_least_minus_one(r, r.integer_pairs()))
        for name in ("IndexesMulti", "IndexesRanges"))
    result.commands = _read_list(reader, "<NumCommands>", "<Commands>", _read_command)
    reader.expect("<NeedModelDerivative>")
    result.need_model_derivative = reader.boolean()
    reader.expect("</NnetComputation>")
    return result


def _at_least_minus_one(reader: TokenReader, numbers: np.ndarray) -> np.ndarray:
    if numbers.min(initial=0) < -1:
        raise reader.error(f"expected row numbers or -1 in a computation, found {int(numbers.min())}")
    return numbers


def _read_matrix_info(reader: TokenReader) -> MatrixInfo:
    reader.expect("<MatrixInfo>")
    rows, cols = _sizes(reader, _MATRIX_TAGS)
    token = reader.token()
    contiguous = token == "<StrideEqualNumCols>"
    if contiguous:
        token = reader.token()
    if token != "</MatrixInfo>":
        raise reader.error(f"expected </MatrixInfo>, found '{token[:40]}'")
    return MatrixInfo(rows, cols, contiguous)


def _sizes(reader: TokenReader, tags: tuple[str, ...]) -> list[int]:
    """Read a number of 0 or more after each tag."""
    numbers = []
    for tag in tags:
        reader.expect(tag)
        numbers.append(reader.integer())
        if numbers[-1] < 0:
            raise reader.error(f"expected 0 or more after {tag}, found {numbers[-1]}")
    return numbers


def _read_submatrix(reader: TokenReader) -> SubMatrix:
    reader.expect("<SubMatrixInfo>")
    result = SubMatrix(*_sizes(reader, _SUBMATRIX_TAGS))
    reader.expect("</SubMatrixInfo>")
    return result


def _read_debug_info(reader: TokenReader) -> MatrixDebugInfo:
    reader.expect("<MatrixDebugInfo>")
    reader.expect("<IsDeriv>")
    is_deriv = reader.boolean()
    reader.expect("<Cindexes>")
    nodes, indexes = read_cindex_vector(reader)
    reader.expect("</MatrixDebugInfo>")
    return MatrixDebugInfo(nodes, indexes, is_deriv)


def _read_precomputed(reader: TokenReader) -> tuple[Precomputed, tuple[np.ndarray, np.ndarray]]:
    return read_precomputed_indexes(reader), (read_index_vector(reader), read_index_vector(reader))


def read_precomputed_indexes(reader: TokenReader) -> Precomputed:
    """Read the indexes that a component precomputed, with the tag that names their type."""
    tag = reader.token()
    try:
        kind = precomputed_indexes_class(tag[1:-1])
    except FormatError as error:
        raise reader.error(error.message, hint=error.hint) from error
    return kind.read(reader)                                          # type: ignore[attr-defined]


def _read_command(reader: TokenReader) -> Command:
    if not reader.binary:
        return _read_text_command(reader)
    reader.expect("<Cmd>")
    number, alpha, args = reader.integer(), reader.float32(), reader.integer_vector()
    if not 0 <= number < len(KALDI_TYPES) or len(args) > NUM_ARGS:
        raise reader.error(f"expected a command of a computation, found number {number} with {len(args)} arguments")
    reader.expect("</Cmd>")
    return Command(KALDI_TYPES[number], alpha, (*args.tolist(), *(-1,) * (NUM_ARGS - len(args))))


def _read_text_command(reader: TokenReader) -> Command:
    reader.expect("<Cmd>")
    name = reader.read_line().decode("latin-1")
    if name not in _TYPE_OF_NAME:
        raise reader.error(f"expected the name of a command, found '{name[:40]}'")
    reader.expect("<Alpha>")
    alpha = reader.float32()
    reader.expect("<Args>")
    args = tuple(reader.integer() for _ in range(NUM_ARGS))
    reader.expect("</Cmd>")
    return Command(_TYPE_OF_NAME[name], alpha, args)


def write_computation(writer: TokenWriter, computation: Computation) -> None:
    """Write a computation; a fused command is written as the commands that it replaces."""
    computation = computation.unfused()
    writer.token("<NnetComputation>")
    writer.token("<Version>")
    writer.integer(VERSION)
    _write_list(writer, "<NumMatrices>", "<Matrices>", computation.matrices, _write_matrix_info)
    writer.newline_if_text()
    _write_list(writer, "<NumMatrixDebugInfo>", "<MatrixDebugInfo>", computation.debug_info, _write_debug_info)
    writer.newline_if_text()
    _write_list(writer, "<NumSubMatrices>", "<SubMatrices>", computation.submatrices, _write_submatrix)
    writer.newline_if_text()
    _write_list(writer, "<NumComponentPrecomputedIndexes>", "<PrecomputedIndexesInfo>",
                list(range(len(computation.precomputed_indexes))),
                lambda w, number: _write_precomputed(w, computation, number), not_stored=1)
    writer.newline_if_text()
    _write_list(writer, "<NumIndexes>", "<Indexes>", computation.indexes, lambda w, item: w.integer_vector(item))
    for name, lists in (("IndexesMulti", computation.indexes_multi), ("IndexesRanges", computation.indexes_ranges)):
        writer.newline_if_text()
        _write_list(writer, f"<Num{name}>", f"<{name}>", lists, lambda w, item: w.integer_pairs(item))
    writer.newline_if_text()
    _write_list(writer, "<NumCommands>", "<Commands>", computation.commands, _write_command)
    writer.newline_if_text()
    writer.token("<NeedModelDerivative>")
    writer.boolean(computation.need_model_derivative)
    writer.token("</NnetComputation>")
    writer.newline_if_text()


def _write_matrix_info(writer: TokenWriter, info: MatrixInfo) -> None:
    with _element(writer, "MatrixInfo"):
        _write_sizes(writer, _MATRIX_TAGS, info[:2])
        if info.contiguous:
            writer.token("<StrideEqualNumCols>")


def _write_submatrix(writer: TokenWriter, info: SubMatrix) -> None:
    with _element(writer, "SubMatrixInfo"):
        _write_sizes(writer, _SUBMATRIX_TAGS, info)


def _write_sizes(writer: TokenWriter, tags: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    for tag, size in zip(tags, sizes, strict=True):
        writer.token(tag)
        writer.integer(size)


def _write_debug_info(writer: TokenWriter, info: MatrixDebugInfo) -> None:
    with _element(writer, "MatrixDebugInfo"):
        writer.token("<IsDeriv>")
        writer.boolean(info.is_deriv)
        writer.newline_if_text()
        writer.token("<Cindexes>")
        write_cindex_vector(writer, info.nodes, info.indexes)


def _write_precomputed(writer: TokenWriter, computation: Computation, number: int) -> None:
    """Write precomputed indexes; if they are of two sequences also their rows, from which Kaldi can extend them."""
    computation.precomputed_indexes[number].write(writer)
    rows = computation.precomputed_rows[number]
    kept = all(len(indexes) and indexes[-1, 0] == 1 for indexes in rows)
    for indexes in rows:
        write_index_vector(writer, indexes if kept else _NO_ROWS)


def _write_command(writer: TokenWriter, command: Command) -> None:
    writer.token("<Cmd>")
    if writer.binary:
        used = [place for place, arg in enumerate(command.args, 1) if arg != -1]
        writer.integer(int(command.type))
        writer.float32(command.alpha)
        writer.integer_vector(command.args[:max(used, default=0)])
    else:
        writer.raw(COMMANDS[command.type].name.encode() + b"\n")
        writer.token("<Alpha>")
        writer.float32(command.alpha)
        writer.token("<Args>")
        for arg in command.args:
            writer.integer(arg)
    writer.token("</Cmd>")


# -- files of compiled computations ------------------------------------------------------------------------------------


SMALLEST_PAIR = 100            # bytes; the tags alone of a request and a computation take more

# The options in the order of the file, and whether older files may lack them.
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
    """Read a cache file; None if its computations were compiled with other options than ``options``.

    ``extend_matrices`` is not compared, as in Kaldi, nor is ``fuse``, since files hold Kaldi's commands. Raises
    FormatError: the file is not a cache.
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
    """Write a cache file: the optimizer's options, then requests and computations. Kaldi: ``--write-cache``."""
    kept = list(pairs)
    write_optimize_options(writer, options)
    writer.token("<ComputationCacheSize>")
    writer.integer(len(kept))
    writer.token("<ComputationCache>")
    for request, computation in kept:
        write_request(writer, request)
        write_computation(writer, computation)
