"""Sequences of one shape are compiled as one: a request is cut down to one sequence per shape, results are extended.

No descriptor and no component looks from one sequence (n) into another, so what the graph finds out for one sequence
holds for all that are given and wanted at the same (t, x). Unlike the shortcut (shortcut.py) this serves every request.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.compiler.request import ComputationRequest
from nnet3py.index import NO_TIME, KeySpace


@dataclass(frozen=True)
class Sequences:
    """The shapes of a request's sequences.

    Attributes
    ----------
    members : for each shape the n of its sequences, int32, ascending; shapes are numbered by their first n
    inputs, outputs : for each input and output its indexes int32 (rows, 3), with the shape's number as n
    space : the key space of the whole request
    """

    members: list[np.ndarray]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    space: KeySpace

    @classmethod
    def of(cls, request: ComputationRequest, share: bool = True) -> Sequences:
        """Find the shapes. With ``share`` false every sequence is its own shape (slower, same results)."""
        ios = [io.indexes for io in (*request.inputs, *request.outputs)]
        by_sequence = [_by_sequence(indexes) for indexes in ios]
        shape_of: dict[object, int] = {}
        members: list[list[int]] = []
        for n in sorted(set().union(*by_sequence)):
            signature = tuple(rows[n].tobytes() if n in rows else b"" for rows in by_sequence) if share else n
            shape = shape_of.setdefault(signature, len(members))
            if shape == len(members):
                members.append([])
            members[shape].append(n)
        reduced = [_reduce(rows, members) for rows in by_sequence]
        count = len(request.inputs)
        return cls([np.array(m, dtype=np.int32) for m in members], reduced[:count], reduced[count:], KeySpace.of(ios))

    def expand(self, indexes: np.ndarray) -> np.ndarray:
        """All sequences' indexes, sorted, from the shapes' indexes (sorted, without padding)."""
        if len(self.members) == 1:
            n = self.members[0]
            if len(n) == 1 and n[0] == 0:
                return indexes       # the shape's number is its n
            out = np.repeat(indexes, len(n), axis=0)
            out[:, 0] = np.tile(n, len(indexes))
            return out
        parts = []
        for shape, n in enumerate(self.members):
            rows = indexes[indexes[:, 0] == shape]
            part = np.repeat(rows, len(n), axis=0)
            part[:, 0] = np.tile(n, len(rows))
            parts.append(part)
        joined = np.concatenate(parts)
        return joined[np.argsort(self.space.keys(joined))]

    def expand_each(self, indexes: np.ndarray, bounds: list[int]) -> list[np.ndarray]:
        """The same for each of the groups indexes[bounds[0]:bounds[1]], indexes[bounds[1]:bounds[2]] and so on."""
        pairs = list(zip(bounds[:-1], bounds[1:], strict=True))
        if len(self.members) > 1:
            return [self.expand(indexes[begin:end]) for begin, end in pairs]
        size, joined = len(self.members[0]), self.expand(indexes)
        return [joined[begin * size:end * size] for begin, end in pairs]

    def reduce(self, indexes: np.ndarray) -> np.ndarray:
        """The rows that stand for their shape (its first sequence; no padding), with the shape's number as n."""
        first = np.array([n[0] for n in self.members], dtype=np.int32)
        order = np.argsort(first)
        at = np.minimum(np.searchsorted(first[order], indexes[:, 0]), len(first) - 1)
        stands = (first[order][at] == indexes[:, 0]) & (indexes[:, 1] != NO_TIME)
        out = indexes[stands].copy()
        out[:, 0] = order[at[stands]]
        return np.asarray(out)

    def sizes(self) -> np.ndarray:
        """How many sequences each shape has."""
        return np.array([len(n) for n in self.members])


def _by_sequence(indexes: np.ndarray) -> dict[int, np.ndarray]:
    """n -> its rows, sorted by t and x, as int32 (rows, 2) of t and x."""
    order = np.lexsort((indexes[:, 2], indexes[:, 1], indexes[:, 0]))
    n = indexes[order, 0]
    rest = indexes[order, 1:]
    bounds = [0, *(np.flatnonzero(np.diff(n)) + 1).tolist(), len(n)]
    return {int(n[begin]): rest[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)}


def _reduce(rows: dict[int, np.ndarray], members: list[list[int]]) -> np.ndarray:
    parts = []
    for shape, n in enumerate(members):
        if n[0] in rows:
            part = np.full((len(rows[n[0]]), 3), shape, dtype=np.int32)
            part[:, 1:] = rows[n[0]]
            parts.append(part)
    return np.concatenate(parts)
