"""Calls that follow each other and pass over the same matrix, as one call that passes over it once.

Matrices that do not fit the processor's caches take as long to read and write as a small product takes to compute.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = tuple[Callable[..., Any], tuple[Any, ...]]


def join_calls(ops: Any, calls: list[Call], commands: list[int]) -> tuple[list[Call], list[int]]:
    """Bound calls, and the command that each belongs to, with pairs joined where one operation does the work of two.

    A copy that is then added to, as sums of scaled inputs are, becomes ``sum_mats``.
    """
    joined: list[Call] = []
    owners: list[int] = []
    for (function, args), owner in zip(calls, commands, strict=True):
        before = joined[-1] if joined else None
        if (before is not None and function == ops.add_mat and before[0] == ops.copy_mat and before[1][0] is args[0]
                and args[1] is not args[0]):
            dst, first, alpha = before[1]
            joined[-1] = ops.sum_mats, (dst, first, args[1], alpha, args[2])
            owners[-1] = owner
        else:
            joined.append((function, args))
            owners.append(owner)
    return joined, owners
