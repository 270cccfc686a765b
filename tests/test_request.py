"""Requests: what is refused, equality, and Kaldi's text."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import product, request

from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error
from nnet3py.index import NO_TIME


def test_equal_contents_are_equal_requests() -> None:
    first, second = (request(product([0, 1], range(5)), product([0, 1], [2]), train=True) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    others = [request(product([0, 1], range(5)), product([0, 1], [2])),
              request(product([0, 1], range(6)), product([0, 1], [2]), train=True),
              request(product([1, 0], range(5)), product([0, 1], [2]), train=True),
              request(product([0, 1], range(5)), product([0, 1], [2]), train=True, input_deriv=True)]
    assert all(other != first for other in others)
    assert first != "something else"


def test_a_later_change_of_the_callers_array_of_other_type_does_not_matter() -> None:
    indexes = product([0], range(3)).astype(np.int64)
    io = IoSpecification("input", indexes)
    indexes[0, 1] = 77
    assert io.indexes[0, 1] == 0
    assert io.indexes.dtype == np.int32


def test_malformed_requests_are_refused() -> None:
    io = IoSpecification("input", product([0], range(3)))
    out = IoSpecification("output", product([0], [1]))
    with pytest.raises(Nnet3Error, match="listed more than once"):
        IoSpecification("input", product([0], [1, 2, 1]))
    with pytest.raises(Nnet3Error, match="no indexes"):
        IoSpecification("input", product([], []))
    with pytest.raises(Nnet3Error, match="without time"):
        IoSpecification("input", product([0], [NO_TIME]))
    with pytest.raises(Nnet3Error, match="'input' more than once"):
        ComputationRequest([io, io], [out])
    with pytest.raises(Nnet3Error, match="'output' more than once"):
        ComputationRequest([io], [out, out])
    with pytest.raises(Nnet3Error, match="no outputs"):
        ComputationRequest([io], [])
    with pytest.raises(Nnet3Error, match="no inputs"):
        ComputationRequest([], [out])
    with pytest.raises(Nnet3Error, match="provide no derivatives at the output"):
        ComputationRequest([io], [out], need_model_derivative=True)


def test_text_is_kaldis() -> None:
    text = request(product([0], range(-1, 2)), product([0], [0]), train=True).describe()
    assert text == (" # Computation request:\ninput-0: name=input, has-deriv=false, indexes=[(0,-1:1)]\n"
                    "output-0: name=output, has-deriv=true, indexes=[(0,0)]\nneed-model-derivative: true\n"
                    "store-component-stats: true\n")


def test_frames_of_sequences_in_the_order_of_an_array() -> None:
    io = IoSpecification.frames("input", 2, -1, 3, step=2, has_deriv=True)
    assert io.indexes.tolist() == [[0, -1, 0], [0, 1, 0], [1, -1, 0], [1, 1, 0]] and io.has_deriv
    for n, t0, t1, step in ((0, 0, 1, 1), (1, 2, 2, 1), (1, 0, 2, 0)):
        with pytest.raises(Nnet3Error, match="no frames in"):
            IoSpecification.frames("input", n, t0, t1, step)
