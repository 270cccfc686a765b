"""Failover() whose first choice can be computed wherever its node can: the second is never read."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnet3py.export.times import Times
from nnet3py.network.descriptor import Descriptor, Failover, Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import DescriptorNode


def remove_unread_choices(nnet: Nnet, times: Times) -> bool:
    """Leave out the second choices that are never read, in place; returns whether there were any."""
    changed = False
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, DescriptorNode):
            parts = tuple(_without_unread(part, i, times) for part in node.descriptor.parts)
            if parts != node.descriptor.parts:
                nnet.nodes[i], changed = replace(node, descriptor=Descriptor(parts)), True
    if changed:
        nnet.structure_changed()
    return changed


def _without_unread(part: Any, i: int, times: Times) -> Any:
    if isinstance(part, Failover):
        first, own = times.computable_part(part.a), times.computable[i]
        if first.exact and own.exact and first.lo <= own.lo and own.hi <= first.hi:
            return _without_unread(part.a, i, times)
    fields = {name: _without_unread(value, i, times) for name, value in vars(part).items() if isinstance(value, Part)}
    return replace(part, **fields) if fields else part
