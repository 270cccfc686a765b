"""Cycles of nodes: recurrences that go one way in time are fine, everything that returns to its own time is not."""
from __future__ import annotations

import pytest

from nnet3py.network.loops import LARGEST_GRAPH, find_loop, strong_components
from nnet3py.network.nnet import Nnet

NETWORK = """
input-node name=input dim=2
component name=c type=NoOpComponent dim=2
component name=d type=TdnnComponent input-dim=2 output-dim=2 time-offsets={offsets}
component-node name=a component=c input={input}
component-node name=b component=d input=a
dim-range-node name=r input-node=b dim-offset=0 dim=2
output-node name=output input=Sum(a, r)
"""


@pytest.mark.parametrize(("offsets", "descriptor", "expected"), [
    ("-1", "input", []),
    ("-1", "Sum(input, IfDefined(a))", ["a"]),
    ("-1", "Sum(input, IfDefined(Offset(a, -1)))", []),
    ("-1", "Sum(input, Sum(IfDefined(Offset(a, -1)), IfDefined(Offset(a, -4))))", []),
    ("-1", "Sum(input, Sum(IfDefined(Offset(a, -1)), IfDefined(Offset(a, 1))))", ["a"]),
    ("-1", "Sum(input, Sum(IfDefined(Offset(a, -2)), IfDefined(Offset(a, 3))))", ["a"]),
    ("-1", "Sum(input, IfDefined(Round(a, 3)))", ["a"]),
    ("-1", "Sum(input, IfDefined(Round(Offset(a, -1), 3)))", []),
    ("-1", "Sum(input, IfDefined(Offset(Round(a, 3), -3)))", []),
    ("-1", "Sum(input, IfDefined(ReplaceIndex(a, t, 0)))", ["a"]),
    ("-1", "Sum(input, IfDefined(Switch(Offset(a, -1), a)))", ["a"]),
    ("-1", "Sum(input, IfDefined(Switch(Offset(a, -1), Offset(a, -2))))", []),
    ("-1", "Failover(Offset(a, -1), input)", []),
    ("-1", "Sum(input, IfDefined(Offset(a, 0, 1)))", []),           # another x is another row
    ("-1", "Sum(input, IfDefined(b))", []),                         # the component itself goes back
    ("-1,0", "Sum(input, IfDefined(b))", ["a", "b"]),
    ("-1", "Sum(input, IfDefined(Offset(b, 1)))", ["a", "b"]),
    ("-1", "Sum(input, IfDefined(Offset(b, 2)))", []),
    ("-1", "Sum(input, IfDefined(Offset(r, 1)))", ["a", "b", "r"]),
    ("-3,3", "Sum(input, IfDefined(r))", ["a", "b", "r"]),
    ("-1", f"Sum(input, IfDefined(Round(a, {LARGEST_GRAPH})))", []),    # too long a period to look at
])
def test_loops(offsets: str, descriptor: str, expected: list[str]) -> None:
    assert find_loop(Nnet.from_config(NETWORK.format(offsets=offsets, input=descriptor))) == expected


def test_strong_components() -> None:
    found = strong_components([[1], [2], [0, 3], [4], [3], []])
    assert found[0] == found[1] == found[2] and found[3] == found[4]
    assert len(set(found)) == 3
