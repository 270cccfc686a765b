"""Nodes and components of a network: inspection, consistency checks, orphans and equality.

Kaldi: ``NetworkNode``, ``Nnet::Check``, ``FindOrphanNodes``, ``RemoveOrphanNodes``.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.components.updatable import SETTINGS
from nnet3py.config_line import did_you_mean
from nnet3py.errors import ConfigError, Nnet3Error
from nnet3py.network.descriptor import Descriptor

OBJECTIVES = ("linear", "quadratic")


@dataclass
class InputNode:
    """Input of the network, whose rows the caller supplies."""

    name: str
    dim: int


@dataclass
class DescriptorNode:
    """Input of the component node that follows it, or an output of the network.

    ``objective`` : objective of training for outputs, ``linear`` or ``quadratic``.
    """

    name: str
    descriptor: Descriptor
    objective: str = "linear"


@dataclass
class ComponentNode:
    """Application of a component to the node before it, its input. Several nodes may share a component."""

    name: str
    component_index: int


@dataclass
class DimRangeNode:
    """Columns ``dim_offset`` to ``dim_offset + dim`` of node ``source``, an input or component node."""

    name: str
    source: int
    dim_offset: int
    dim: int


Node = InputNode | DescriptorNode | ComponentNode | DimRangeNode


def without_nodes(nodes: Sequence[Node], removed: Collection[int]) -> list[Node]:
    """Return the nodes without the removed ones, renumbered; nodes that refer to others are new objects.

    No remaining node may refer to a removed one.
    """
    kept = [i for i in range(len(nodes)) if i not in removed]
    new_index = [-1] * len(nodes)
    for new, old in enumerate(kept):
        new_index[old] = new
    return [_renumbered(nodes[i], new_index) for i in kept]


def _renumbered(node: Node, new_index: Sequence[int]) -> Node:
    if isinstance(node, DescriptorNode):
        return replace(node, descriptor=node.descriptor.renumbered(new_index))
    if isinstance(node, DimRangeNode):
        return replace(node, source=new_index[node.source])
    return node


_UNKNOWN_NAME_HINT = 5       # names listed in a message about an unknown one


class NetworkStructure:
    """Base of networks: nodes and components, for descriptors, checks and the reader of config lines.

    Attributes
    ----------
    nodes : list of Node
        Nodes in the order of the config; the input of a component node is the descriptor node before it.
    components : list of Component
        Components in the order of the model file.
    component_names : list of str
        Name of each component.
    version : int
        Number that increases with every change of the structure; computations compiled or bound for an older version
        are invalid.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.components: list[Component] = []
        self.component_names: list[str] = []
        self.version = 0

    def structure_changed(self) -> None:
        """Increase ``version``: to be called after every change of nodes or components (not of parameters)."""
        self.version += 1

    @property
    def node_names(self) -> list[str]:
        """Name of each node; the input of component node ``NAME`` is called ``NAME_input``."""
        return [node.name for node in self.nodes]

    def node_index(self, name: str) -> int:
        """Return the index of a node. Raises Nnet3Error for a name that no node has."""
        return _index_of(name, self.node_names, "node")

    def component_index(self, name: str) -> int:
        """Return the index of a component. Raises Nnet3Error for a name that no component has."""
        return _index_of(name, self.component_names, "component")

    def component(self, name: str) -> Component:
        """Return a component by its name. Raises Nnet3Error for a name that no component has."""
        return self.components[self.component_index(name)]

    def component_of(self, i: int) -> Component:
        """Return the component of component node ``i``."""
        node = self.nodes[i]
        assert isinstance(node, ComponentNode), f"node {node.name} is not a component node"
        return self.components[node.component_index]

    def is_input(self, i: int) -> bool:
        """Return whether node ``i`` is an input node."""
        return isinstance(self.nodes[i], InputNode)

    def is_component(self, i: int) -> bool:
        """Return whether node ``i`` is a component node."""
        return isinstance(self.nodes[i], ComponentNode)

    def is_descriptor(self, i: int) -> bool:
        """Return whether node ``i`` has a descriptor: an output node, or the input of a component node."""
        return isinstance(self.nodes[i], DescriptorNode)

    def is_component_input(self, i: int) -> bool:
        """Return whether node ``i`` is the input of the component node that follows it."""
        return self.is_descriptor(i) and i + 1 < len(self.nodes) and self.is_component(i + 1)

    def is_output(self, i: int) -> bool:
        """Return whether node ``i`` is an output node."""
        return self.is_descriptor(i) and not self.is_component_input(i)

    def descriptor_of(self, i: int) -> DescriptorNode:
        """Return node ``i``, which must have a descriptor: an output node, or the input of a component node."""
        node = self.nodes[i]
        assert isinstance(node, DescriptorNode), f"node {node.name} has no descriptor"
        return node

    def node_dim(self, i: int) -> int:
        """Return the number of columns of node ``i``. Raises DescriptorError for a sum of unequal dimensions."""
        node = self.nodes[i]
        if isinstance(node, DescriptorNode):
            return node.descriptor.dim(self)
        if isinstance(node, ComponentNode):
            return self.components[node.component_index].output_dim
        return node.dim

    def input_dim(self, name: str = "input") -> int:
        """Return the dimension of the input node ``name``, or -1 if the network has no such input."""
        return next((node.dim for node in self.nodes if isinstance(node, InputNode) and node.name == name), -1)

    def output_dim(self, name: str = "output") -> int:
        """Return the dimension of the output node ``name``, or -1 if the network has no such output."""
        return next((self.node_dim(i) for i, node in enumerate(self.nodes)
                     if node.name == name and self.is_output(i)), -1)

    def is_simple(self) -> bool:
        """Return whether inputs are ``input`` and perhaps ``ivector``, and there is an ``output``. Kaldi: IsSimpleNnet.
        """
        inputs = [node.name for node in self.nodes if isinstance(node, InputNode)]
        return self.output_dim("output") > 0 and "input" in inputs and (len(inputs) == 1 or "ivector" in inputs)

    def modulus(self) -> int:
        """Return the smallest shift of t, in frames, that does not change the meaning of any descriptor.

        As in Kaldi, components are not considered.
        """
        return math.lcm(*(node.descriptor.modulus() for node in self.nodes if isinstance(node, DescriptorNode)))

    def config_lines(self, include_dims: bool = False) -> list[str]:
        """Return a config line for each node except component inputs; lines with dimensions are for display only."""
        names = self.node_names
        return [self._config_line(i, node, names, include_dims) for i, node in enumerate(self.nodes)
                if not self.is_component_input(i)]

    def _config_line(self, i: int, node: Node, names: list[str], include_dims: bool) -> str:
        if isinstance(node, InputNode):
            return f"input-node name={node.name} dim={node.dim}"
        if isinstance(node, DescriptorNode):
            dim = f" dim={self.node_dim(i)}" if include_dims else ""
            return f"output-node name={node.name} input={node.descriptor.text(names)}{dim} objective={node.objective}"
        if isinstance(node, DimRangeNode):
            return (f"dim-range-node name={node.name} input-node={names[node.source]} dim-offset={node.dim_offset} "
                    f"dim={node.dim}")
        component = self.components[node.component_index]
        dims = f" input-dim={component.input_dim} output-dim={component.output_dim}" if include_dims else ""
        return (f"component-node name={node.name} component={self.component_names[node.component_index]} "
                f"input={self.descriptor_of(i - 1).descriptor.text(names)}{dims}")


