"""Changing a network from Python: its nodes and what feeds them; see ``surgery.py``."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnet3py.errors import ConfigError, within
from nnet3py.network.config_reader import INPUT_SUFFIX
from nnet3py.network.consistency import node_dependencies
from nnet3py.network.descriptor import Descriptor, Source
from nnet3py.network.descriptor_parser import parse_descriptor
from nnet3py.network.nodes import (
    OBJECTIVES,
    ComponentNode,
    DescriptorNode,
    DimRangeNode,
    InputNode,
    Node,
    without_nodes,
)
from nnet3py.network.orphans import remove_orphans
from nnet3py.network.structure import NetworkStructure
from nnet3py.network.surgery import check_name, listed
from nnet3py.network.surgery_components import ComponentEdits


class NodeEdits(ComponentEdits):
    """Edits of nodes and of what feeds them."""

    def named_nodes(self) -> Iterator[tuple[str, Node]]:
        """Name and object of each node, except the hidden inputs of component nodes.

        >>> [name for name, node in nnet.named_nodes()]
        ['input', 'affine1', 'relu1', 'affine2', 'output']
        """
        for i, node in enumerate(self.nodes):
            if not self.is_component_input(i):
                yield node.name, node

    def node(self, name: str) -> Node:
        """The node of that name. Raises Nnet3Error if there is none.

        >>> nnet.node("input").dim
        40
        """
        return self.nodes[self.node_index(name)]

    def node_input(self, name: str) -> str:
        """What feeds a node, as in its config line; an empty string for an input node.

        >>> nnet.node_input("affine1")
        'Append(Offset(input, -1), input, Offset(input, 1))'
        """
        i = self.node_index(name)
        names = self.node_names
        if self.is_component(i):
            i -= 1
        if self.is_descriptor(i):
            return self.descriptor_of(i).descriptor.text(names)
        return ", ".join(names[source] for source in node_dependencies(self, i))

    def users_of(self, name: str) -> list[str]:
        """The names of the nodes that node ``name`` feeds.

        >>> nnet.users_of("affine1")
        ['relu1']
        """
        return _users(self, self.node_index(name))

    def add_input(self, name: str, dim: int) -> None:
        """Add an input node of ``dim`` columns.

        >>> nnet.add_input("ivector", 100)
        """
        with self.edit():
            _check_new_node(self, name)
            if not _is_integer(dim) or dim < 1:
                raise ConfigError(f"input node {name} cannot have {dim!r} columns", "dim is an integer of 1 or more")
            self.nodes.append(InputNode(name, int(dim)))

    def add_output(self, name: str, input: str, objective: str = "linear") -> None:
        """Add an output node.

        Parameters
        ----------
        name : new
        input : a descriptor, as in config lines
        objective : ``linear`` or ``quadratic``

        >>> nnet.add_output("output-hidden", "relu1", objective="quadratic")
        """
        with self.edit():
            _check_new_node(self, name)
            if objective not in OBJECTIVES:
                raise ConfigError(f"output {name} cannot have the objective {objective!r}",
                                  f"expected {' or '.join(OBJECTIVES)}")
            self.nodes.append(DescriptorNode(name, _parsed(self, name, input), objective))

    def add_node(self, name: str, component: str, input: str) -> None:
        """Add a component node: a use of a component.

        Parameters
        ----------
        name : new
        component : name of a component, which other nodes may also use
        input : a descriptor, as in config lines; it may refer to the new node

        >>> nnet.add_component("tanh", "type=TanhComponent dim=32")
        >>> nnet.add_node("tanh", component="tanh", input="Offset(relu1, -2)")
        """
        with self.edit():
            index = self.component_index(component)
            _check_new_node(self, name)
            _check_new_node(self, name + INPUT_SUFFIX)
            source = DescriptorNode(name + INPUT_SUFFIX, Descriptor(()))
            self.nodes += [source, ComponentNode(name, index)]
            source.descriptor = _parsed(self, name, input)

    def add_dim_range(self, name: str, source: str, dim_offset: int, dim: int) -> None:
        """Add a node for ``dim`` columns of another, from column ``dim_offset`` on.

        >>> nnet.add_dim_range("first-half", "relu1", dim_offset=0, dim=16)
        """
        with self.edit():
            _check_new_node(self, name)
            if not (_is_integer(dim) and _is_integer(dim_offset)):
                raise ConfigError(f"expected integers for dim-range node {name}, found dim_offset={dim_offset!r} and "
                                  f"dim={dim!r}")
            self.nodes.append(DimRangeNode(name, self.node_index(source), int(dim_offset), int(dim)))

    def set_node_input(self, name: str, input: str) -> None:
        """Change what feeds a component node, an output or a dim-range node.

        Parameters
        ----------
        input : a descriptor, as in config lines; for a dim-range node the name of a node

        >>> nnet.set_node_input("affine2", "Sum(relu1, Offset(relu1, 3))")
        """
        with self.edit():
            i = self.node_index(name)
            node = self.nodes[i]
            if isinstance(node, InputNode):
                raise ConfigError(f"node {name} is an input of the network; nothing feeds it")
            if isinstance(node, DimRangeNode):
                node.source = self.node_index(input)
            else:
                self.descriptor_of(i - self.is_component(i)).descriptor = _parsed(self, name, input)

    def redirect(self, old: str, new: str) -> None:
        """Let ``new`` feed all nodes that ``old`` feeds, except ``new`` itself.

        With ``add_node`` this puts a layer after ``old``:

        >>> with nnet.edit():
        ...     nnet.add_component("norm", "type=NormalizeComponent dim=32")
        ...     nnet.add_node("norm", component="norm", input="relu1")
        ...     nnet.redirect("relu1", "norm")
        """
        with self.edit():
            source, target = self.node_index(old), self.node_index(new)
            if self.is_descriptor(target):
                raise ConfigError(f"node {new} is an output of the network; it cannot feed other nodes")
            for i, node in enumerate(self.nodes):
                if i == target or i == target - 1 and self.is_component(target):
                    continue
                if isinstance(node, DimRangeNode) and node.source == source:
                    node.source = target
                elif isinstance(node, DescriptorNode):
                    node.descriptor = node.descriptor.map_sources(
                        lambda leaf: Source(target, leaf.scale) if leaf.node == source else leaf)

    def rename_node(self, old: str, new: str) -> None:
        """Give a node a new name, including where others refer to it; its component keeps its name.

        >>> nnet.rename_node("output", "output-0")
        """
        with self.edit():
            i = _removable(self, old)
            if new == old:
                return
            _check_new_node(self, new)
            if self.is_component(i):
                _check_new_node(self, new + INPUT_SUFFIX)
                self.nodes[i - 1].name = new + INPUT_SUFFIX
            self.nodes[i].name = new

    def remove_node(self, name: str) -> None:
        """Remove a node that feeds no other; its component is kept (``remove_orphans`` removes what is not needed).

        Raises
        ------
        ConfigError : other nodes refer to it, or the network would have no input or no output left

        >>> nnet.add_output("second", "relu1")
        >>> nnet.remove_node("second")
        """
        with self.edit():
            i = _removable(self, name)
            users = [user for user in _users(self, i) if user != name]
            if users:
                raise ConfigError(f"node {name} feeds {listed(users)}",
                                  f"feed them by something else first, as with redirect('{name}', ...)")
            self.nodes = without_nodes(self.nodes, {i, i - 1} if self.is_component(i) else {i})

    def remove_orphans(self, remove_inputs: bool = False) -> None:
        """Remove the nodes that no output needs, and then the components that no node uses.

        Parameters
        ----------
        remove_inputs : also remove input nodes

        >>> nnet.remove_orphans()
        """
        with self.edit():
            remove_orphans(self, remove_inputs)


def _users(nnet: NetworkStructure, i: int) -> list[str]:
    """Names of the nodes that refer to node ``i``; for a component node's input the name of the component node."""
    return [nnet.nodes[user + nnet.is_component_input(user)].name for user in range(len(nnet.nodes))
            if i in node_dependencies(nnet, user) and not nnet.is_component(user)]


def _removable(nnet: NetworkStructure, name: str) -> int:
    """The index of a node that users may name. Raises Nnet3Error if there is none, ConfigError for a hidden one."""
    i = nnet.node_index(name)
    if nnet.is_component_input(i):
        raise ConfigError(f"node {name} is the input of a component node and goes with it",
                          f"its component node is {nnet.nodes[i + 1].name}")
    return i


def _check_new_node(nnet: NetworkStructure, name: str) -> None:
    check_name(name, "node")
    if name in nnet.node_names:
        raise ConfigError(f"the network already has a node named '{name}'")


def _parsed(nnet: NetworkStructure, name: str, text: str) -> Descriptor:
    if not isinstance(text, str):
        raise ConfigError(f"node {name}: expected a descriptor such as 'Append(a, b)', found {text!r}")
    visible = {node.name: i for i, node in enumerate(nnet.nodes) if not isinstance(node, DescriptorNode)}
    with within(f"node {name}"):
        return parse_descriptor(text, visible)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
