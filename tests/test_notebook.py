"""nnet3py/inspection/notebook.py: the HTML of networks, components, computations, examples and results."""
from __future__ import annotations

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from runtime_cases import TDNN, class_example, forward_request

import nnet3py
from nnet3py.inspection.notebook import html_of
from nnet3py.network.nnet import Nnet
from nnet3py.recognition.results import Result, Word

NNET = Nnet.from_config(TDNN)


def result() -> Result:
    words = Word("yes", 0.5, 0.9, 0.75), Word("<no>", 1.0, 1.25, 1.0)
    return Result(words, 0.0, 1.5, SimpleNamespace(), SimpleNamespace())      # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "expected"), [
    (NNET, ["130 parameters", "input (−1, 0, +2)", "</svg>"]),
    (NNET.summary(), ["130 parameters", "</svg>"]),
    (NNET["a"], ["AffineComponent", "linear_params", "5 x 9"]),
    (NNET["t"], ["TanhComponent"]),
    (nnet3py.compile(NNET, forward_request()), ["commands, ", "PROPAGATE"]),
    (forward_request(), ["[(0,0), (1,0), (0,1)", "output"]),
    (class_example(), ["SparseMatrix", "input"]),
    (class_example().io[0], ["ndarray"]),
    (result(), ["yes", "&lt;no&gt;", "0.50 s", "0.75"]),
], ids=lambda value: type(value).__name__)
def test_what_is_shown(value: object, expected: list[str]) -> None:
    text = value._repr_html_()      # type: ignore[attr-defined]
    for part in expected:
        assert part in text
    ElementTree.fromstring(f"<div>{text.replace('<br>', '<br/>')}</div>")       # what is opened is closed


def test_anything_else_is_text() -> None:
    assert html_of("<a>") == "<pre>&#x27;&lt;a&gt;&#x27;</pre>"


def test_one_line_texts() -> None:
    computation = nnet3py.compile(NNET, forward_request())
    assert repr(computation).startswith("<Computation: ") and "\n" not in repr(computation)
    assert repr(class_example(2, 1)) == ("NnetExample([<NnetIo 'input': 2 x 3 ndarray, indexes [(0,0), (1,0)]>, "
                                         "<NnetIo 'output': 2 x 4 SparseMatrix, indexes [(0,0), (1,0)]>])")
    request = forward_request()
    assert repr(request).startswith("ComputationRequest([IoSpecification('input', [(0,-6), ")