def _index_of(name: str, names: list[str], kind: str) -> int:
    if name not in names:
        listed = ", ".join(names[:_UNKNOWN_NAME_HINT]) + (", ..." if len(names) > _UNKNOWN_NAME_HINT else "")
        raise Nnet3Error(f"the network has no {kind} '{name}'", did_you_mean(name, names) or f"it has {listed}")
    return names.index(name)


logger = logging.getLogger(__name__)


def check_nnet(nnet: NetworkStructure, warn_for_orphans: bool = False) -> None:
    """Raise ConfigError if dimensions of nodes do not match, or an input or output is missing.

    With ``warn_for_orphans``, also log a warning for each node and component that no output needs.
    """
    inputs = [node for node in nnet.nodes if isinstance(node, InputNode)]
    if not inputs or not any(nnet.is_output(i) for i in range(len(nnet.nodes))):
        raise ConfigError(f"the network has {len(nnet.nodes)} nodes but no {'output' if inputs else 'input'} node",
                          "it needs at least one input-node and one output-node")
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, DimRangeNode):
            _check_dim_range(nnet, node)
        elif isinstance(node, ComponentNode):
            dim, expected = nnet.node_dim(i - 1), nnet.component_of(i).input_dim
            if dim != expected:
                raise ConfigError(f"Dimension mismatch for network-node {node.name}: input-dim {dim} versus "
                                  f"component-input-dim {expected}",
                                  f"component {nnet.component_names[node.component_index]}, "
                                  f"input={nnet.descriptor_of(i - 1).descriptor.text(nnet.node_names)}")
    if warn_for_orphans:
        for c in orphan_components(nnet):
            logger.warning("Component %s is never used by any node.", nnet.component_names[c])
        for i in orphan_nodes(nnet):
            if not nnet.is_component_input(i):
                logger.warning("Node %s is never used to compute any output.", nnet.nodes[i].name)


