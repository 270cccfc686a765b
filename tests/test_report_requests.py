"""Requests from files, from ranges, and of chunks with the network's context."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import CASES, RNN, TDNN, product, read_request, recorded_names

from nnet3py.compiler.build_graph import build_graph
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.report.requests import natural_request, parse_request, range_request

WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=4
component-node name=a component=a input=Append(Offset(input, -1), Offset(input, 2), {ivector})
output-node name=output input=a
output-node name=output-xent input=a
"""


@pytest.mark.parametrize("name", recorded_names())
def test_recorded_requests(name: str) -> None:
    path = CASES / name / "request.txt"
    assert parse_request(path.read_text(), str(path)) == read_request(path)


def test_a_request_file_may_have_comments_and_no_x() -> None:
    asked = parse_request("# a comment\n\ninput input has_deriv=0 0,-1 0,0\noutput output has_deriv=1 0,0,2\n"
                          "need_model_derivative = 1\n")
    assert asked.inputs[0].indexes.tolist() == [[0, -1, 0], [0, 0, 0]]
    assert asked.outputs[0].indexes.tolist() == [[0, 0, 2]] and asked.need_model_derivative


@pytest.mark.parametrize("line, message", [
    ("inputs input has_deriv=0 0,0,0", "line 2 of the request is not understood"),
    ("input", "lacks its node or has_deriv"), ("input input 0,0,0", "lacks its node or has_deriv"),
    ("input input has_deriv=2 0,0,0", "lacks its node or has_deriv"),
    ("input input has_deriv=0 0,0,0,0", "'0,0,0,0' where n,t,x is expected"),
    ("input input has_deriv=0 0,x", "where n,t,x is expected"),
    ("need_model_derivative=2", "is not understood"), ("\0\xff", "is not understood")])
def test_damaged_request_files(line: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_request(f"output output has_deriv=1 0,0,0\n{line}\n", "some.txt")
    assert "some.txt" in str(caught.value)


@pytest.mark.parametrize("text", ["", "input input has_deriv=0 0,0,0", "output output has_deriv=0",
                                  "input a has_deriv=0 0,9999999999,0\noutput b has_deriv=0 0,0,0"])
def test_requests_that_are_none(text: str) -> None:
    with pytest.raises(Nnet3Error):
        parse_request(text)


def test_ranges() -> None:
    asked = range_request("input:-5:9, ivector:0", "output:0:4:2", 2, train=True, input_derivs=["ivector"])
    assert [io.name for io in asked.inputs] == ["input", "ivector"]
    assert np.array_equal(asked.inputs[0].indexes, product([0, 1], range(-5, 10)))
    assert np.array_equal(asked.inputs[1].indexes, product([0, 1], [0]))
    assert np.array_equal(asked.outputs[0].indexes, product([0, 1], [0, 2, 4]))
    assert [io.has_deriv for io in (*asked.inputs, *asked.outputs)] == [False, True, True]
    assert asked.need_model_derivative and not asked.store_component_stats
    assert not range_request("a:0", "b:0", 1).outputs[0].has_deriv


def test_the_largest_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = range_request("input:1000000000, b:-1000000000:-999999998:2", "output:3", 1)
    assert [io.indexes[:, 1].tolist() for io in (*asked.inputs, *asked.outputs)] == [
        [10**9], [-10**9, -10**9 + 2], [3]]
    for wrong in ("input:1000000001", "input:-1000000001:0:1000000000", "input:0:3:0", "input:1:0"):
        with pytest.raises(UsageError, match=f"--input: '{wrong}' holds no times, or times out of range"):
            range_request(wrong, "output:0", 1)
    monkeypatch.setattr("nnet3py.report.requests.MAX_ROWS", 12)
    assert len(range_request("input:0:5", "output:0", 2).inputs[0].indexes) == 12
    with pytest.raises(UsageError, match="asks for 13 rows of 'input'; 12 are the most"):
        range_request("input:0:12", "output:0", 1)
    with pytest.raises(UsageError, match="asks for 14 rows of 'output'; 12 are the most"):
        range_request("input:0", "output:0:6", 2)
    with pytest.raises(UsageError, match="derivative of 'output' is wanted, which is not an input.*inputs are a, b"):
        range_request("a:0,b:0", "output:0", 1, input_derivs=["output"])


@pytest.mark.parametrize("inputs, message", [
    ("input", "is not a range of times"), ("input:", "is not a range of times"),
    ("input:0:1:2:3", "is not a range of times"),
    ("input:5:0", "holds no times"), ("input:0:9:0", "holds no times"), ("input:0,input:1", "a name twice"),
    ("input:0:99999999", "rows of 'input'"), ("input:0:9999999999", "out of range"),
    (":0:1", "is not a range of times")])
def test_ranges_that_cannot_be_used(inputs: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        range_request(inputs, "output:0", 1)


def test_numbers_out_of_range() -> None:
    nnet = Nnet.from_config(TDNN)
    for wrong in ({"frames": 2**31 - 1}, {"frames": 5, "num_sequences": 2**31},
                  {"frames": 5, "input_derivs": ["output"]}):
        with pytest.raises(UsageError):
            natural_request(nnet, **wrong)


@pytest.mark.parametrize("text, left, right", [(TDNN, 4, 2), (RNN, 0, 0)])
def test_the_natural_request_has_the_context(text: str, left: int, right: int) -> None:
    nnet = Nnet.from_config(text)
    asked = natural_request(nnet, 6, num_sequences=2, frame_subsampling_factor=3, train=True)
    assert np.array_equal(asked.inputs[0].indexes, product([0, 1], range(-left, 6 + right)))
    assert np.array_equal(asked.outputs[0].indexes, product([0, 1], [0, 3]))
    build_graph(nnet, asked)
    wider = natural_request(nnet, 6, extra_left_context=2, extra_right_context=1)
    assert np.array_equal(wider.inputs[0].indexes, product([0], range(-left - 2, 7 + right)))


@pytest.mark.parametrize("ivector, times", [("ReplaceIndex(ivector, t, 0)", [0]), ("Round(ivector, 4)", [0, 4]),
                                            ("ivector", list(range(6)))])
def test_ivectors_are_given_where_the_network_looks(ivector: str, times: list[int]) -> None:
    nnet = Nnet.from_config(WITH_IVECTOR.format(ivector=ivector))
    asked = natural_request(nnet, 6, outputs=("output", "output-xent"))
    assert asked.inputs[1].name == "ivector" and asked.inputs[1].indexes[:, 1].tolist() == times
    assert [io.name for io in asked.outputs] == ["output", "output-xent"]
    build_graph(nnet, asked)


def test_networks_with_other_inputs_have_no_natural_request() -> None:
    nnet = Nnet.from_config(TDNN.replace("name=input", "name=feats").replace("input,", "feats,")
                            .replace("Offset(input", "Offset(feats"))
    with pytest.raises(Nnet3Error):
        natural_request(nnet, 5)
