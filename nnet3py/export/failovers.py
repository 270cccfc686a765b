"""Failover() whose first choice can always be computed, or whose second only where the first can."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from nnet3py.export.times import ALWAYS, Interval, Times, Window
from nnet3py.network.descriptor import Const, Descriptor, Failover, IfDefined, Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import DescriptorNode


def remove_unread_choices(nnet: Nnet, times: Times) -> bool:
    """Leave out the second choices that are never read, in place; returns whether there were any.

    Without them less may be needed of other nodes, so that more choices turn out never to be read.
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


def read_too_early(nnet: Nnet, times: Times, dependent: set[int]) -> Iterator[int]:
    """Nodes with a Failover() that a stream cannot have.

    Its second choice is read at the beginning only, but frames are computed for it in all chunks, and some of them
    depend on where chunks end: they are too early for nodes that read them later.

    Parameters
    ----------
    dependent : nodes whose values depend on where chunks end
    """
    for i in times.windows if dependent else ():
        node = nnet.nodes[i]
        if isinstance(node, DescriptorNode):
            parts = tuple(_first_choices(part, i, times) for part in node.descriptor.parts)
            if parts != node.descriptor.parts:
                other = nnet.copy()
                other.nodes[i] = replace(node, descriptor=Descriptor(parts))
                other.structure_changed()
                later = Times(other, times.outputs, times.factor, (times.left, times.right), is_stream=True).windows
                if any(n not in later or later[n].hi < times.windows[n].hi for n in dependent):
                    yield i


def _first_choices(part: Any, i: int, times: Times) -> Any:
    """The part without the second choices that the end of a chunk never reads."""
    if isinstance(part, Failover) and times.is_sure(part.a, Window(ALWAYS, _used(i, times).hi)):
        return _first_choices(part.a, i, times)
    return _with_parts(part, lambda child: _first_choices(child, i, times))


def _used(i: int, times: Times) -> Window:
    """The times at which anything reads a node, without frames beyond those at which it can be computed."""
    window, can = times.windows.get(i, Window(-ALWAYS, ALWAYS)), times.computable[i]
    return Window(max(window.lo, can.lo), min(window.hi, can.hi))


def _with_parts(part: Any, change: Callable[[Part], Part]) -> Any:
    fields = {name: change(value) for name, value in vars(part).items() if isinstance(value, Part)}
    return replace(part, **fields) if fields else part


def _without_unread(part: Any, i: int, times: Times) -> Any:
    if isinstance(part, Failover):
        first, own = times.computable_part(part.a), times.computable[i]
        is_always_read = first.exact and own.exact and first.lo <= own.lo and own.hi <= first.hi
        if is_always_read or times.is_sure(part.a, _used(i, times)):
            return _without_unread(part.a, i, times)
        if isinstance(part.b, IfDefined) and _is_zero(times.computable_part(part.b.child), first, own):
            return replace(part, a=_without_unread(part.a, i, times), b=Const(0.0, part.b.dim(times.nnet)))
    return _with_parts(part, lambda child: _without_unread(child, i, times))


def _is_zero(second: Interval, first: Interval, own: Interval) -> bool:
    """Whether there is no time at which the node and the second choice, but not the first, can be computed."""
    if not (second.exact and first.exact and own.exact):
        return False
    before = own.lo >= first.lo or first.lo <= second.lo
    after = own.hi <= first.hi or first.hi >= second.hi
    return before and after
