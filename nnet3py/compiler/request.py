"""Computation requests: the rows of given inputs and wanted outputs, and the derivatives that are given or wanted.

Kaldi: ``ComputationRequest``.

No descriptor and no component looks from one sequence (n) into another. So the graph of a request is built for one
sequence of each shape (:class:`Sequences`), and its rows are expanded to all sequences.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nnet3py.errors import Nnet3Error
from nnet3py.index import NO_TIME, KeySpace, as_indexes, first_duplicate, format_indexes, sequence_indexes
from nnet3py.provided import Shown


class IoSpecification:
    """The rows of one input or output node, in the caller's order.

    Parameters
    ----------
    name : the node; an input may also be a component node whose values were computed before, which continues a
        recurrence
    indexes : int (rows, 3), columns n, t, x; at least one row, none twice
    has_deriv : for an input: whether its derivative is wanted; for an output: whether its derivative will be given

    Raises
    ------
    Nnet3Error : no rows, a row listed twice, a padding row (without time), or an array of another shape
    """

    __slots__ = ("name", "indexes", "has_deriv")

    def __init__(self, name: str, indexes: ArrayLike, has_deriv: bool = False) -> None:
        self.name = name
        self.indexes: np.ndarray = as_indexes(indexes, f"the indexes of '{name}'")
        self.has_deriv = bool(has_deriv)
        if not len(self.indexes):
            raise Nnet3Error(f"'{name}' has no indexes in the computation request", "leave the node out of the request")
        if (self.indexes[:, 1] == NO_TIME).any():
            raise Nnet3Error(f"'{name}' has a row without time (t = {NO_TIME}) in the computation request",
                             "give rows with times only")
        row = first_duplicate(self.indexes)
        if row >= 0:
            n, t, x = self.indexes[row]
            raise Nnet3Error(f"'{name}': the index (n={n}, t={t}, x={x}) is listed more than once in the "
                             "computation request")

    @classmethod
    def frames(cls, name: str, n: int, t0: int, t1: int, step: int = 1, has_deriv: bool = False) -> IoSpecification:
        """Make the specification of ``n`` sequences with the frames t0, t0 + step, … before t1.

        All frames of the first sequence come first, then those of the next: a matrix (rows, dim) for these rows has the
        elements of an array (n, frames, dim) in order.

        >>> IoSpecification.frames("input", 2, -1, 2)
        IoSpecification('input', [(0,-1:1), (1,-1:1)], has_deriv=False)

        Raises
        ------
        Nnet3Error : there are no frames
        """
        if n < 1 or step < 1 or t1 <= t0:
            raise Nnet3Error(f"'{name}': no frames in n={n}, t0={t0}, t1={t1}, step={step}",
                             "n and step must be 1 or more, and t1, the end of the frames, above t0")
        return cls(name, sequence_indexes(n, np.arange(t0, t1, step)), has_deriv)

    def __repr__(self) -> str:
        return f"IoSpecification({self.name!r}, {format_indexes(self.indexes)}, has_deriv={self.has_deriv})"


class ComputationRequest(Shown):
    """A request: inputs, outputs, and whether parameters get derivatives. Hashable by value.

    Parameters
    ----------
    inputs, outputs : at least one of each, no name twice
    need_model_derivative : whether the backward pass updates a model
    store_component_stats : whether the forward pass accumulates statistics in the components

    Raises
    ------
    Nnet3Error : a name is listed twice, or derivatives are wanted while no output has one
    """

    __slots__ = ("inputs", "outputs", "need_model_derivative", "store_component_stats", "_key", "_hash")

    def __init__(self, inputs: Sequence[IoSpecification], outputs: Sequence[IoSpecification],
                 need_model_derivative: bool = False, store_component_stats: bool = False) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.need_model_derivative = bool(need_model_derivative)
        self.store_component_stats = bool(store_component_stats)
        if not self.inputs:
            raise Nnet3Error("Cannot process computation request with no inputs")
        if not self.outputs:
            raise Nnet3Error("Cannot process computation request with no outputs")
        _check_names("input", self.inputs)
        _check_names("output", self.outputs)
        if self.needs_derivatives() and not any(io.has_deriv for io in self.outputs):
            raise Nnet3Error("You requested model derivatives or input derivatives, but provide no "
                             "derivatives at the output.",
                             "give an output has_deriv=True")
        ios = tuple((io.name, io.has_deriv, io.indexes.tobytes()) for io in (*self.inputs, *self.outputs))
        self._key = len(self.inputs), ios, self.need_model_derivative, self.store_component_stats
        self._hash = hash(self._key)

    def needs_derivatives(self) -> bool:
        """Return whether there is a backward pass. Kaldi: NeedDerivatives."""
        return self.need_model_derivative or any(io.has_deriv for io in self.inputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComputationRequest) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def describe(self) -> str:
        """Return Kaldi's text for a request: a line for each input, output and flag."""
        lines = [" # Computation request:"]
        for kind, ios in (("input", self.inputs), ("output", self.outputs)):
            lines += [f"{kind}-{i}: name={io.name}, has-deriv={_text(io.has_deriv)}, "
                      f"indexes={format_indexes(io.indexes)}"
                      for i, io in enumerate(ios)]
        lines += [f"need-model-derivative: {_text(self.need_model_derivative)}",
                  f"store-component-stats: {_text(self.store_component_stats)}"]
        return "\n".join(lines) + "\n"

    __str__ = describe

    def __repr__(self) -> str:
        return (f"ComputationRequest({list(self.inputs)}, {list(self.outputs)}, "
                f"need_model_derivative={self.need_model_derivative}, "
                f"store_component_stats={self.store_component_stats})")


