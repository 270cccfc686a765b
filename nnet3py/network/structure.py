"""What a network is made of, and how its nodes are connected: the part that descriptors, checks and edits use."""
from __future__ import annotations

import math

from nnet3py.components.base import Component
from nnet3py.config_line import did_you_mean
from nnet3py.errors import Nnet3Error
from nnet3py.network.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, Node

_UNKNOWN_NAME_HINT = 5       # names listed in a message about an unknown one


class NetworkStructure:
    """Nodes and their components.

    Attributes
    ----------
    nodes : in the order of the config; the input of a component node is the descriptor node before it
    components : in the order of the file
    component_names : their names
    version : raised by every change of the structure; what was compiled or bound for an older version is invalid
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.components: list[Component] = []
        self.component_names: list[str] = []
        self.version = 0

    def structure_changed(self) -> None:
        """Must be called after every change of nodes or components (not of parameters)."""
        self.version += 1

    # -- nodes -------------------------------------------------------------------------------------------------------

    @property
    def node_names(self) -> list[str]:
        """The name of each node; a component's input has the component node's name and ``_input``."""
        return [node.name for node in self.nodes]

    def node_index(self, name: str) -> int:
        """The index of a node. Raises Nnet3Error if there is none of that name."""
        return _index_of(name, self.node_names, "node")

    def component_index(self, name: str) -> int:
        """The index of a component. Raises Nnet3Error if there is none of that name."""
        return _index_of(name, self.component_names, "component")

    def component(self, name: str) -> Component:
        """The component of that name. Raises Nnet3Error if there is none."""
        return self.components[self.component_index(name)]

    def component_of(self, i: int) -> Component:
        """The component of component node ``i``."""
        node = self.nodes[i]
        assert isinstance(node, ComponentNode), f"node {node.name} is not a component node"
        return self.components[node.component_index]

    def is_input(self, i: int) -> bool:
        """True for an input node."""
        return isinstance(self.nodes[i], InputNode)

    def is_component(self, i: int) -> bool:
        """True for a component node."""
        return isinstance(self.nodes[i], ComponentNode)

    def is_dim_range(self, i: int) -> bool:
        """True for a dim-range node."""
        return isinstance(self.nodes[i], DimRangeNode)

    def is_descriptor(self, i: int) -> bool:
        """True for an output node and for the input of a component node."""
        return isinstance(self.nodes[i], DescriptorNode)

    def is_component_input(self, i: int) -> bool:
        """True for the descriptor node that feeds the component node after it."""
        return self.is_descriptor(i) and i + 1 < len(self.nodes) and self.is_component(i + 1)

    def is_output(self, i: int) -> bool:
        """True for an output node."""
        return self.is_descriptor(i) and not self.is_component_input(i)

    def descriptor_of(self, i: int) -> DescriptorNode:
        """Node ``i``, which must have a descriptor: an output node, or the input of a component node."""
        node = self.nodes[i]
        assert isinstance(node, DescriptorNode), f"node {node.name} has no descriptor"
        return node

    def node_dim(self, i: int) -> int:
        """Columns of the matrices of node ``i``. Raises DescriptorError for a sum of unequal dimensions."""
        node = self.nodes[i]
        if isinstance(node, DescriptorNode):
            return node.descriptor.dim(self)
        if isinstance(node, ComponentNode):
            return self.components[node.component_index].output_dim
        return node.dim

    def input_dim(self, name: str = "input") -> int:
        """Dimension of the input node ``name``, -1 if the network has no such input."""
        return next((node.dim for node in self.nodes if isinstance(node, InputNode) and node.name == name), -1)

    def output_dim(self, name: str = "output") -> int:
        """Dimension of the output node ``name``, -1 if the network has no such output."""
        return next((self.node_dim(i) for i, node in enumerate(self.nodes)
                     if node.name == name and self.is_output(i)), -1)

    def is_simple(self) -> bool:
        """True if it has an ``input``, an ``output`` and at most one more input, ``ivector``. Kaldi: IsSimpleNnet."""
        inputs = [node.name for node in self.nodes if isinstance(node, InputNode)]
        return self.output_dim("output") > 0 and "input" in inputs and (len(inputs) == 1 or "ivector" in inputs)

    def modulus(self) -> int:
        """The smallest shift of t under which all descriptors mean the same; components play no part in it."""
        return math.lcm(*(node.descriptor.modulus() for node in self.nodes if isinstance(node, DescriptorNode)))

    # -- as config text -----------------------------------------------------------------------------------------------

    def config_lines(self, include_dims: bool = False) -> list[str]:
        """A config line per node, except component inputs; with dims they are for human readers."""
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
