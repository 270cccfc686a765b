"""Making a network cheaper to evaluate: successive affine maps become one. Kaldi: ``CollapseModel``."""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component
from nnet3py.errors import DescriptorError, Nnet3Error
from nnet3py.network.config_reader import component_places, put_component
from nnet3py.network.descriptor import Descriptor, Offset, Source
from nnet3py.network.descriptor_parser import substitute
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import ComponentNode
from nnet3py.network.orphans import remove_orphans
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
    """Put a network into the form in which it is evaluated: test modes on, collapsed. In place; returns ``nnet``."""
    set_batchnorm_test_mode(nnet, True)
    set_dropout_test_mode(nnet, True)
    collapse_model(nnet)
    nnet.prepared_version = nnet.version
    return nnet


def is_prepared(nnet: Nnet) -> bool:
    """Whether :func:`prepare_for_test` was the last function that changed the network, apart from its parameters."""
    return nnet.prepared_version == nnet.version and all(
        component.test_mode for component in components_of_type(nnet, "BatchNormComponent", *RANDOM_TYPES))


def collapse_model(nnet: Nnet) -> None:
    """Merge affine components into the affine components that read them, and fixed scales into affine components.

    In place, with Kaldi's default options: dropout and batch normalization are kept. A reader that takes the first
    component's output times a scale is merged too, as in Kaldi: the scale then acts on the input of the first
    component, so that its bias is no longer scaled.
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
    """Merge the component of node ``i`` with that of the component node it reads, if they can be; True if done."""
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
    except DescriptorError:      # scales of expressions that cannot be scaled
        return False
    merged = _merged_component(nnet, places, first_node.component_index, node.component_index)
    if merged < 0:
        return False
    node.component_index, input_node.descriptor = merged, descriptor
    nnet.structure_changed()
    return True


def _single_source(descriptor: Descriptor) -> int:
    """The node that every part of the descriptor refers to, at most with an offset; -1 if there is none."""
    nodes = set()
    for part in descriptor.parts:
        inner = part.child if isinstance(part, Offset) else part
        if not isinstance(inner, Source):
            return -1
        nodes.add(inner.node)
    return nodes.pop() if len(nodes) == 1 else -1


def _merged_component(nnet: Nnet, places: dict[str, int], first: int, second: int) -> int:
    """Index of a component that does the work of ``first`` and then ``second``; -1 if there is none."""
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
    """An affine component for c2 applied to c1's outputs; if c2 reads several of them, they are side by side."""
    from nnet3py.components.affine import AffineComponent

    w1, b1 = c1.linear_params, c1.bias_params            # type: ignore[attr-defined]
    w2, b2 = c2.linear_params, c2.bias_params            # type: ignore[attr-defined]
    blocks = np.split(w2, w2.shape[1] // w1.shape[0], axis=1)
    bias = b2 + np.sum([block @ b1 for block in blocks], axis=0, dtype=np.float32)
    return AffineComponent(np.ascontiguousarray(np.hstack([block @ w1 for block in blocks])), bias)


def _merged_scale(c1: Component, c2: Component) -> Component:
    """A copy of the affine component c1 whose output is multiplied by the fixed scales of c2."""
    merged = c1.copy()
    scales = c2.vector                                   # type: ignore[attr-defined]
    merged.linear_params *= scales[:, None]              # type: ignore[attr-defined]
    merged.bias_params *= scales                         # type: ignore[attr-defined]
    return merged
