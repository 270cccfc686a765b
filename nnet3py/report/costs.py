"""What the commands of a computation cost: multiplications of matrix products, elements moved; and by component."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.compiler.computation import BACKPROPS, COMMANDS, WITHOUT_CALL, CommandType, Role
from nnet3py.components.base import Component, Properties

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Command, Computation
    from nnet3py.network.nnet import Nnet

_WITHOUT_WORK = WITHOUT_CALL | {CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT}
_WRITTEN = (Role.WRITE, Role.READ_WRITE, Role.PROPAGATED, Role.BACKPROPAGATED)


def _attention(component: Any) -> int:
    shape = component.shape
    return shape.num_heads * shape.positions * (shape.key_dim + shape.value_dim)


# The multiplications of the forward product, for a row of the output; types that are not here have no products.
_PER_ROW: dict[str, Callable[[Any], int]] = {
    **dict.fromkeys(("AffineComponent", "NaturalGradientAffineComponent", "FixedAffineComponent", "TdnnComponent",
                     "BlockAffineComponent"), lambda c: c.linear_params.size),
    "LinearComponent": lambda c: c.params.size,
    **dict.fromkeys(("RepeatedAffineComponent", "NaturalGradientRepeatedAffineComponent"),
                    lambda c: c.num_repeats * c.linear_params.size),
    "TimeHeightConvolutionComponent": lambda c: c.model.height_out * c.linear_params.size,
    "ConvolutionComponent": lambda c: c.output_dim * c.filter_params.shape[1],
    "GruNonlinearityComponent": lambda c: c.w_h.size,
    "RestrictedAttentionComponent": _attention,
    "CompositeComponent": lambda c: sum(multiplications_per_row(child) for child in c.children),
}


def multiplications_per_row(component: Component) -> int:
    """Multiplications in the matrix products of ``propagate``, for each row of its output (padding counted)."""
    count = _PER_ROW.get(type(component).__name__)
    return int(count(component)) if count else 0


@dataclass(frozen=True)
class Costs:
    """For each command, int64 (commands,): ``operations`` of its matrix products, ``elements`` that it writes.

    A product of m × k and k × n elements has 2mnk operations. Natural gradient is not counted. A fused command writes
    once what several of its parts write.
    """

    operations: np.ndarray
    elements: np.ndarray

    @classmethod
    def of(cls, computation: Computation, nnet: Nnet) -> Costs:
        """Count them; nothing is run."""
        per_row = [multiplications_per_row(component) for component in nnet.components]
        parts = [computation.parts_of(command) for command in computation.commands]
        operations = [sum(_operations(computation, nnet, part, per_row) for part in each) for each in parts]
        elements = [_elements(computation, each) for each in parts]
        return cls(np.array(operations, np.int64), np.array(elements, np.int64))


def _operations(computation: Computation, nnet: Nnet, command: Command, per_row: list[int]) -> int:
    if command.type == CommandType.PROPAGATE:
        return 2 * computation.submatrices[command.args[3]].num_rows * per_row[command.args[0]]
    if command.type not in BACKPROPS:
        return 0
    component = nnet.components[command.args[0]]
    updates = (command.type == CommandType.BACKPROP and computation.need_model_derivative
               and component.has(Properties.UPDATABLE))
    products = int(command.args[5] > 0) + int(updates)     # the derivative of the input, that of the parameters
    return 2 * computation.submatrices[command.args[4]].num_rows * per_row[command.args[0]] * products


def _elements(computation: Computation, parts: Sequence[Command]) -> int:
    written, total = set(), 0
    for part in parts:
        if part.type in _WITHOUT_WORK:
            continue
        for role, argument in zip(COMMANDS[part.type].roles, part.args, strict=False):
            if role in _WRITTEN and argument > 0:
                written.add(computation.submatrices[argument])
            elif role == Role.CHANGED_PAIRS:
                real = int((computation.indexes_multi[argument][:, 0] >= 0).sum())
                total += real * computation.submatrices[part.args[0]].num_cols
    return total + sum(sub.num_rows * sub.num_cols for sub in written)


@dataclass(frozen=True)
class Share:
    """What a component, or a kind of row operation, takes of a computation: numbers of commands, their costs."""

    name: str
    kind: str
    commands: int
    operations: int
    elements: int


def shares(computation: Computation, nnet: Nnet) -> list[Share]:
    """The costs by component (in the order of the network), then those of commands that move rows, by kind.

    The parts of fused commands are counted one by one, since they belong to several components.
    """
    computation = computation.unfused()
    costs = Costs.of(computation, nnet)
    groups: dict[tuple[int, str, str], list[int]] = {}
    for c, command in enumerate(computation.commands):
        if command.type == CommandType.PROPAGATE or command.type in BACKPROPS:
            component = nnet.components[command.args[0]]
            key = command.args[0], nnet.component_names[command.args[0]], type(component).__name__
        elif costs.elements[c] or command.type == CommandType.SET_CONST:
            key = len(nnet.components) + int(command.type), COMMANDS[command.type].name, "row operation"
        else:
            continue
        groups.setdefault(key, []).append(c)
    return [Share(name, kind, len(rows), int(costs.operations[rows].sum()), int(costs.elements[rows].sum()))
            for (_, name, kind), rows in sorted(groups.items())]
