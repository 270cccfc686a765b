"""Partial sorting that leaves the C++ library's order, on which it depends which equally good candidates come first.

Kaldi: ``std::nth_element``, as libstdc++ has it (introselect; Musser, 1997).
"""
from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any

_FEW = 3          # this many are sorted by insertion


def nth_element(items: MutableSequence[Any], nth: int) -> None:
    """Reorder in place: the item that belongs at ``nth`` stands there, and none before it is greater."""
    first, last = 0, len(items)
    if not 0 <= nth < last:
        return
    splits_left = 2 * (last.bit_length() - 1)
    while last - first > _FEW:
        if splits_left == 0:
            items[first:last] = sorted(items[first:last])
            return
        splits_left -= 1
        cut = _partition(items, first, last)
        if cut <= nth:
            first = cut
        else:
            last = cut
    items[first:last] = sorted(items[first:last])


def _partition(items: MutableSequence[Any], first: int, last: int) -> int:
    """Put what is less than the median of three before the rest; returns where the rest begins."""
    places = (first + 1, first + (last - first) // 2, last - 1)
    median = sorted(places, key=lambda place: items[place])[1]
    items[first], items[median] = items[median], items[first]
    pivot, low, high = items[first], first + 1, last
    while True:
        while items[low] < pivot:
            low += 1
        high -= 1
        while pivot < items[high]:
            high -= 1
        if low >= high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1
