"""nnet3py/fst/text.py, symbols.py, info.py, drawing.py: lines of text and back, symbols, facts."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from paths import DATA
from random_fsts import random_fst

from nnet3py.errors import FormatError
from nnet3py.fst import text
from nnet3py.fst.operations import inverted
from nnet3py.fst.text import (
    TextForm,
    drawing_text,
    fst_of_text,
    info_text,
    names_of,
    read_symbols,
    symbols_of,
    symbols_text,
    text_of_fst,
    with_symbols,
)
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

GRAPHS = DATA / "graphs"
NUMBERED = TextForm(keep_state_numbering=True)


def printed(fst: Fst, form: TextForm = NUMBERED, **options: object) -> bytes:
    return b"".join(text_of_fst(fst, form, **options))  # type: ignore[arg-type]


def test_text_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        fst = random_fst(seed, cyclic=True)
        assert fst_of_text(printed(fst), NUMBERED).equals(fst)
    whole = printed(read_fst_file(GRAPHS / "LG.fst"))
    monkeypatch.setattr(text, "_LINES", 7)
    assert printed(read_fst_file(GRAPHS / "LG.fst")) == whole


def test_states_are_numbered_as_they_appear() -> None:
    fst = fst_of_text(b"7 3 1 2 0.5\n\n3 7 0 0\n3 9 4 4 Infinity\n9 2.5\n3\n", TextForm())
    assert (fst.start, fst.next_states.tolist(), fst.final_weights.tolist()) == (0, [1, 0, 2], [np.inf, 0.0, 2.5])
    assert fst.weights.tolist() == [0.5, 0.0, np.inf]
    assert printed(fst) == b"0\t1\t1\t2\t0.5\n1\t0\t0\t0\n1\t2\t4\t4\tInfinity\n1\n2\t2.5\n"
    assert fst_of_text(b"", TextForm()).start == -1 and printed(fst_of_text(b"\n \n", TextForm())) == b""


def test_symbols(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\nb\t2\n")
    table = read_symbols(tmp_path / "words.txt")
    assert table == {b"<eps>": 0, b"a": 1, b"b": 2} and symbols_text(table) == b"<eps>\t0\na\t1\nb\t2\n"
    form = TextForm(inputs=table, outputs=table)
    fst = fst_of_text(b"0 1 a <eps> 1.5\n1\n", form)
    assert fst.input_labels.tolist() == [1] and printed(fst, form) == b"0\t1\ta\t<eps>\t1.5\n1\n"
    write_fst_file(tmp_path / "kept.fst", with_symbols(fst, table, None, "words.txt"))
    read = read_fst_file(tmp_path / "kept.fst")
    assert symbols_of(read) == (table, None) and read.equals(fst)
    acceptor = fst_of_text(b"0 1 a 1.5\n1\n", TextForm(True, table))
    assert acceptor.is_acceptor and printed(acceptor, TextForm(True, table)) == b"0\t1\ta\t1.5\n1\n"


def test_symbols_of_kaldis_file() -> None:
    fst = read_fst_file(GRAPHS / "G-symbols.fst")
    inputs, outputs = symbols_of(fst)
    assert inputs is not None and inputs == outputs and inputs[b"<s>"] == 1 and len(inputs) == 17
    again = with_symbols(fst, inputs, outputs, "G-symbols.fst").stored
    assert again is not None and fst.stored is not None and again.symbols == fst.stored.symbols


@pytest.mark.parametrize(("lines", "message"), [
    (b"0 1 1 1\n0 1 2\n", "line 2 of an FST, found '0 1 2'"), (b"0 1 1 1 0.5 6\n", "the fields of an arc"),
    (b"0 x 1 1\n", "a state"), (b"0 -1 1 1\n", "a state"), (b"0 1 1 -1\n", "a label"), (b"0 1 1_0 1\n", "a label"),
    (b"0 1 99999999999 1\n", "a label"), (b"0 1 1 1 cost\n", "a cost"), (b"0 1 1 1 nan\n", "a cost"),
    (b"0 1 1 1 1_5\n", "a cost"), (b"\xff\xfe 1 1 1\n", "a state")])
def test_what_is_no_fst(lines: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        fst_of_text(lines, TextForm(), "x.txt")


def test_numbers_may_have_a_sign_also_where_another_line_is_wrong() -> None:
    assert fst_of_text(b"0 +1 +2 1\n+1\n", TextForm()).input_labels.tolist() == [2]
    with pytest.raises(FormatError, match="line 2 of an FST, found '1 x 1 1'"):
        fst_of_text(b"0 +1 1 1\n1 x 1 1\n", TextForm(), "x.txt")


def test_more_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot have 1000000001 states"):
        fst_of_text(b"0 1000000000 1 1\n", NUMBERED)
    with pytest.raises(FormatError, match="which has no 'c'"):
        fst_of_text(b"0 1 c 1\n", TextForm(inputs={b"a": 1}))
    with pytest.raises(FormatError, match="label 1, for which the table has no symbol"):
        printed(fst_of_text(b"0 1 1 1\n", TextForm()), TextForm(inputs={b"b": 2}))
    with pytest.raises(FormatError, match="cannot be printed as acceptor"):
        printed(fst_of_text(b"0 1 1 2\n", TextForm()), TextForm(acceptor=True))
    for wrong in ("a 1 2\n", "a x\n", "a 1\na 2\n"):
        (tmp_path / "table").write_text(wrong)
        with pytest.raises(FormatError):
            read_symbols(tmp_path / "table")
    assert fst_of_text(b"0 1 -5 1\n", TextForm(allow_negative_labels=True)).input_labels.tolist() == [-5]


# A label 1 with two outputs, a loop of an epsilon, a state that nothing reaches; all facts of it, as fstinfo has them.
FACTS = """fst type vector|arc type standard|input symbol table none|output symbol table none|# of states 3|# of arcs 3
initial state 0|# of final states 1|# of input/output epsilons 1|# of input epsilons 1|# of output epsilons 2
input label multiplicity 1.66667|output label multiplicity 1|# of accessible states 2|# of coaccessible states 2
# of connected states 2|# of connected components 2|# of strongly conn components 3|input matcher y|output matcher n
input lookahead n|output lookahead n|expanded y|mutable y|error n|acceptor n|input deterministic n
output deterministic y|input/output epsilons y|input epsilons y|output epsilons y|input label sorted y
output label sorted n|weighted y|cyclic y|cyclic at initial state n|top sorted n|accessible n|coaccessible n|string n
weighted cycles y"""


def small() -> Fst:
    return Fst.from_arcs(0, [np.inf, 0.5, np.inf], [0, 0, 1], [1, 1, 0], [2, 0, 0], [1.5, 0, 2], [1, 1, 1])


def test_facts() -> None:
    lines = FACTS.replace("\n", "|").split("|")
    assert info_text(small()) == "".join(f"{name:<50}{value}\n" for name, value in (
        line.rsplit(" ", 1) for line in lines))
    inverse = info_text(with_symbols(inverted(small()), None, {b"a": 1}))
    others = dict(line.rsplit(None, 1) for line in inverse.splitlines())
    assert [others[name] for name in ("input symbol table", "output symbol table", "input matcher", "output matcher",
                                      "# of input epsilons", "# of output epsilons", "input label multiplicity")] == [
        "none", "present", "n", "y", "2", "1", "1"]
    nothing = info_text(fst_of_text(b"", TextForm()))
    assert re.search(r"^initial state +-1$", nothing, re.MULTILINE)
    assert re.search(r"^input label multiplicity +0$", nothing, re.MULTILINE)


def test_drawing() -> None:
    begin = 'digraph FST {\nrankdir = LR;\nsize = "8.5,11";\nlabel = "%s";\ncenter = 1;\n'
    space = 'ranksep = "0.4";\nnodesep = "0.25";\n'
    assert drawing_text(small(), TextForm(), title="T").decode() == begin % "T" + (
        f"orientation = Landscape;\n{space}"
        '0 [label = "0", shape = circle, style = bold, fontsize = 14]\n'
        '\t0 -> 1 [label = "1:2/1.5", fontsize = 14];\n\t0 -> 1 [label = "1:0", fontsize = 14];\n'
        '1 [label = "1/0.5", shape = doublecircle, style = solid, fontsize = 14]\n'
        '\t1 -> 1 [label = "0:0/2", fontsize = 14];\n'
        '2 [label = "2", shape = circle, style = solid, fontsize = 14]\n}\n')
    table = {b"<eps>": 0, b'say "a"': 1}
    fst = Fst.from_arcs(1, [0.0, np.inf], [1, 1], [1, 7], [1, 7], [0.0, 1 / 3], [0, 0])
    assert drawing_text(fst, TextForm(True, table), portrait=True, digits=2, show_zero=True).decode() == begin % "" + (
        f"{space}"
        '1 [label = "1", shape = circle, style = bold, fontsize = 14]\n'
        '\t1 -> 0 [label = "say \\"a\\"/0", fontsize = 14];\n\t1 -> 0 [label = "7/0.33", fontsize = 14];\n'
        '0 [label = "0/0", shape = doublecircle, style = solid, fontsize = 14]\n}\n')


def test_forms_of_costs() -> None:
    fst = Fst.from_arcs(0, [np.inf, -np.inf], [0, 0, 0], [1, 1, 1], [1, 1, 1], [1 / 3, 0.0, np.inf], [1, 1, 1])
    line = b"0\t1\t1\t1"
    assert printed(fst) == line + b"\t0.333333343\n" + line + b"\n" + line + b"\tInfinity\n1\t-Infinity\n"
    assert printed(fst, show_zero=True, digits=3) == (
        line + b"\t0.333\n" + line + b"\t0\n" + line + b"\tInfinity\n1\t-Infinity\n")


def test_symbols_with_several_numbers_or_names() -> None:
    assert names_of({b"a": 1, b"b": 1, b"c": 2}) == {1: b"a", 2: b"c"}
    both = with_symbols(small(), {b"a": 1}, {b"b": 5, b"": 7}, "name")
    assert symbols_of(both) == ({b"a": 1}, {b"b": 5, b"": 7})
    assert with_symbols(both, None, None).stored is None and symbols_of(small()) == (None, None)


@pytest.mark.parametrize(("state", "fits"), [(1001, True), (1002, False)])
def test_states_are_at_most_1000_more_than_lines_have(state: int, fits: bool) -> None:
    """Two for each line; states that no line has are states of the FST, if numbers are kept."""
    data = b"0 %d 1 1\n" % state
    if fits:
        assert fst_of_text(data, NUMBERED).num_states == state + 1
    else:
        with pytest.raises(FormatError, match=f"an FST of 1 lines cannot have {state + 1} states"):
            fst_of_text(data, NUMBERED)
    assert fst_of_text(data, TextForm()).num_states == 2
