"""nnet3py/network/locality.py: whether it matters how an utterance is cut."""
from __future__ import annotations

import pytest
from runtime_cases import LSTM, TDNN

from nnet3py.network.locality import is_local
from nnet3py.network.nnet import Nnet

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
