"""Networks for inference: in test mode, with successive affine maps merged, perhaps cut off at a node inside.

Inference (``nnet3py.compute``, the classes of ``runtime`` for utterances and streams) takes a network as training left
it and makes this form itself, so that training mode is used only on request. Kaldi: ``CollapseModel``.
"""
from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, with_children
from nnet3py.errors import DescriptorError, Nnet3Error
from nnet3py.network.descriptor import Descriptor, Offset, Source
from nnet3py.network.descriptor_parser import substitute
from nnet3py.network.model_file import AnyModel, network_of
from nnet3py.network.nnet import Nnet
from nnet3py.network.nnet_io import component_places, put_component
from nnet3py.network.structure import (
    ComponentNode,
    DescriptorNode,
    orphan_nodes,
    remove_nodes,
    remove_orphan_components,
    remove_orphans,
)
from nnet3py.network.whole_model import (
    RANDOM_TYPES,
    components_of_type,
    is_a,
    set_batchnorm_test_mode,
    set_dropout_test_mode,
)

if TYPE_CHECKING:
    from nnet3py.components.affine import AffineComponent

logger = logging.getLogger(__name__)

MAX_PASSES = 10


def prepare_for_test(nnet: Nnet) -> Nnet:
    """Switch a network to test mode and collapse it, in place, and return ``nnet``."""
    set_batchnorm_test_mode(nnet, True)
    set_dropout_test_mode(nnet, True)
    collapse_model(nnet)
    nnet.prepared_version = nnet.version
    return nnet


def is_prepared(nnet: Nnet) -> bool:
    """Return whether nothing but parameters has changed since :func:`prepare_for_test`."""
    return nnet.prepared_version == nnet.version and all(
        component.test_mode for component in components_of_type(nnet, "BatchNormComponent", *RANDOM_TYPES))


def collapse_model(nnet: Nnet) -> None:
    """Merge affine components into the affine components that read them, and fixed scales into affine components.

    The network is changed in place, with Kaldi's default options: dropout and batch normalization are kept. As in
    Kaldi, a component that reads the first one's output times a scale is merged, too: the scale then acts on the input
    of the first component, so that its bias is no longer scaled.
    """
    count_before = len(nnet.components)
    num_nodes, places = len(nnet.nodes), component_places(nnet)
    for passes in range(MAX_PASSES + 1):
        if not [i for i in range(num_nodes) if _collapse_node(nnet, i, places)]:
            break
        if passes == MAX_PASSES:
            raise Nnet3Error(f"collapsing the network does not end after {MAX_PASSES} passes")
    count_with_new = len(nnet.components)
    remove_orphans(nnet)
    count_after = len(nnet.components)
    if (count_before, count_with_new) != (count_after, count_after):
        logger.info("Added %d components, removed %d", count_with_new - count_before, count_with_new - count_after)


def _collapse_node(nnet: Nnet, i: int, places: dict[str, int]) -> bool:
    """Merge the component of node ``i`` with that of the node that it reads, and return whether that was possible."""
    node = nnet.nodes[i]
    if not isinstance(node, ComponentNode):
        return False
    input_node = nnet.descriptor_of(i - 1)
    source = _single_source(input_node.descriptor)
    first_node = nnet.nodes[source] if source >= 0 else None
    if not isinstance(first_node, ComponentNode):
        return False
    try:
        descriptor = substitute(input_node.descriptor, source, nnet.descriptor_of(source - 1).descriptor)
    except DescriptorError:      # the scale of an expression that cannot be scaled
        return False
    merged = _merged_component(nnet, places, first_node.component_index, node.component_index)
    if merged < 0:
        return False
    node.component_index, input_node.descriptor = merged, descriptor
    nnet.structure_changed()
    return True


def _single_source(descriptor: Descriptor) -> int:
    """Return the only node that all parts of a descriptor read, apart from time offsets; -1 for other descriptors."""
    nodes = set()
    for part in descriptor.parts:
        inner = part.child if isinstance(part, Offset) else part
        if not isinstance(inner, Source):
            return -1
        nodes.add(inner.node)
    return nodes.pop() if len(nodes) == 1 else -1