def _check_dim_range(nnet: NetworkStructure, node: DimRangeNode) -> None:
    source = nnet.nodes[node.source]
    if not isinstance(source, InputNode | ComponentNode):
        raise ConfigError(f"Invalid node type in dim-range node: {node.name} takes columns of {source.name}",
                          "its input-node must be an input or component node")
    dim = nnet.node_dim(node.source)
    if node.dim <= 0 or node.dim_offset < 0 or node.dim_offset + node.dim > dim:
        raise ConfigError(f"Invalid node dimensions for dim-range node {node.name}: columns {node.dim_offset} to "
                          f"{node.dim_offset + node.dim - 1} of {source.name}, which has {dim}")


def node_dependencies(nnet: NetworkStructure, i: int) -> list[int]:
    """Return the indexes of the nodes that node ``i`` reads."""
    node = nnet.nodes[i]
    if isinstance(node, DescriptorNode):
        return node.descriptor.source_nodes()
    if isinstance(node, ComponentNode):
        return [i - 1]
    return [node.source] if isinstance(node, DimRangeNode) else []


def orphan_nodes(nnet: NetworkStructure) -> list[int]:
    """Return the indexes of nodes that no output needs, in increasing order. Kaldi: FindOrphanNodes."""
    pending = [i for i in range(len(nnet.nodes)) if nnet.is_output(i)]
    needed = set(pending)
    while pending:
        new = set(node_dependencies(nnet, pending.pop())) - needed
        needed |= new
        pending += new
    return [i for i in range(len(nnet.nodes)) if i not in needed]


def orphan_components(nnet: NetworkStructure) -> list[int]:
    """Return the indexes of components that no node uses, in increasing order. Kaldi: FindOrphanComponents."""
    used = np.zeros(len(nnet.components), dtype=bool)
    for node in nnet.nodes:
        if isinstance(node, ComponentNode):
            used[node.component_index] = True
    return [int(c) for c in np.flatnonzero(~used)]


def remove_orphans(nnet: NetworkStructure, remove_inputs: bool = False) -> None:
    """Remove the nodes that no output needs, then the components that no node uses, in place."""
    remove_orphan_nodes(nnet, remove_inputs)
    remove_orphan_components(nnet)


def remove_orphan_nodes(nnet: NetworkStructure, remove_inputs: bool = False) -> None:
    """Remove the nodes that no output needs, in place, and log their number.

    Without ``remove_inputs`` orphaned input nodes are kept; but of two neighbors in the list of orphans only the first
    is, as in Kaldi, so that edited files are equal to Kaldi's.
    """
    orphans = orphan_nodes(nnet)
    if not remove_inputs:
        orphans = _without_inputs(nnet, orphans)
    count = sum(not nnet.is_component_input(i) for i in orphans)
    remove_nodes(nnet, orphans)
    logger.info("Removed %d orphan nodes.", count)


