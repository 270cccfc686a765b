"""Reading examples in a thread while earlier ones are used for training."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix
from nnet3py.io.read_ahead import read_ahead

MOST_BYTES = 1 << 26            # of the examples that are held; an example of common size is a megabyte
_MOST = 8                       # examples that are held; more would not hide more
_ARC, _STATE = 16, 12           # bytes in memory, of an FST


def examples_ahead(entries: Iterable[tuple[str, Any]], most_bytes: int = MOST_BYTES) -> Iterator[tuple[str, Any]]:
    """Yield (key, example), inputs decompressed, while a thread reads the next ones, at most ``most_bytes`` ahead.

    Examples are of any kind. Errors in reading are raised here. Close the generator if not all examples are taken.
    """
    return read_ahead(_decompressed(entries), _MOST, most_bytes, lambda entry: num_bytes(entry[1]))


def _decompressed(entries: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for key, example in entries:
        for io in _inputs(example):
            if isinstance(io.features, CompressedMatrix):
                io.features = io.features.to_dense()
        yield key, example


def _inputs(example: Any) -> list[Any]:
    """The parts of an example that have features: in ordinary training all inputs and outputs, else the inputs."""
    return example.io if hasattr(example, "io") else example.inputs


def num_merged(entry: tuple[str, Any]) -> int:
    """How many examples were merged into the one of a (key, example): 1 + the n of its first input's last index."""
    inputs = _inputs(entry[1])
    return int(inputs[0].indexes[-1, 0]) + 1 if inputs and len(inputs[0].indexes) else 1


def num_bytes(example: Any) -> int:
    """About how much memory an example takes."""
    total = 0
    for io in _inputs(example):
        features = io.features
        total += io.indexes.nbytes
        if isinstance(features, SparseMatrix):
            total += features.row_starts.nbytes + features.columns.nbytes + features.values.nbytes
        else:
            total += features.codes.nbytes if isinstance(features, CompressedMatrix) else features.nbytes
    for output in getattr(example, "outputs", ()):
        supervision = output.supervision
        fsts = [getattr(supervision, "fst", None) or getattr(supervision, "den_lat", None),
                *getattr(supervision, "e2e_fsts", ())]
        total += output.indexes.nbytes + sum(_ARC * fst.num_arcs + _STATE * fst.num_states for fst in fsts if fst)
    return total
