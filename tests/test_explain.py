"""Requests that cannot be computed: the path to what is missing, the summaries, what to try."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import RNN, TDNN, product

from nnet3py import compile
from nnet3py.compiler.build_graph import build_graph
from nnet3py.compiler.explain import times_text
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import NotComputableError
from nnet3py.network.nnet import Nnet

OPTIONAL = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=4
component-node name=a component=a input=Append(input, Failover(Offset(input,-1), Offset(input,-3)), IfDefined(ivector))
component name=b type=NaturalGradientAffineComponent input-dim=6 output-dim=4
component-node name=b component=b input=Append(a, ReplaceIndex(ivector, t, 0))
output-node name=output input=b
output-node name=other input=a
"""
POOLED = """
input-node name=input dim=3
component name=s type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=4 include-variance=false
component-node name=s component=s input=input
output-node name=output input=Round(s, 4)
"""


def answer(config: str, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> tuple[list[str], str]:
    """The lines of the message, and the hint."""
    asked = ComputationRequest([IoSpecification(*item) for item in inputs.items()],
                               [IoSpecification(*item) for item in outputs.items()])
    with pytest.raises(NotComputableError) as caught:
        build_graph(Nnet.from_config(config), asked)
    lines = caught.value.message.splitlines()
    assert all(line.endswith(".") for line in lines[:-1])       # as one line, they are still sentences
    return [lines[0], *(line.removesuffix(".") for line in lines[1:])], caught.value.hint or ""


def test_the_path_and_the_missing_frames() -> None:
    lines, hint = answer(TDNN, {"input": product(range(3), range(12))}, {"output": product(range(3), range(12))})
    assert lines == [
        "Not all outputs were computable, cannot create computation. 18 output cindexes out of 36 were not computable.",
        "output(0,0) needs b(0,0) needs r(0,-3) needs a(0,-3) needs input(0,-4): not given",
        "'output' cannot be computed at t = 0:3, 10:11 of 3 sequences, n = 0:2",
        "'input' is given at t = 0:11 and missing at t = -4:-1, 12:13"]
    assert hint == "give 4 more frames on the left and 2 more frames on the right of 'input'"


def test_a_gap_between_the_given_frames() -> None:
    times = [t for t in range(15) if t != 4]
    lines, hint = answer(TDNN, {"input": product([0], times)}, {"output": product([0], range(5, 9))})
    assert lines[-1] == "'input' is given at t = 0:3, 5:14 and missing at t = 4"
    assert hint == "give 'input' at these times"


def test_a_sequence_without_input() -> None:
    lines, hint = answer(TDNN, {"input": product([0, 1], range(-4, 12))}, {"output": product([0, 1, 7], [0, 3])})
    assert lines[1:] == ["output(7,0) needs b(7,0) needs r(7,-3) needs a(7,-3) needs input(7,-4): not given",
                         "'output' cannot be computed at t = 0, 3 of sequence n = 7",
                         "'input' is not given at all for sequence n = 7"]
    assert hint == "give 'input' for every sequence"


def test_an_input_that_the_request_lacks() -> None:
    lines, hint = answer(OPTIONAL, {"input": product([0], range(-4, 9))}, {"output": product([0], [0, 1])})
    assert lines[1] == "output(0,0) needs b(0,0) needs ivector(0,0): not given"
    assert lines[-1] == "'ivector' is missing at t = 0: it is not in the request"
    assert hint == "give 'ivector' as well"


def test_optional_terms_are_not_to_blame_and_alternatives_are_named() -> None:
    given = {"input": product([0], range(6)), "ivector": product([0], [0])}
    lines, hint = answer(OPTIONAL, given, {"output": product([0], range(4))})
    assert lines[1] == "output(0,0) needs b(0,0) needs a(0,0) needs input(0,-1) (or input(0,-3)): not given"
    assert lines[-1] == "'input' is given at t = 0:5 and missing at t = -1"
    assert hint == "give 1 more frame on the left of 'input'"


def test_any_frame_of_a_window_will_do() -> None:
    lines, hint = answer(POOLED, {"input": product([0], range(4))}, {"output": product([0], [0, 5])})
    assert lines[1] == "output(0,5) needs s(0,4) needs input(0,4) (or any of 3 others): not given"
    assert hint == "give 1 more frame on the right of 'input'"


def test_every_output_has_its_path() -> None:
    given = {"input": product([0], range(6)), "ivector": product([0], [0])}
    lines, _ = answer(OPTIONAL, given, {"output": product([0], [0]), "other": product([0], [7])})
    assert lines[1].startswith("output(0,0) needs ")
    assert lines[2] == "other(0,7) needs a(0,7) needs input(0,7): not given"
    assert lines[3:5] == ["'output' cannot be computed at t = 0 of sequence n = 0",
                          "'other' cannot be computed at t = 7 of sequence n = 0"]


def test_a_recurrence_without_beginning() -> None:
    endless = RNN.replace("IfDefined(Offset(t, -1))", "Offset(t, -1)")
    lines, hint = answer(endless, {"input": product([0], range(-9, 9))}, {"output": product([0], [0])})
    assert " needs … (" in lines[1] and lines[1].endswith("): not given") and len(lines[1]) < 200
    assert "'t' needs itself at other times without end: write IfDefined" in hint


def test_a_recurrence_that_can_begin_is_not_to_blame() -> None:
    lines, hint = answer(RNN, {"input": product([0], range(9))}, {"output": product([0], [4, 9])})
    assert lines[1] == "output(0,9) needs t(0,9) needs a(0,9) needs input(0,9): not given"
    assert hint == "give 1 more frame on the right of 'input'"


def test_x_is_named_where_it_is_not_zero() -> None:
    lines, _ = answer(TDNN, {"input": product([0], range(-4, 9), x=1)}, {"output": product([0], [20], x=1)})
    assert lines[1].startswith("output(0,20,1) needs b(0,20,1) needs ")


@pytest.mark.parametrize("times, text", [
    ([3], "3"), ([1, 2], "1:2"), ([0, 3], "0, 3"), ([0, 3, 6], "0:6:3"), ([5, 4, 9, 9], "4:5, 9"),
    ([0, 1, 2, 9, 12, 15], "0:2, 9:15:3"), ([0, 5, 11, 18, 26, 35], "0, 5, 11, …, 35")])
def test_times(times: list[int], text: str) -> None:
    assert times_text(times) == text


def test_the_shortcut_speaks_of_all_sequences() -> None:
    asked = ComputationRequest([IoSpecification("input", product(range(64), range(9)))],
                               [IoSpecification("output", product(range(64), range(4)))])
    with pytest.raises(NotComputableError, match="256 output cindexes out of 256") as caught:
        compile(Nnet.from_config(TDNN), asked)
    assert "of 64 sequences, n = 0:63" in caught.value.message
