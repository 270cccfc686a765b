"""Cycles of nodes: recurrences that go one way in time are fine, everything that returns to its own time is not."""
from __future__ import annotations

import pytest
from runtime_cases import LSTM, TDNN

from nnet3py.network.nnet import Nnet
from nnet3py.network.recurrence import LARGEST_GRAPH, find_loop, is_local, lookahead_is_at_most, strong_components

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


POOLING = """
input-node name=input dim=2
component name=x type=StatisticsExtractionComponent input-dim=2 input-period=1 output-period=2
component name=p type=StatisticsPoolingComponent input-dim=5 left-context=4 right-context=4
component-node name=x component=x input=input
component-node name=p component=p input=x
output-node name=output input=Round(p, 2)
"""
CONVOLUTION = """
input-node name=input dim=4
component name=c type=TimeHeightConvolutionComponent num-filters-in=1 num-filters-out=1 height-in=4 height-out=4 {}
component-node name=c component=c input=input
output-node name=output input=c
""".format("height-offsets=-1,0,1 time-offsets=-1,0,1 {}")
WITH_INPUT = """
input-node name=input dim=2
input-node name=ivector dim=2
component name=a type=NoOpComponent dim={dim}
component-node name=a component=a input={input}
output-node name=output input=a
"""


def with_input(expression: str, dim: int = 2) -> str:
    return WITH_INPUT.format(input=expression, dim=dim)


@pytest.mark.parametrize(("config", "expected"), [
    (TDNN, True), (LSTM, False), (POOLING, False),
    (CONVOLUTION.format(""), True), (CONVOLUTION.format("required-time-offsets=0"), False),
    (with_input("Append(Offset(input, -2), input)", 4), True),
    (with_input("Sum(input, IfDefined(Offset(input, -2)))"), False),
    (with_input("Failover(Offset(input, -2), input)"), False),
    (with_input("Append(input, Failover(Offset(input, -2), input))", 4), False),
    (with_input("Append(input, ReplaceIndex(ivector, t, 0))", 4), True),
    (with_input("Append(input, ReplaceIndex(input, t, 0))", 4), False),
    (with_input("Append(input, ReplaceIndex(input, x, 0))", 4), True),
    (with_input("Append(input, Round(input, 3))", 4), True),
    (with_input("Switch(input, Offset(input, 1))"), True),
])
def test_is_local(config, expected):
    assert is_local(Nnet.from_config(config)) is expected


@pytest.mark.parametrize(("config", "frames"), [
    (TDNN, 3), (LSTM, 0), (LSTM.replace("Offset(m, -1)", "Offset(m, 1)"), None), (POOLING, 5),
    (CONVOLUTION.format(""), 1), (CONVOLUTION.format("required-time-offsets=0"), 1),
    (with_input("Sum(input, IfDefined(Offset(input, 2)))"), 2),
    (with_input("Sum(input, IfDefined(Offset(input, -2)))"), 0),
    (with_input("Offset(input, -2)"), -2), (with_input("Append(input, ReplaceIndex(ivector, t, 0))", 4), 0),
    (with_input("Append(input, ReplaceIndex(input, t, 0))", 4), None),
    (with_input("Switch(input, Offset(input, 1), Offset(input, -1))"), 1),
    (with_input("Sum(Offset(input, 3), IfDefined(Offset(a, -3)))"), 3),
    (with_input("Sum(input, IfDefined(Offset(a, -1)), IfDefined(Offset(a, 2)))"), None),
])
def test_how_far_ahead_a_network_looks(config, frames):
    """None: without end, or it cannot be said."""
    nnet = Nnet.from_config(config)
    if frames is None:
        assert not lookahead_is_at_most(nnet, 10**6)
    else:
        assert lookahead_is_at_most(nnet, frames) and not lookahead_is_at_most(nnet, frames - 1)
