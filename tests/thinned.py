"""Combinations of parameters of which the quick tests take a part, and ``make test-slow`` all."""
from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def thinned(*values: Iterable[Any], keep: int = 3) -> list[Any]:
    """All combinations for ``pytest.mark.parametrize``; all but every ``keep``-th of a diagonal kind are marked slow.

    A combination is quick if its values' places add up to a multiple of ``keep``, so that every value is in a quick one
    where there are at least ``keep`` values of another parameter.
    """
    places = product(*(tuple(enumerate(one)) for one in values))
    return [pytest.param(*(value for _, value in combination),
                         marks=() if sum(place for place, _ in combination) % keep == 0 else pytest.mark.slow)
            for combination in places]
