"""nnet3py/fst/text.py, symbols.py, info.py, drawing.py: lines of text and back, symbols, facts."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import DATA
from random_fsts import random_fst

from nnet3py.errors import FormatError
from nnet3py.fst import text
from nnet3py.fst.text import (
    TextForm,
    drawing_text,
    fst_of_text,
    info_text,
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


def test_facts() -> None:
    lines = dict(line.split("  ", 1) for line in info_text(read_fst_file(GRAPHS / "LG.fst")).splitlines())
    facts = {name: value.strip() for name, value in lines.items()}
    assert len(facts) == 41
    assert facts["# of states"] == "61" or int(facts["# of states"]) > 0
    assert (facts["fst type"], facts["acceptor"], facts["cyclic"], facts["accessible"]) == ("vector", "n", "y", "y")
    assert facts["output label sorted"] == "n" and facts["# of strongly conn components"].isdecimal()


def test_drawing() -> None:
    table = {b"<eps>": 0, b'say "a"': 1}
    fst = Fst.from_arcs(0, [np.inf, 0.5], [0], [1], [0], [1.5], [1])
    drawn = drawing_text(fst, TextForm(inputs=table, outputs=table), portrait=True).decode()
    assert '0 -> 1 [label = "say \\"a\\":<eps>/1.5", fontsize = 14];' in drawn and "Landscape" not in drawn
    assert '1 [label = "1/0.5", shape = doublecircle, style = solid' in drawn
