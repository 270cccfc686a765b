"""The network: nodes, which are connected by descriptors, and their components. Kaldi: ``Nnet`` of ``nnet-nnet.h``."""
from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnet3py.advice import NETWORK, Advising
from nnet3py.components.base import Component
from nnet3py.components.updatable import UpdatableComponent, is_updatable
from nnet3py.config_line import did_you_mean
from nnet3py.errors import ConfigError, Nnet3Error, ShapeError, UsageError
from nnet3py.io.object_files import write_object
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.callable_model import CallableModel
from nnet3py.network.descriptor import Descriptor, Source
from nnet3py.network.edit_checks import (
    FIXED_ARRAYS,
    EditState,
    check_edited_network,
    check_name,
    check_new_node,
    checked_component,
    checked_parameters,
    descriptor_faults,
    is_integer,
    nameable_node,
    node_users,
    parsed_descriptor,
)
from nnet3py.network.nnet_io import INPUT_SUFFIX, read_body, read_config_into, write_body
from nnet3py.network.recurrence import find_loop
from nnet3py.network.structure import (
    OBJECTIVES,
    ComponentNode,
    DescriptorNode,
    DimRangeNode,
    InputNode,
    NetworkStructure,
    Node,
    check_nnet,
    node_dependencies,
    remove_orphans,
    same_networks,
    without_nodes,
)
from nnet3py.provided import Shown