def _merged_component(nnet: Nnet, places: dict[str, int], first: int, second: int) -> int:
    """Return the index of a component that equals ``first`` followed by ``second``; -1 if they cannot be merged."""
    c1, c2 = nnet.components[first], nnet.components[second]
    is_affine = is_a(c1, "AffineComponent", "FixedAffineComponent") and c1.input_dim <= c1.output_dim
    can_merge_affine = is_affine and is_a(c2, "AffineComponent") and c2.input_dim % c1.output_dim == 0
    can_merge_scale = (is_a(c1, "AffineComponent") and is_a(c2, "FixedScaleComponent")
                       and c1.output_dim == c2.input_dim)
    if not can_merge_affine and not can_merge_scale:
        return -1
    name = f"{nnet.component_names[first]}.{nnet.component_names[second]}"
    if name in places:
        return places[name]
    return put_component(nnet, places, name, _merged_affine(c1, c2) if can_merge_affine else _merged_scale(c1, c2))


def _merged_affine(c1: Component, c2: Component) -> AffineComponent:
    """Return the affine component for ``c2`` after ``c1``, where ``c2`` may read several appended outputs of ``c1``."""
    from nnet3py.components.affine import AffineComponent

    w1, b1 = c1.linear_params, c1.bias_params            # type: ignore[attr-defined]
    w2, b2 = c2.linear_params, c2.bias_params            # type: ignore[attr-defined]
    blocks = np.split(w2, w2.shape[1] // w1.shape[0], axis=1)
    bias = b2 + np.sum([block @ b1 for block in blocks], axis=0, dtype=np.float32)
    return AffineComponent(np.ascontiguousarray(np.hstack([block @ w1 for block in blocks])), bias)


def _merged_scale(c1: Component, c2: Component) -> Component:
    """Return a copy of the affine component c1 whose output is multiplied by the fixed scales of c2."""
    merged = c1.copy()
    scales = c2.vector                                   # type: ignore[attr-defined]
    merged.linear_params *= scales[:, None]              # type: ignore[attr-defined]
    merged.bias_params *= scales                         # type: ignore[attr-defined]
    return merged


def for_inference(nnet: AnyModel, training_mode: bool = False) -> Nnet:
    """Return the network in test mode, with successive affine components merged, for computing outputs.

    Parameters
    ----------
    nnet : network or acoustic model; left unchanged
    training_mode : return the network itself, with its own modes of batch normalization and dropout

    Returns
    -------
    A copy with parameters of its own; or the network itself if it is in this form already.
    """
    nnet = network_of(nnet)
    return nnet if training_mode or is_prepared(nnet) else prepare_for_test(nnet.copy())


def compute_only(nnet: Nnet, *names: str) -> None:
    """Make nodes of any kind the network's only output, which is called ``output``, in place.

    The columns of several nodes are appended. Nodes and components that are not needed are removed, except inputs.
    Raises Nnet3Error for a name that no node has.
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
    """Network in test mode that outputs a node of the original; it shares all unchanged arrays with the original.

    Parameters
    ----------
    original : network; not changed
    output : name of the node, of any kind, that becomes ``output``; the columns of several nodes are appended
    reads_shared : whether the shared arrays are read again in each computation, so that edits of them take effect; if
        not, :meth:`is_of` compares all arrays

    Attributes
    ----------
    nnet : Nnet
        The network for inference.

    Raises
    ------
    Nnet3Error : a name that no node has
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
        """Return whether ``original`` is still the network that this form was made of, not edited since."""
        attributes = _attributes(original)
        return (original.version == self._version and len(attributes) == len(self._attributes)
                and all(map(operator.is_, attributes, self._attributes))
                and all(np.array_equal(array, before) for array, before in self._watched))


def _copy_for_test(component: Component) -> Component:
    """Return a copy that shares its arrays, except for components whose arrays are changed by test mode."""
    return component.copy() if is_a(component, "BatchNormComponent", *RANDOM_TYPES) else copy.copy(component)


def _arrays(components: Iterable[Component]) -> Iterator[np.ndarray]:
    return (value for component in with_children(components) for value in vars(component).values()
            if isinstance(value, np.ndarray))


def _attributes(nnet: Nnet) -> list[object]:
    return [value for component in with_children(nnet.components) for value in vars(component).values()]
