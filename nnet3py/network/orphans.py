"""Removing nodes and components, mainly those that no output needs. Kaldi: ``RemoveOrphanNodes`` and the like."""
from __future__ import annotations

import logging
from collections.abc import Iterable

from nnet3py.network.consistency import check_nnet, orphan_components, orphan_nodes
from nnet3py.network.nodes import ComponentNode, without_nodes
from nnet3py.network.structure import NetworkStructure

logger = logging.getLogger(__name__)


def remove_orphans(nnet: NetworkStructure, remove_inputs: bool = False) -> None:
    """Remove the nodes that no output needs, then the components that no node uses, in place."""
    remove_orphan_nodes(nnet, remove_inputs)
    remove_orphan_components(nnet)


def remove_orphan_nodes(nnet: NetworkStructure, remove_inputs: bool = False) -> None:
    """Remove the nodes from which no output is computed, in place; logs how many.

    Without ``remove_inputs`` input nodes are kept, except that of two neighbors in the list of orphans only the first
    is: this is Kaldi's behavior, so that edited files are equal.
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
            position += 1                    # this one is kept, and the next is removed unchecked
        kept += orphans[position:position + 1]
        position += 1
    return kept


def remove_nodes(nnet: NetworkStructure, indexes: Iterable[int]) -> None:
    """Remove nodes that no other node needs, in place; the others are renumbered.

    Raises
    ------
    ConfigError : no input or no output node would remain; the network is then unchanged
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
    """Remove the components that no node uses, in place; logs how many."""
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
