"""Shuffling and subsampling sequences of examples, whatever they are. Kaldi: nnet3-shuffle-egs, nnet3-subset-egs."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from nnet3py.random_sequence import CRandom, float32, shuffled

Item = TypeVar("Item")


def shuffle(items: Iterable[Item], seed: int = 0) -> Iterator[Item]:
    """All of ``items`` in random order; everything is held in memory."""
    held = list(items)
    for position in shuffled(len(held), seed):
        yield held[position]


def shuffle_with_buffer(items: Iterable[Item], buffer_size: int, seed: int = 1) -> Iterator[Item]:
    """``items`` in an order that is random within about ``buffer_size`` positions, which is how many are held.

    What is left at the end comes in the order of the buffer. ``seed`` is the C library's; 1 is the unseeded state,
    which Kaldi's programs use except for chain examples.
    """
    random = CRandom(seed)
    slots: list[Item | None] = [None] * buffer_size
    for item in items:
        slot = random.integer(0, buffer_size - 1)
        occupant = slots[slot]
        slots[slot] = item
        if occupant is not None:
            yield occupant
    yield from (item for item in slots if item is not None)


def subset(items: Iterable[Item], count: int, seed: int = 0, randomize_order: bool = True) -> tuple[list[Item], int]:
    """``count`` random ones of ``items`` (all, if there are fewer), and how many items there were.

    The choice does not depend on ``seed``, as in Kaldi; the order does.
    """
    random = CRandom()
    kept: list[Item] = []
    seen = 0
    for item in items:
        if seen < count:
            kept.append(item)
        elif count > 0 and random.happens(float32(float32(count) / float32(seen + 1))):
            kept[random.integer(0, count - 1)] = item
        seen += 1
    return [kept[i] for i in shuffled(len(kept), seed)] if randomize_order else kept, seen
