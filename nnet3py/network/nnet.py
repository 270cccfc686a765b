"""The network: nodes that say what feeds what, and the components they use. Kaldi: ``Nnet`` of ``nnet-nnet.h``."""
from __future__ import annotations

import copy
import logging
import math
import os

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.io.object_files import write_object
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network import surgery, surgery_components, surgery_nodes
from nnet3py.network.config_reader import read_config_into
from nnet3py.network.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, Node

logger = logging.getLogger(__name__)

MAX_COMPONENTS = 100000
_UNKNOWN_NAME_HINT = 5       # names listed in a message about an unknown one


class Nnet:
    """A network.

    Attributes
    ----------
    nodes : in the order of the config; the input of a component node is the descriptor node before it
    components : in the order of the file
    component_names : their names
    version : raised by every change of the structure; what was compiled or bound for an older one is void
    prepared_version : the version that ``prepare_for_test`` has left; -1 if it was not called
    path : the file that it was read from, as it was named; None for one made otherwise
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.components: list[Component] = []
        self.component_names: list[str] = []
        self.version, self.prepared_version = 0, -1
        self.path: str | None = None
        self._edit_state = surgery.EditState()

    # -- nodes -------------------------------------------------------------------------------------------------------

    @property
    def node_names(self) -> list[str]:
        """The name of each node; that of a component's input is the component node's and ``_input``."""
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
        """Node ``i``, which must have a descriptor: an output node or the input of a component node."""
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

    def input_dim(self, name: str) -> int:
        """Dimension of the input node ``name``, -1 if the network has no such input."""
        return next((node.dim for node in self.nodes if isinstance(node, InputNode) and node.name == name), -1)

    def output_dim(self, name: str) -> int:
        """Dimension of the output node ``name``, -1 if the network has no such output."""
        return next((self.node_dim(i) for i, node in enumerate(self.nodes)
                     if node.name == name and self.is_output(i)), -1)

    def is_simple(self) -> bool:
        """True if it has an ``input``, an ``output`` and, with more inputs, an ``ivector``. Kaldi: IsSimpleNnet."""
        inputs = [node.name for node in self.nodes if isinstance(node, InputNode)]
        return self.output_dim("output") > 0 and "input" in inputs and (len(inputs) == 1 or "ivector" in inputs)

    def modulus(self) -> int:
        """The smallest shift of t under which all descriptors mean the same; components play no part in it."""
        return math.lcm(*(node.descriptor.modulus() for node in self.nodes if isinstance(node, DescriptorNode)))

    # -- looking at it and changing it (surgery*.py) -----------------------------------------------------------------

    named_components = surgery_components.named_components
    named_nodes = surgery_nodes.named_nodes
    node = surgery_nodes.node
    node_input = surgery_nodes.node_input
    users_of = surgery_nodes.users_of
    arrays = surgery_components.arrays
    edit = surgery.edit
    set_parameters = surgery_components.set_parameters
    add_component = surgery_components.add_component
    replace_component = surgery_components.replace_component
    rename_component = surgery_components.rename_component
    remove_component = surgery_components.remove_component
    add_input = surgery_nodes.add_input
    add_output = surgery_nodes.add_output
    add_node = surgery_nodes.add_node
    add_dim_range = surgery_nodes.add_dim_range
    set_node_input = surgery_nodes.set_node_input
    redirect = surgery_nodes.redirect
    rename_node = surgery_nodes.rename_node
    remove_node = surgery_nodes.remove_node
    remove_orphans = surgery_nodes.remove_orphans

    # -- configs -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, text: str, seed: int = 0, path: str | None = None) -> Nnet:
        """A network from config text; arguments and errors as for :meth:`read_config`."""
        nnet = cls()
        nnet.read_config(text, seed, path)
        return nnet

    def read_config(self, text: str, seed: int = 0, path: str | None = None) -> None:
        """Add the nodes and components of a config, which override those of the same name.

        Parameters
        ----------
        text : the config
        seed : of the random parameters; each component's also depend on its name, and on nothing else
        path : where the text comes from, for messages

        Raises
        ------
        ConfigError : the network is then as it was before
        """
        read_config_into(self, text, seed, path)
        self.structure_changed()

    def structure_changed(self) -> None:
        """To be called after every change of nodes or components (not of parameters)."""
        self.version += 1

    def config_lines(self, include_dims: bool = False) -> list[str]:
        """A config line per node, those of component inputs excepted; with dims they are for reading by people."""
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

    def check(self, warn_for_orphans: bool = False) -> None:
        """Raise ConfigError if the nodes do not fit each other; warn of what no output needs, if asked to.

        Kaldi: Nnet::Check.
        """
        from nnet3py.network.consistency import check_nnet

        check_nnet(self, warn_for_orphans)

    # -- parameters --------------------------------------------------------------------------------------------------

    def copy(self) -> Nnet:
        """A deep copy; its version is the same, so that compiled computations fit it too."""
        return copy.deepcopy(self)

    def as_gradient(self) -> Nnet:
        """A copy with all parameters and statistics zero, marked as a gradient: what is added to it are derivatives."""
        gradient = self.copy()
        gradient.scale(0.0)
        for component in gradient._updatable():
            component.set_as_gradient()    # type: ignore[attr-defined]
        return gradient

    def scale(self, factor: float) -> None:
        """Multiply all parameters and statistics by ``factor``, in place; 0 makes exact zeros."""
        for component in self.components:
            component.scale(factor)

    def add(self, alpha: float, other: Nnet) -> None:
        """Add ``alpha`` times the parameters and statistics of a network of the same structure, in place."""
        self.check_alike(other)
        for mine, theirs in zip(self.components, other.components, strict=True):
            mine.add(alpha, theirs)

    def dot_product(self, other: Nnet) -> float:
        """Sum over all trainable parameters of this network's times the other's."""
        self.check_alike(other)
        return sum(mine.dot_product(theirs)    # type: ignore[attr-defined]
                   for mine, theirs in zip(self.components, other.components, strict=True)
                   if mine.has(Properties.UPDATABLE))

    def squares(self) -> np.ndarray:
        """For each component the sum of the squares of its trainable parameters, float64; 0 for one without."""
        return np.array([component.dot_product(component)       # type: ignore[attr-defined]
                         if component.has(Properties.UPDATABLE) else 0.0 for component in self.components])

    def scale_components(self, factors: np.ndarray) -> None:
        """Multiply parameters and statistics of each component by its factor, in place; 0 makes exact zeros."""
        for component, factor in zip(self.components, factors, strict=True):
            if factor != 1.0:
                component.scale(float(factor))

    def add_components(self, factors: np.ndarray, other: Nnet) -> None:
        """Add to each component that of ``other`` times its factor, in place; nothing for 0."""
        for component, factor, theirs in zip(self.components, factors, other.components, strict=True):
            if factor != 0.0:
                component.add(float(factor), theirs)

    def num_parameters(self) -> int:
        """How many numbers training changes."""
        return sum(component.num_parameters() for component in self._updatable())

    def _updatable(self) -> list[Component]:
        return [component for component in self.components if component.has(Properties.UPDATABLE)]

    def check_alike(self, other: Nnet) -> None:
        """Raise ShapeError if the other network has other types of components, or parameters of other shapes."""
        mine, theirs = ([(type(c).__name__, {name: p.shape for name, p in c.parameters().items()})
                         for c in nnet.components] for nnet in (self, other))
        if mine != theirs:
            raise ShapeError("the two networks have different components or parameters of different shapes")

    # -- files -------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader: TokenReader) -> Nnet:
        """Read a network, from ``<Nnet3>`` to ``</Nnet3>``.

        Raises
        ------
        FormatError : bytes that are not a network
        ConfigError : config lines in it that cannot be used
        """
        from nnet3py.network.model_file import read_nnet_body

        return read_nnet_body(reader)

    def write_to(self, writer: TokenWriter) -> None:
        """Write the network, from ``<Nnet3>`` to ``</Nnet3>``."""
        from nnet3py.network.model_file import write_nnet_body

        write_nnet_body(self, writer)

    def write(self, path: str | os.PathLike[str], binary: bool = True) -> None:
        """Write the network to a file of its own (``path`` may be any wxfilename)."""
        write_object(path, self.write_to, binary)


def _index_of(name: str, names: list[str], kind: str) -> int:
    from nnet3py.config_line import did_you_mean

    if name not in names:
        listed = ", ".join(names[:_UNKNOWN_NAME_HINT]) + (", ..." if len(names) > _UNKNOWN_NAME_HINT else "")
        raise Nnet3Error(f"the network has no {kind} '{name}'", did_you_mean(name, names) or f"it has {listed}")
    return names.index(name)