def _without_inputs(nnet: NetworkStructure, orphans: list[int]) -> list[int]:
    kept, position = [], 0
    while position < len(orphans):
        if nnet.is_input(orphans[position]):
            position += 1                    # the input is kept; the orphan after it is removed, even if it is an input
        kept += orphans[position:position + 1]
        position += 1
    return kept


def remove_nodes(nnet: NetworkStructure, indexes: Iterable[int]) -> None:
    """Remove nodes that no other node needs, in place; the others are renumbered.

    Raises ConfigError if no input or no output node would remain; the network is unchanged.
    """
    removed = set(indexes)
    if not removed:
        return
    trial = NetworkStructure()
    trial.components, trial.component_names = nnet.components, nnet.component_names
    trial.nodes = without_nodes(nnet.nodes, removed)
    check_nnet(trial)
    nnet.nodes = trial.nodes
    nnet.structure_changed()


def remove_orphan_components(nnet: NetworkStructure) -> None:
    """Remove the components that no node uses, in place, and log their number."""
    orphans = set(orphan_components(nnet))
    logger.info("Removing %d orphan components.", len(orphans))
    if not orphans:
        return
    kept = [c for c in range(len(nnet.components)) if c not in orphans]
    new_index = {old: new for new, old in enumerate(kept)}
    nnet.components = [nnet.components[c] for c in kept]
    nnet.component_names = [nnet.component_names[c] for c in kept]
    for node in nnet.nodes:
        if isinstance(node, ComponentNode):
            node.component_index = new_index[node.component_index]
    nnet.structure_changed()


_TRAINING_SETTINGS = {field.attribute for field in SETTINGS}
_SETTING_KINDS = ("dim", "block_dim", "integer", "float32", "integer_vector", "integer_pairs")


def component_arrays(component: Component) -> dict[str, np.ndarray]:
    """Return the arrays that a component computes with: parameters, constants, statistics of batch normalization.

    Names of arrays of a composite's children begin with the child's number and a dot, such as ``0.linear_params``.
    """
    arrays = dict(component.parameters())
    if component.children:
        for i, child in enumerate(component.children):
            arrays |= {f"{i}.{name}": value for name, value in component_arrays(child).items()}
        return arrays
    # the constants of batch normalization are computed from its statistics, and only in test mode
    is_batchnorm = type(component).__name__ == "BatchNormComponent"
    for name in component.STATISTICS if is_batchnorm else component.CONSTANTS:
        value = getattr(component, name, None)
        if isinstance(value, np.ndarray):
            arrays[name] = value
    return arrays


def component_form(component: Component) -> tuple[Any, ...]:
    """Return type, dimensions, settings (but not those of training) and array shapes of a component."""
    settings = [(field.tag, np.asarray(getattr(component, field.attribute)).tolist()) for field in component.FIELDS
                if field.kind in _SETTING_KINDS and field.attribute not in _TRAINING_SETTINGS
                and "." not in field.attribute and hasattr(component, field.attribute)]
    parts = [getattr(component, field.attribute, None) for field in component.FIELDS if field.attribute]
    models = [part.info() for part in parts if part is not None and hasattr(part, "info")]
    return (type(component).__name__, component.input_dim, component.output_dim, settings, models,
            [(name, value.shape) for name, value in component_arrays(component).items()],
            [component_form(child) for child in component.children])


def same_arrays(mine: Component, theirs: Component) -> bool:
    """Return whether all arrays of two components of the same form are equal; NaN equals NaN."""
    others = component_arrays(theirs)
    return all(np.array_equal(value, others[name], equal_nan=True) for name, value in component_arrays(mine).items())


def same_networks(mine: NetworkStructure, theirs: NetworkStructure) -> bool:
    """Return whether two networks have equal nodes and equal components: names, forms and arrays."""
    return (mine.component_names == theirs.component_names and mine.config_lines() == theirs.config_lines()
            and all(component_form(a) == component_form(b) and same_arrays(a, b)
                    for a, b in zip(mine.components, theirs.components, strict=True)))