def _check_names(kind: str, ios: Sequence[IoSpecification]) -> None:
    names = [io.name for io in ios]
    for name in names:
        if names.count(name) > 1:
            raise Nnet3Error(f"the computation request lists the {kind} '{name}' more than once")


def _text(flag: bool) -> str:
    return "true" if flag else "false"


# -- sequences of one shape --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sequences:
    """The shapes of a request's sequences: sequences with the same (t, x) in every input and output have one shape.

    Attributes
    ----------
    members : for each shape the n of its sequences, int32, ascending; shapes are numbered by their first n
    inputs, outputs : for each input and output its indexes int32 (rows, 3), with the shape's number in place of n
    space : the key space of the whole request
    """

    members: list[np.ndarray]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    space: KeySpace

    @classmethod
    def of(cls, request: ComputationRequest, share: bool = True) -> Sequences:
        """Find the shapes of a request; without ``share`` every sequence has its own (slower, same results)."""
        ios = [io.indexes for io in (*request.inputs, *request.outputs)]
        by_sequence = [_by_sequence(indexes) for indexes in ios]
        shape_of: dict[object, int] = {}
        members: list[list[int]] = []
        for n in sorted(set().union(*by_sequence)):
            signature = tuple(rows[n].tobytes() if n in rows else b"" for rows in by_sequence) if share else n
            shape = shape_of.setdefault(signature, len(members))
            if shape == len(members):
                members.append([])
            members[shape].append(n)
        reduced = [_reduce(rows, members) for rows in by_sequence]
        count = len(request.inputs)
        return cls([np.array(m, dtype=np.int32) for m in members], reduced[:count], reduced[count:], KeySpace.of(ios))

    def expand(self, indexes: np.ndarray) -> np.ndarray:
        """Return the indexes of all sequences, int32 (rows, 3), sorted, for indexes of shapes (sorted, no padding)."""
        if len(self.members) == 1:
            n = self.members[0]
            if len(n) == 1 and n[0] == 0:
                return indexes       # the shape's number is its n
            out = np.repeat(indexes, len(n), axis=0)
            out[:, 0] = np.tile(n, len(indexes))
            return out
        parts = []
        for shape, n in enumerate(self.members):
            rows = indexes[indexes[:, 0] == shape]
            part = np.repeat(rows, len(n), axis=0)
            part[:, 0] = np.tile(n, len(rows))
            parts.append(part)
        joined = np.concatenate(parts)
        return joined[np.argsort(self.space.keys(joined))]

    def expand_each(self, indexes: np.ndarray, bounds: list[int]) -> list[np.ndarray]:
        """Expand each of the groups indexes[bounds[0]:bounds[1]], indexes[bounds[1]:bounds[2]] and so on."""
        pairs = list(zip(bounds[:-1], bounds[1:], strict=True))
        if len(self.members) > 1:
            return [self.expand(indexes[begin:end]) for begin, end in pairs]
        size, joined = len(self.members[0]), self.expand(indexes)
        return [joined[begin * size:end * size] for begin, end in pairs]

    def sizes(self) -> np.ndarray:
        """Return the number of sequences of each shape, int64 (shapes,)."""
        return np.array([len(n) for n in self.members])


def _by_sequence(indexes: np.ndarray) -> dict[int, np.ndarray]:
    """Return (t, x) of the rows of each sequence, sorted, int32 (rows, 2): n -> rows."""
    order = np.lexsort((indexes[:, 2], indexes[:, 1], indexes[:, 0]))
    n = indexes[order, 0]
    rest = indexes[order, 1:]
    bounds = [0, *(np.flatnonzero(np.diff(n)) + 1).tolist(), len(n)]
    return {int(n[begin]): rest[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)}


def _reduce(rows: dict[int, np.ndarray], members: list[list[int]]) -> np.ndarray:
    parts = []
    for shape, n in enumerate(members):
        if n[0] in rows:
            part = np.full((len(rows[n[0]]), 3), shape, dtype=np.int32)
            part[:, 1:] = rows[n[0]]
            parts.append(part)
    return np.concatenate(parts)
