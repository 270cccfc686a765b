"""Whether the nodes of a network fit together, and which of them no output needs. Kaldi: ``Nnet::Check``."""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.errors import ConfigError
from nnet3py.network.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode
from nnet3py.network.structure import NetworkStructure

logger = logging.getLogger(__name__)


def check_nnet(nnet: NetworkStructure, warn_for_orphans: bool = False) -> None:
    """Raise ConfigError if nodes do not fit together; warn of what no output needs, if asked to."""
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
    """The nodes whose values node ``i`` is computed from."""
    node = nnet.nodes[i]
    if isinstance(node, DescriptorNode):
        return node.descriptor.source_nodes()
    if isinstance(node, ComponentNode):
        return [i - 1]
    return [node.source] if isinstance(node, DimRangeNode) else []


def orphan_nodes(nnet: NetworkStructure) -> list[int]:
    """The nodes from which no output is computed, in increasing order. Kaldi: FindOrphanNodes."""
    pending = [i for i in range(len(nnet.nodes)) if nnet.is_output(i)]
    needed = set(pending)
    while pending:
        new = set(node_dependencies(nnet, pending.pop())) - needed
        needed |= new
        pending += new
    return [i for i in range(len(nnet.nodes)) if i not in needed]


def orphan_components(nnet: NetworkStructure) -> list[int]:
    """The components that no node uses, in increasing order. Kaldi: FindOrphanComponents."""
    used = np.zeros(len(nnet.components), dtype=bool)
    for node in nnet.nodes:
        if isinstance(node, ComponentNode):
            used[node.component_index] = True
    return [int(c) for c in np.flatnonzero(~used)]