class Nnet(NetworkStructure, CallableModel, Advising, Shown):
    """Network of nodes and components, with methods for parameters, files and edits.

    ``structure.py`` has the methods that inspect nodes and components. An edit that would leave a network that Kaldi
    cannot use is refused, and the network is then unchanged; edits that are valid only together are made inside
    ``with nnet.edit():``.

    Attributes
    ----------
    prepared_version : int
        The version after ``prepare_for_test``; -1 if that was not called.
    path : str or None
        The file that the network was read from, as given; None for a network that was made otherwise.
    """

    _FROM_FILE: ClassVar[str] = ("nnet3py.read_nnet('final.raw') reads a file, nnet3py.Nnet.from_config(text) config "
                                 "lines")
    _WHAT, _ELSEWHERE = "a network", NETWORK

    def __init__(self) -> None:
        super().__init__()
        self.prepared_version = -1
        self.path: str | None = None
        self._edit_state = EditState()

    # -- configs -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, text: str, seed: int = 0, path: str | None = None) -> Nnet:
        """Return a network made from config lines; arguments and errors are those of :meth:`read_config`.

        Raises UsageError if ``text`` is the name of a file.
        """
        if isinstance(text, os.PathLike) or (isinstance(text, str) and text.endswith((".config", ".xconfig"))):
            raise UsageError(f"expected config lines, found the name {os.fspath(text)}",
                             f"nnet3py.Nnet.from_config(open({os.fspath(text)!r}).read())")
        nnet = cls()
        nnet.read_config(text, seed, path)
        return nnet

    def read_config(self, text: str, seed: int = 0, path: str | None = None) -> None:
        """Add the nodes and components of a config, which override those of the same name.

        Parameters
        ----------
        text : config lines
        seed : seed of the random parameters; those of a component depend only on the seed and its name
        path : source of the text, for error messages

        Raises
        ------
        ConfigError : an invalid config; the network is then unchanged
        """
        read_config_into(self, text, seed, path)
        self.structure_changed()

    def check(self, warn_for_orphans: bool = False) -> None:
        """Raise ConfigError if dimensions of nodes do not match, or an input or output is missing. Kaldi: Nnet::Check.

        With ``warn_for_orphans``, also warn of nodes and components that no output needs.
        """
        check_nnet(self, warn_for_orphans)

    # -- parameters --------------------------------------------------------------------------------------------------

    def copy(self) -> Nnet:
        """Return a deep copy with the same version, so that compiled computations fit it too."""
        return copy.deepcopy(self)

    def as_gradient(self) -> Nnet:
        """Return a copy with all parameters and statistics zero, marked as a gradient: derivatives are added to it."""
        gradient = self.copy()
        gradient.scale(0.0)
        for component in gradient._updatable():
            component.set_as_gradient()
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
        """Return the dot product of all trainable parameters of this network and the other."""
        self.check_alike(other)
        return sum(mine.dot_product(theirs) for mine, theirs in zip(self.components, other.components, strict=True)
                   if is_updatable(mine) and is_updatable(theirs))

    def squares(self) -> np.ndarray:
        """Return each component's sum of squares of its trainable parameters, float64 (components,); 0 without any."""
        return np.array([component.dot_product(component) if is_updatable(component) else 0.0
                         for component in self.components])

    def scale_components(self, factors: np.ndarray) -> None:
        """Multiply each component's parameters and statistics by its factor, in place; 0 makes exact zeros.

        ``factors`` is float (components,).
        """
        for component, factor in zip(self.components, factors, strict=True):
            if factor != 1.0:
                component.scale(float(factor))

    def add_components(self, factors: np.ndarray, other: Nnet) -> None:
        """Add the components of ``other`` times ``factors``, float (components,), to these, in place."""
        for component, factor, theirs in zip(self.components, factors, other.components, strict=True):
            if factor != 0.0:
                component.add(float(factor), theirs)

    def num_parameters(self) -> int:
        """Return the number of trainable parameters."""
        return sum(component.num_parameters() for component in self._updatable())

    def _updatable(self) -> list[UpdatableComponent]:
        return [component for component in self.components if is_updatable(component)]

    def __eq__(self, other: object) -> bool:
        """Return whether both networks compute the same: equal nodes, component names, types, dimensions and arrays.

        Arrays are parameters, fixed matrices and statistics of batch normalization. Learning rates and other training
        settings, test modes and other statistics are ignored. :func:`nnet3py.compare` lists the differences.
        """
        if not isinstance(other, Nnet):
            return NotImplemented
        return self is other or same_networks(self, other)

    __hash__ = object.__hash__        # by identity, since networks are mutable

    def check_alike(self, other: Nnet) -> None:
        """Raise ShapeError if the other network has other component types, or parameters of other shapes."""
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
        if isinstance(reader, str | os.PathLike):
            raise UsageError("Nnet.read takes an open file", "nnet3py.read_nnet('final.raw') reads one by its name")
        config, components = read_body(reader)
        nnet = cls()
        nnet.component_names, nnet.components = list(components), list(components.values())
        nnet.path = reader.path or None
        nnet.read_config(config, path=nnet.path)
        return nnet

    def write_to(self, writer: TokenWriter) -> None:
        """Write the network, from ``<Nnet3>`` to ``</Nnet3>``."""
        write_body(self, writer)

    def write(self, path: str | os.PathLike[str], binary: bool = True) -> None:
        """Write a raw network to ``path``, which may be any wxfilename."""
        write_object(path, self.write_to, binary)

    # -- edits -------------------------------------------------------------------------------------------------------

    @contextmanager
    def edit(self) -> Iterator[Nnet]:
        """Open a block of edits that are valid only together: either all are made or none.

        Names and references are checked at each step, dimensions and cycles at the end. An exception in the block
        restores the network, including the parameters that ``set_parameters`` has set.

        >>> with nnet.edit():                       # none of the three is valid without the others
        ...     nnet.replace_component("affine1", "type=AffineComponent input-dim=120 output-dim=64")
        ...     nnet.replace_component("relu1", "type=RectifiedLinearComponent dim=64")
        ...     nnet.replace_component("affine2", "type=AffineComponent input-dim=64 output-dim=10")
        """
        state = self._edit_state
        if state.depth == 0:
            state.old_loop, state.old_faults = find_loop(self), {name for name, _ in descriptor_faults(self)}
        nodes, fields = list(self.nodes), [dict(vars(node)) for node in self.nodes]
        components, names, version = list(self.components), list(self.component_names), self.version
        num_overwritten = len(state.overwritten)
        state.depth += 1
        try:
            yield self
            if state.depth == 1:
                check_edited_network(self, state)
                self.structure_changed()
        except BaseException:
            self.nodes, self.components, self.component_names, self.version = nodes, components, names, version
            for node, values in zip(nodes, fields, strict=True):
                vars(node).update(values)
            while len(state.overwritten) > num_overwritten:
                array, values_before = state.overwritten.pop()
                array[...] = values_before
            raise
        finally:
            state.depth -= 1
            if state.depth == 0:
                state.overwritten.clear()

    def named_components(self) -> Iterator[tuple[str, Component]]:
        """Yield name and object of each component, in the order of the file.

        >>> [name for name, component in nnet.named_components() if component.parameters()]
        ['affine1', 'affine2']
        """
        yield from zip(self.component_names, self.components, strict=True)

    def arrays(self, name: str) -> dict[str, NDArray[np.float32]]:
        """Return the arrays of a component that :meth:`set_parameters` can set: name -> float32 (rows, cols) or (dim,).

        These views are the trained parameters, or the values of a fixed component (an LDA transform, scales, biases).

        >>> {key: values.shape for key, values in nnet.arrays("affine2").items()}
        {'linear_params': (10, 32), 'bias_params': (10,)}
        """
        component = self.component(name)
        fixed = FIXED_ARRAYS.get(type(component).__name__, ())
        return component.parameters() or {key: getattr(component, key) for key in fixed}

    def set_parameters(self, name: str, values: Mapping[str, ArrayLike]) -> None:
        """Overwrite arrays of a component, in place; arrays that are not named keep their values.

        Parameters
        ----------
        name : name of the component
        values : array name -> real numbers of the shape of the array, (rows, cols) or (dim,); converted to float32

        Raises
        ------
        ConfigError : an array that the component does not have, or values that are not numbers
        ShapeError : another shape
        NumericError : NaN, infinity, or values that float32 cannot hold

        >>> nnet.set_parameters("affine2", {"bias_params": np.zeros(10)})
        """
        targets = self.arrays(name)
        checked = []
        for key, value in values.items():
            if key not in targets:
                raise ConfigError(f"component {name} has no array '{key}'", did_you_mean(key, list(targets)) or (
                    f"it has {', '.join(targets)}" if targets else "it has no parameters"))
            checked.append((targets[key], checked_parameters(value, targets[key].shape, f"{key} of component {name}")))
        state = self._edit_state
        for target, array in checked:
            if state.depth:
                state.overwritten.append((target, target.copy()))
            target[...] = array

    def add_component(self, name: str, component: Component | str, seed: int = 0) -> None:
        """Add a component, which no node uses yet.

        Parameters
        ----------
        name : name that no component has yet
        component : component object, or the rest of its config line after the name: ``type=... input-dim=...``
        seed : seed of the random parameters of a component that is given as text

        >>> nnet.add_component("tanh", "type=TanhComponent dim=32")
        """
        with self.edit():
            if name in self.component_names:
                raise ConfigError(f"the network already has a component named '{name}'",
                                  "replace_component puts another in its place")
            check_name(name, "component")
            self.components.append(checked_component(self, name, component, seed))
            self.component_names.append(name)

    def replace_component(self, name: str, component: Component | str, seed: int = 0) -> None:
        """Replace a component by another, for all nodes that use it; arguments as for ``add_component``.

        Raises
        ------
        ConfigError : dimensions that differ from those of the nodes that use the component

        >>> nnet.replace_component("relu1", "type=SigmoidComponent dim=32")
        """
        with self.edit():
            self.components[self.component_index(name)] = checked_component(self, name, component, seed)

    def rename_component(self, old: str, new: str) -> None:
        """Rename a component; the nodes that use it keep their names.

        >>> nnet.rename_component("affine2", "output.affine")
        """
        with self.edit():
            index = self.component_index(old)
            if new != old and new in self.component_names:
                raise ConfigError(f"cannot rename component {old}: the network already has a component named '{new}'")
            check_name(new, "component")
            self.component_names[index] = new

    def remove_component(self, name: str) -> None:
        """Remove a component. Raises ConfigError if a node uses it.

        >>> nnet.add_component("spare", "type=NoOpComponent dim=3")
        >>> nnet.remove_component("spare")
        """
        with self.edit():
            index = self.component_index(name)
            users = [node.name for node in self.nodes
                     if isinstance(node, ComponentNode) and node.component_index == index]
            if users:
                raise ConfigError(f"component {name} is in use by {', '.join(dict.fromkeys(users))}",
                                 "remove the nodes first")
            del self.components[index], self.component_names[index]
            for node in self.nodes:
                if isinstance(node, ComponentNode) and node.component_index > index:
                    node.component_index -= 1

    def named_nodes(self) -> Iterator[tuple[str, Node]]:
        """Yield name and object of each node, except the hidden inputs of component nodes.

        >>> [name for name, node in nnet.named_nodes()]
        ['input', 'affine1', 'relu1', 'affine2', 'output']
        """
        for i, node in enumerate(self.nodes):
            if not self.is_component_input(i):
                yield node.name, node

    def node(self, name: str) -> Node:
        """Return the node of that name. Raises Nnet3Error if there is none.

        >>> nnet.node("input").dim
        40
        """
        return self.nodes[self.node_index(name)]

    def node_input(self, name: str) -> str:
        """Return the input of a node as in its config line; an empty string for an input node.

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
        """Return the names of the nodes whose input refers to node ``name``.

        >>> nnet.users_of("affine1")
        ['relu1']
        """
        return node_users(self, self.node_index(name))

    def add_input(self, name: str, dim: int) -> None:
        """Add an input node of ``dim`` columns.

        >>> nnet.add_input("ivector", 100)
        """
        with self.edit():
            check_new_node(self, name)
            if not is_integer(dim) or dim < 1:
                raise ConfigError(f"input node {name} cannot have {dim!r} columns", "dim is an integer of 1 or more")
            self.nodes.append(InputNode(name, int(dim)))

    def add_output(self, name: str, input: str, objective: str = "linear") -> None:
        """Add an output node; ``input`` is a descriptor, the objective of training ``linear`` or ``quadratic``.

        >>> nnet.add_output("output-hidden", "relu1", objective="quadratic")
        """
        with self.edit():
            check_new_node(self, name)
            if objective not in OBJECTIVES:
                raise ConfigError(f"output {name} cannot have the objective {objective!r}",
                                  f"expected {' or '.join(OBJECTIVES)}")
            self.nodes.append(DescriptorNode(name, parsed_descriptor(self, name, input), objective))

    def add_node(self, name: str, component: str, input: str) -> None:
        """Add a component node, which applies a component to its input; other nodes may use the component, too.

        ``input`` is a descriptor, as in config lines, which may mention the new node.

        >>> nnet.add_component("tanh", "type=TanhComponent dim=32")
        >>> nnet.add_node("tanh", component="tanh", input="Offset(relu1, -2)")
        """
        with self.edit():
            index = self.component_index(component)
            check_new_node(self, name)
            check_new_node(self, name + INPUT_SUFFIX)
            source = DescriptorNode(name + INPUT_SUFFIX, Descriptor(()))
            self.nodes += [source, ComponentNode(name, index)]
            source.descriptor = parsed_descriptor(self, name, input)

    def add_dim_range(self, name: str, source: str, dim_offset: int, dim: int) -> None:
        """Add a dim-range node: ``dim`` columns of node ``source``, from column ``dim_offset`` on.

        >>> nnet.add_dim_range("first-half", "relu1", dim_offset=0, dim=16)
        """
        with self.edit():
            check_new_node(self, name)
            if not (is_integer(dim) and is_integer(dim_offset)):
                raise ConfigError(f"expected integers for dim-range node {name}, found dim_offset={dim_offset!r} and "
                                  f"dim={dim!r}")
            self.nodes.append(DimRangeNode(name, self.node_index(source), int(dim_offset), int(dim)))

    def set_node_input(self, name: str, input: str) -> None:
        """Change the input of a node: a descriptor, as in config lines, or the name of a node for a dim-range node.

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
                self.descriptor_of(i - self.is_component(i)).descriptor = parsed_descriptor(self, name, input)

    def redirect(self, old: str, new: str) -> None:
        """Replace node ``old`` by ``new`` in the inputs of all nodes except ``new`` itself.

        With ``add_node`` this inserts a layer after ``old``:

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
        """Rename a node, also in the inputs of other nodes; its component keeps its name.

        >>> nnet.rename_node("output", "output-0")
        """
        with self.edit():
            i = nameable_node(self, old)
            if new == old:
                return
            check_new_node(self, new)
            if self.is_component(i):
                check_new_node(self, new + INPUT_SUFFIX)
                self.nodes[i - 1].name = new + INPUT_SUFFIX
            self.nodes[i].name = new

    def remove_node(self, name: str) -> None:
        """Remove a node that no other node refers to; its component is kept (see ``remove_orphans``).

        Raises
        ------
        ConfigError : other nodes refer to it, or the network would have no input or no output left

        >>> nnet.add_output("second", "relu1")
        >>> nnet.remove_node("second")
        """
        with self.edit():
            i = nameable_node(self, name)
            users = [user for user in node_users(self, i) if user != name]
            if users:
                raise ConfigError(f"node {name} feeds {', '.join(dict.fromkeys(users))}",
                                  f"give them another input first, for example with redirect('{name}', ...)")
            self.nodes = without_nodes(self.nodes, {i, i - 1} if self.is_component(i) else {i})

    def remove_orphans(self, remove_inputs: bool = False) -> None:
        """Remove the nodes that no output needs (inputs with ``remove_inputs``), then the components that no node uses.

        >>> nnet.remove_orphans()
        """
        with self.edit():
            remove_orphans(self, remove_inputs)

    # -- short forms -------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Component:
        """Return a component by its own name or that of a component node; for the name of another node, the node.

        Type checkers see a component in every case; ``nnet.node(name)`` is typed as a node.

        >>> nnet["affine1"].output_dim
        32

        Raises
        ------
        Nnet3Error : a name of neither a component nor a node
        """
        if isinstance(name, str):
            if name in self.component_names:
                return self.component(name)
            if name in self.node_names:
                node = self.node(name)
                return self.components[node.component_index] if isinstance(node, ComponentNode) else cast(Any, node)
        names = [*dict.fromkeys((*self.component_names, *(node for node, _ in self.named_nodes())))]
        hint = did_you_mean(name, names) if isinstance(name, str) else None
        raise Nnet3Error(f"the network has no component or node {name!r}", hint or f"it has {', '.join(names)}")

    def __contains__(self, name: object) -> bool:
        """Return whether a component or a node has this name."""
        return name in self.component_names or name in self.node_names

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the component names, in the order of the file."""
        return iter(list(self.component_names))

    def __len__(self) -> int:
        """Return the number of components."""
        return len(self.component_names)

    def __bool__(self) -> bool:
        """Return True, even for a network without components, so that ``if nnet:`` tells it from None."""
        return True

    def _advice(self, name: str) -> str | None:
        return f"nnet[{name!r}]" if name in self.__dict__.get("component_names", ()) else super()._advice(name)

    def __repr__(self) -> str:
        parameters = sum(component.num_parameters() for component in self.components)
        return (f"<Nnet: {self._names_and_dims(self.is_input) or 'no input'} -> "
                f"{self._names_and_dims(self.is_output) or 'no output'}, "
                f"{len(self.components)} components, {parameters:,} parameters>")

    def _names_and_dims(self, wanted: Callable[[int], bool]) -> str:
        try:
            return ", ".join(f"{node.name} ({self.node_dim(i)})" for i, node in enumerate(self.nodes) if wanted(i))
        except Nnet3Error:      # inside ``with nnet.edit()`` dimensions may not match yet
            return ", ".join(node.name for i, node in enumerate(self.nodes) if wanted(i))
