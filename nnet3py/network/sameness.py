"""What makes two components, or two networks, the same: what they compute, not how they are trained."""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.components.updatable import SETTINGS
from nnet3py.network.structure import NetworkStructure

_OF_TRAINING = {field.attribute for field in SETTINGS}
_PLAIN = ("dim", "block_dim", "integer", "float32", "integer_vector", "integer_pairs")


def component_numbers(component: Component) -> dict[str, np.ndarray]:
    """The arrays that a component computes with: its parameters, what is fixed in it, batch normalization's statistics.

    Names of what is inside a composite begin with its number and a dot, such as ``0.linear_params``.
    """
    numbers = dict(component.parameters())
    if component.children:
        for i, child in enumerate(component.children):
            numbers |= {f"{i}.{name}": value for name, value in component_numbers(child).items()}
        return numbers
    # a batch norm's constants are made of its statistics, in test mode only
    is_batchnorm = type(component).__name__ == "BatchNormComponent"
    for name in component.STATISTICS if is_batchnorm else component.CONSTANTS:
        value = getattr(component, name, None)
        if isinstance(value, np.ndarray):
            numbers[name] = value
    return numbers


def component_form(component: Component) -> tuple[Any, ...]:
    """Type, dimensions and settings of a component, and the shapes of its arrays; not learning rates and the like."""
    settings = [(field.tag, np.asarray(getattr(component, field.attribute)).tolist()) for field in component.FIELDS
                if field.kind in _PLAIN and field.attribute not in _OF_TRAINING and "." not in field.attribute
                and hasattr(component, field.attribute)]
    parts = [getattr(component, field.attribute, None) for field in component.FIELDS if field.attribute]
    models = [part.info() for part in parts if part is not None and hasattr(part, "info")]
    return (type(component).__name__, component.input_dim, component.output_dim, settings, models,
            [(name, value.shape) for name, value in component_numbers(component).items()],
            [component_form(child) for child in component.children])


def same_numbers(mine: Component, theirs: Component) -> bool:
    """Whether all arrays of two components of the same form are equal; NaN is equal to NaN."""
    others = component_numbers(theirs)
    return all(np.array_equal(value, others[name], equal_nan=True)
               for name, value in component_numbers(mine).items())


def same_networks(mine: NetworkStructure, theirs: NetworkStructure) -> bool:
    """Whether two networks have the same nodes, and components of the same names, forms and arrays."""
    return (mine.component_names == theirs.component_names and mine.config_lines() == theirs.config_lines()
            and all(component_form(a) == component_form(b) and same_numbers(a, b)
                    for a, b in zip(mine.components, theirs.components, strict=True)))
