"""The form of a network for computing outputs: in test mode, collapsed, perhaps for a node in the middle.

Inference (``nnet3py.compute``, the classes of ``runtime`` that compute utterances and streams) takes a
network as training left it and make this form themselves, so that training mode is used only on request.
"""
from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Iterator

import numpy as np

from nnet3py.components.base import Component, with_children
from nnet3py.network.any_model import AnyModel, network_of
from nnet3py.network.collapse import is_prepared, prepare_for_test
from nnet3py.network.consistency import orphan_nodes
from nnet3py.network.descriptor import Descriptor, Source
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import DescriptorNode
from nnet3py.network.orphans import remove_nodes, remove_orphan_components
from nnet3py.network.whole_model import RANDOM_TYPES, is_a


def for_inference(nnet: AnyModel, training_mode: bool = False) -> Nnet:
    """The network to compute outputs with: in test mode, with components collapsed.

    Parameters
    ----------
    nnet : a network, or an acoustic model; left as it is
    training_mode : give the network itself; its batch normalization and dropout then do what they are set to

    Returns
    -------
    A copy, with parameters of its own. A network that was prepared so before is returned as it is.
    """
    nnet = network_of(nnet)
    return nnet if training_mode or is_prepared(nnet) else prepare_for_test(nnet.copy())


def compute_only(nnet: Nnet, *names: str) -> None:
    """Make the nodes of these names, of any kind, the network's only output, which is called ``output``; in place.

    The columns of several nodes are side by side. Nodes and components that it does not need are removed; inputs are
    kept. Raises Nnet3Error if there is no such node.
    """
    wanted = [nnet.node_index(name) for name in names]
    outputs = {o for o in range(len(nnet.nodes)) if nnet.is_output(o)}
    if outputs != set(wanted) or names != ("output",):
        parts = [part for i in wanted
                 for part in (nnet.descriptor_of(i).descriptor.parts if nnet.is_descriptor(i) else (Source(i),))]
        objective = nnet.descriptor_of(wanted[0]).objective if set(wanted) <= outputs else "linear"
        for node in nnet.nodes:
            if node.name == "output":
                node.name = _unused_name(nnet)
        nnet.nodes.append(DescriptorNode("output", Descriptor(tuple(parts)), objective))
        remove_nodes(nnet, outputs)
    remove_nodes(nnet, [orphan for orphan in orphan_nodes(nnet) if not nnet.is_input(orphan)])
    remove_orphan_components(nnet)


def _unused_name(nnet: Nnet) -> str:
    names = set(nnet.node_names)
    return next(name for name in (f"output.{k}" for k in range(len(names) + 1)) if name not in names)


class InferenceForm:
    """A network prepared for the values of one node. It shares with the original the arrays that are the same.

    Parameters
    ----------
    original : the network; it is not changed
    output : the node, of any kind, that becomes ``output``; the columns of several are side by side
    reads_shared : whether the user of the form reads shared arrays where they are, so that edits of them take effect;
        else all arrays are compared with what they were

    Attributes
    ----------
    nnet : the form

    Raises
    ------
    Nnet3Error : the network has no node of that name
    """

    def __init__(self, original: Nnet, output: str | tuple[str, ...] = "output", reads_shared: bool = True) -> None:
        copies = [_copy_for_test(component) for component in original.components]
        self.nnet = copy.copy(original)
        self.nnet.nodes = [copy.copy(node) for node in original.nodes]
        self.nnet.components, self.nnet.component_names = list(copies), list(original.component_names)
        compute_only(self.nnet, *((output,) if isinstance(output, str) else output))
        used = {id(component) for component in self.nnet.components}
        prepare_for_test(self.nnet)
        shared = {id(array) for array in _arrays(self.nnet.components)} if reads_shared else set()
        originals = [component for component, copied in zip(original.components, copies, strict=True)
                     if id(copied) in used]
        self._watched = [(array, array.copy()) for array in _arrays(originals) if id(array) not in shared]
        self._version, self._attributes = original.version, _attributes(original)

    def is_of(self, original: Nnet) -> bool:
        """Whether the form is up to date: nothing in the original has been edited."""
        attributes = _attributes(original)
        return (original.version == self._version and len(attributes) == len(self._attributes)
                and all(map(operator.is_, attributes, self._attributes))
                and all(np.array_equal(array, before) for array, before in self._watched))


def _copy_for_test(component: Component) -> Component:
    """A copy that shares all arrays except those of types for which test mode makes new ones."""
    return component.copy() if is_a(component, "BatchNormComponent", *RANDOM_TYPES) else copy.copy(component)


def _arrays(components: Iterable[Component]) -> Iterator[np.ndarray]:
    """The arrays that are attributes of components, or of components inside them."""
    return (value for component in with_children(components) for value in vars(component).values()
            if isinstance(value, np.ndarray))


def _attributes(nnet: Nnet) -> list[object]:
    """All settings and arrays of all components."""
    return [value for component in with_children(nnet.components) for value in vars(component).values()]
