"""Checks of the edits that ``Nnet`` has as methods: names, values, and the network at the end of an edit.

Kaldi reads a network with a cycle, or with a descriptor that it cannot compile, and fails later; here the edit that
would make such a network is refused.
"""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from nnet3py.components.base import Component
from nnet3py.config_line import ConfigLine, is_valid_name
from nnet3py.errors import ConfigError, DescriptorError, NumericError, ShapeError, within
from nnet3py.network.descriptor import Descriptor
from nnet3py.network.descriptor_parser import parse_descriptor
from nnet3py.network.nnet_io import new_component
from nnet3py.network.recurrence import find_loop
from nnet3py.network.structure import DescriptorNode, NetworkStructure, check_nnet, node_dependencies

# Arrays of fixed components that may be overwritten, since no other attribute is derived from them.
FIXED_ARRAYS = {"FixedAffineComponent": ("linear_params", "bias_params"), "FixedScaleComponent": ("vector",),
                "FixedBiasComponent": ("vector",), "ConstantComponent": ("output",),
                "ConstantFunctionComponent": ("output",)}


class EditState:
    """State of an open edit, from which the network is restored if the edit fails.

    Attributes
    ----------
    depth : int
        Number of nested ``with nnet.edit()`` blocks; 0 outside of edits.
    overwritten : list of pairs
        Arrays that ``set_parameters`` has overwritten, each with a copy of its former values.
    old_loop, old_faults
        Names of nodes that were in a cycle or had faulty descriptors before the edit; they are not reported.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.overwritten: list[tuple[np.ndarray, np.ndarray]] = []
        self.old_loop: list[str] = []
        self.old_faults: set[str] = set()

    def __deepcopy__(self, memo: dict[int, object]) -> EditState:
        return EditState()      # a copy of the network is not being edited


def check_edited_network(nnet: NetworkStructure, state: EditState) -> None:
    """Raise ConfigError for faults that make the network unusable, if they were not there before the edit."""
    check_nnet(nnet)
    for name, error in descriptor_faults(nnet):
        if name not in state.old_faults:
            with within(f"node {name}"):
                raise error
    loop = find_loop(nnet)
    if loop and loop != state.old_loop:
        raise ConfigError(f"the nodes {', '.join(loop)} would depend on each other within one time step",
                          "a recurrence goes one way in time, as in IfDefined(Offset(node, -1))")


def descriptor_faults(nnet: NetworkStructure) -> Iterator[tuple[str, DescriptorError]]:
    """Yield the nodes whose descriptors the compiler could not use, each with the reason."""
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, DescriptorNode):
            try:
                node.descriptor.dim(nnet)
                for part in node.descriptor.parts:
                    part.scales()
                    part.constant()
            except DescriptorError as error:
                yield nnet.nodes[i + nnet.is_component_input(i)].name, error


def check_name(name: str, kind: str) -> None:
    """Raise ConfigError if ``name`` is not a valid name of a node or component (``kind``)."""
    if not isinstance(name, str) or not is_valid_name(name):
        raise ConfigError(f"{name!r} cannot name a {kind}", "a letter or '_', then letters, digits, '_', '-' and '.'")


def checked_parameters(value: ArrayLike, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Convert real numbers of the given shape to float32; ``what`` names them in errors.

    Raises
    ------
    ConfigError : values that are not real numbers
    ShapeError : another shape
    NumericError : NaN, infinity, or values beyond the range of float32
    """
    try:
        array = np.asarray(value)
    except ValueError:      # rows of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiu":
        raise ConfigError(f"expected real numbers for {what}, found {type(value).__name__} of {array.dtype}")
    if array.shape != shape:
        raise ShapeError(f"expected shape {shape} for {what}, found {array.shape}")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise NumericError(f"{what} would be {np.asarray(value)[place]} at {place}", "NaN, infinity and numbers "
                           "beyond float32 cannot be parameters")
    return array


def checked_component(nnet: NetworkStructure, name: str, component: Component | str, seed: int) -> Component:
    """Return ``component``, made from the text of a config line if it is text; it will be called ``name``.

    Raises ConfigError for an object of another kind, or a component that the network has under another name,
    and NumericError for parameters that are NaN or infinite.
    """
    if isinstance(component, str):
        if "\n" in component or "#" in component:
            raise ConfigError(f"expected one config line for component {name}, without comment, found {component!r}")
        return new_component(ConfigLine(f"component name={name} {component}"), seed)
    if not isinstance(component, Component):
        raise ConfigError(f"expected a component, or config text such as 'type=NoOpComponent dim=3', for component "
                          f"{name}, found {type(component).__name__}")
    for other, present in zip(nnet.component_names, nnet.components, strict=True):
        if present is component and other != name:
            raise ConfigError(f"the component for '{name}' is in the network already, as '{other}'",
                              "nodes can share a component; or take component.copy()")
    for key, values in component.parameters().items():
        checked_parameters(values, values.shape, f"{key} of component {name}")
    return component


def node_users(nnet: NetworkStructure, i: int) -> list[str]:
    """Return the names of the nodes whose input mentions node ``i``."""
    return [nnet.nodes[user + nnet.is_component_input(user)].name for user in range(len(nnet.nodes))
            if i in node_dependencies(nnet, user) and not nnet.is_component(user)]


def nameable_node(nnet: NetworkStructure, name: str) -> int:
    """Return the index of a node that edits may refer to; the hidden inputs of component nodes are excluded.

    Raises Nnet3Error for a name that no node has, and ConfigError for the hidden input of a component node.
    """
    i = nnet.node_index(name)
    if nnet.is_component_input(i):
        raise ConfigError(f"node {name} is the input of a component node and cannot be edited by itself",
                          f"its component node is {nnet.nodes[i + 1].name}")
    return i


def check_new_node(nnet: NetworkStructure, name: str) -> None:
    """Raise ConfigError for an invalid name of a node, or one that a node has already."""
    check_name(name, "node")
    if name in nnet.node_names:
        raise ConfigError(f"the network already has a node named '{name}'")


def parsed_descriptor(nnet: NetworkStructure, name: str, text: str) -> Descriptor:
    """Parse the input of node ``name``. Raises ConfigError for anything but the text of a valid descriptor."""
    if not isinstance(text, str):
        raise ConfigError(f"node {name}: expected a descriptor such as 'Append(a, b)', found {text!r}")
    visible = {node.name: i for i, node in enumerate(nnet.nodes) if not isinstance(node, DescriptorNode)}
    with within(f"node {name}"):
        return parse_descriptor(text, visible)


def is_integer(value: object) -> bool:
    """Return whether a value is an integer of Python or numpy, but not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
