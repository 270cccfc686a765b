"""nnet3py/training/example_computation.py: the request that an example makes."""
from __future__ import annotations

import numpy as np
import pytest
from runtime_cases import dense_example, plain

from nnet3py.egs.example import NnetExample
from nnet3py.errors import Nnet3Error
from nnet3py.training.example_computation import example_request


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("stats", [True, False])
def test_indexes_and_flags(train, stats):
    eg = dense_example(3, 2)
    request = example_request(plain(), NnetExample(eg.io[::-1]), train, stats)
    assert [(io.name, io.has_deriv) for io in (*request.inputs, *request.outputs)] == [("input", False),
                                                                                     ("output", train)]
    np.testing.assert_array_equal(request.inputs[0].indexes, eg.io[0].indexes)
    np.testing.assert_array_equal(request.outputs[0].indexes, eg.io[1].indexes)
    assert (request.need_model_derivative, request.store_component_stats) == (train, stats)


@pytest.mark.parametrize("name", ["nobody", "a", "a_input"])
def test_unknown_names(name):
    eg = dense_example()
    eg.io[1].name = name
    message = f"Nnet example has input or output named '{name}', but no such input or output node is in the network."
    with pytest.raises(Nnet3Error, match=message + r" \(the network has input, output\)"):
        example_request(plain(), eg, True, False)


@pytest.mark.parametrize(("kept", "missing"), [(0, "output"), (1, "input")])
def test_both_ends_are_needed(kept, missing):
    eg = NnetExample([dense_example().io[kept]])
    with pytest.raises(Nnet3Error, match=f"an example has no {missing} .it holds {eg.io[0].name}"):
        example_request(plain(), eg, True, False)
    with pytest.raises(Nnet3Error, match="it holds nothing"):
        example_request(plain(), NnetExample([]), True, False)


def test_a_name_twice():
    eg = dense_example()
    with pytest.raises(Nnet3Error, match="more than once"):
        example_request(plain(), NnetExample([*eg.io, eg.io[0]]), True, False)
