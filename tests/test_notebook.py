"""nnet3py/inspection/notebook.py: the HTML of networks, components, computations, examples and results."""
from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from runtime_cases import TDNN, class_example, forward_request

import nnet3py
from nnet3py.index import format_indexes
from nnet3py.inspection.notebook import html_of
from nnet3py.network.nnet import Nnet
from nnet3py.recognition.results import Result, Word
from nnet3py.training.train import COLUMNS, Epoch, History

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


def cells(value: object) -> list[list[str]]:
    """The rows of the table that is shown."""
    root = ElementTree.fromstring(f"<div>{html_of(value).replace('<br>', '<br/>')}</div>")
    return [[cell.text or "" for cell in row] for row in root.iter("tr")]


def test_whole_tables() -> None:
    assert cells(NNET["a"]) == [["parameter", "shape", "numbers"], ["linear_params", "5 x 9", "45"],
                                ["bias_params", "5", "5"]]
    assert html_of(NNET["t"]) == "<p><b>TanhComponent</b> 5 → 5<br>dim=5</p>"
    assert cells(forward_request())[1:] == [
        [io.name, kind, str(len(io.indexes)), format_indexes(io.indexes), "no"] for kind, io in (
            ("input", forward_request().inputs[0]), ("output", forward_request().outputs[0]))]
    assert cells(class_example(2, 1)) == [
        ["node", "rows", "columns", "matrix", "indexes (n,t)"], ["input", "2", "3", "ndarray", "[(0,0), (1,0)]"],
        ["output", "2", "4", "SparseMatrix", "[(0,0), (1,0)]"]]
    assert cells(result()) == [["word", "from", "to", "confidence"], ["yes", "0.50 s", "0.90 s", "0.75"],
                               ["<no>", "1.00 s", "1.25 s", "1.00"]]
    computation = nnet3py.compile(NNET, forward_request())
    head, *rows = cells(computation)
    assert head == ["command", "count"]
    counts = Counter(command.type.name for command in computation.commands)
    assert {name: int(count) for name, count in rows} == counts
    assert [int(count) for _, count in rows] == sorted(counts.values(), reverse=True)
    size = sum(4 * matrix.num_rows * matrix.num_cols for matrix in computation.matrices[1:])
    assert f"<p>{len(computation.commands)} commands, {len(computation.matrices) - 1} matrices of " \
           f"{size / 1000:.1f} kB together; " in html_of(computation)


def test_a_training_is_a_table() -> None:
    epoch = Epoch(1, 0.001, -1.5, math.nan, 0.123456, 7, 2.0)
    assert cells(History([epoch])) == [[*COLUMNS], [f"{getattr(epoch, name):.5g}".replace("nan", "–")
                                                    for name in COLUMNS]]
    assert "0.12346" in html_of(History([epoch])) and "–" in html_of(History([epoch]))


def test_anything_else_is_text() -> None:
    assert html_of("<a>") == "<pre>&#x27;&lt;a&gt;&#x27;</pre>"


def test_one_line_texts() -> None:
    computation = nnet3py.compile(NNET, forward_request())
    assert repr(computation).startswith("<Computation: ") and "\n" not in repr(computation)
    assert repr(class_example(2, 1)) == ("NnetExample([<NnetIo 'input': 2 x 3 ndarray, indexes [(0,0), (1,0)]>, "
                                         "<NnetIo 'output': 2 x 4 SparseMatrix, indexes [(0,0), (1,0)]>])")
    request = forward_request()
    assert repr(request).startswith("ComputationRequest([IoSpecification('input', [(0,-6), ")
