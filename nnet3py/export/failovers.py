"""Failover() whose first choice can be computed wherever it is asked for, or whose second only where the first can."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnet3py.export.times import Interval, Times
from nnet3py.network.descriptor import Const, Descriptor, Failover, IfDefined, Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import DescriptorNode


def remove_unread_choices(nnet: Nnet, times: Times) -> bool:
    """Leave out the second choices that are never read, in place; says whether there are such.

    Without them less may be needed of other nodes, and more choices be found that are never read.
    """
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
        is_always_read = first.exact and own.exact and first.lo <= own.lo and own.hi <= first.hi
        if is_always_read or i in times.windows and times.is_sure(part.a, times.windows[i]):
            return _without_unread(part.a, i, times)
        if isinstance(part.b, IfDefined) and _is_zero(times.computable_part(part.b.child), first, own):
            return replace(part, a=_without_unread(part.a, i, times), b=Const(0.0, part.b.dim(times.nnet)))
    fields = {name: _without_unread(value, i, times) for name, value in vars(part).items() if isinstance(value, Part)}
    return replace(part, **fields) if fields else part


def _is_zero(second: Interval, first: Interval, own: Interval) -> bool:
    """Whether the second choice can be computed at no time at which the node can, and the first cannot."""
    if not (second.exact and first.exact and own.exact):
        return False
    before = own.lo >= first.lo or first.lo <= second.lo
    after = own.hi <= first.hi or first.hi >= second.hi
    return before and after
