"""What to compute: which rows of which nodes are given and wanted, and which derivatives.

Kaldi: ``ComputationRequest``.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from nnet3py.errors import Nnet3Error
from nnet3py.index import NO_TIME, as_indexes, first_duplicate, format_indexes, sequence_indexes
from nnet3py.provided import Shown


class IoSpecification:
    """The rows of one input or output node, in the caller's order.

    Parameters
    ----------
    name : the node; values of a component node, computed before, can be an input, so that a recurrence continues
    indexes : int (rows, 3), columns n, t, x; at least one row, none twice
    has_deriv : of an input: its derivative is wanted; of an output: its derivative will be given

    Raises
    ------
    Nnet3Error : no rows, a row listed twice, a padding row, or another shape
    """

    __slots__ = ("name", "indexes", "has_deriv")

    def __init__(self, name: str, indexes: ArrayLike, has_deriv: bool = False) -> None:
        self.name = name
        self.indexes: np.ndarray = as_indexes(indexes, f"the indexes of '{name}'")
        self.has_deriv = bool(has_deriv)
        if not len(self.indexes):
            raise Nnet3Error(f"'{name}' has no indexes in the computation request", "leave it out of the request")
        if (self.indexes[:, 1] == NO_TIME).any():
            raise Nnet3Error(f"'{name}' has a row without time (t = {NO_TIME}) in the computation request")
        row = first_duplicate(self.indexes)
        if row >= 0:
            n, t, x = self.indexes[row]
            raise Nnet3Error(f"'{name}': the index (n={n}, t={t}, x={x}) is listed more than once in the "
                             "computation request")

    @classmethod
    def frames(cls, name: str, n: int, t0: int, t1: int, step: int = 1, has_deriv: bool = False) -> IoSpecification:
        """The frames t0, t0 + step, … before t1 of ``n`` sequences: all of the first sequence, then of the next.

        So the rows of a matrix for it, of shape (rows, dim), are those of an array (n, frames, dim).

        >>> IoSpecification.frames("input", 2, -1, 2)
        IoSpecification('input', [(0,-1:1), (1,-1:1)], has_deriv=False)

        Raises Nnet3Error if there are none.
        """
        if n < 1 or step < 1 or t1 <= t0:
            raise Nnet3Error(f"'{name}': no frames in n={n}, t0={t0}, t1={t1}, step={step}",
                             "n and step must be 1 or more, and t1, which is not among the frames, above t0")
        return cls(name, sequence_indexes(n, np.arange(t0, t1, step)), has_deriv)

    def __repr__(self) -> str:
        return f"IoSpecification({self.name!r}, {format_indexes(self.indexes)}, has_deriv={self.has_deriv})"


class ComputationRequest(Shown):
    """A whole request: inputs, outputs, and whether parameters get derivatives. Hashable, by its contents.

    Parameters
    ----------
    inputs, outputs : at least one each, no name twice
    need_model_derivative : the backward pass updates a model
    store_component_stats : the forward pass accumulates statistics in the components

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
        self._key = self._make_key()
        self._hash = hash(self._key)

    def needs_derivatives(self) -> bool:
        """Whether there is a backward pass. Kaldi: NeedDerivatives."""
        return self.need_model_derivative or any(io.has_deriv for io in self.inputs)

    def _make_key(self) -> tuple[object, ...]:
        ios = tuple((io.name, io.has_deriv, io.indexes.tobytes()) for io in (*self.inputs, *self.outputs))
        return len(self.inputs), ios, self.need_model_derivative, self.store_component_stats

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComputationRequest) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def describe(self) -> str:
        """Kaldi's text for a request, a line for each input, output and flag."""
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
