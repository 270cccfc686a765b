"""nnet3py/trees/{draw,picture}.py: Kaldi's own drawing to the letter; the picture is well-formed and has all leaves."""
from __future__ import annotations

from xml.etree import ElementTree

import pytest
from paths import DATA

from nnet3py.errors import Nnet3Error
from nnet3py.hmm.alignment import read_symbol_table
from nnet3py.hmm.tree import Constant, ContextDependency, Split, Table
from nnet3py.io.object_files import read_object
from nnet3py.io.streams import read_text
from nnet3py.trees.draw import drawing, html_page, parsed_query, svg_picture

TREES = DATA / "trees"
NAMES = read_symbol_table(read_text(TREES / "phones.txt"))
TREE = read_object(TREES / "bi.tree", ContextDependency.read)


def test_drawing_is_kaldis() -> None:
    assert drawing(TREE, NAMES, tooltips=True) == (TREES / "bi.dot").read_text()


def test_path_of_a_query() -> None:
    tree = ContextDependency(3, 1, Split(1, frozenset([1]), Table(-1, (Constant(0), Constant(1))),
                                         Split(0, frozenset([2]), Constant(2), Constant(3))))
    text = drawing(tree, {1: "a", 2: "b"}, [1, 2, 1, 0])
    red = [line.strip().split("[")[0].strip() for line in text.splitlines() if "red" in line]
    assert red == ["0", "0 -> 1", "1", "1 -> 3", "3"]
    assert 'label="LContext = ?"' in text and 'label="Center = ?"' in text


@pytest.mark.parametrize(("text", "message"), [("0/a", "expected a query"), ("x/a/b/c", "expected a query"),
                                               ("0/a/b/zz", "no phone 'zz'")])
def test_bad_queries(text: str, message: str) -> None:
    with pytest.raises(Nnet3Error, match=message):
        parsed_query(text, {"a": 1, "b": 2, "c": 3}, 3)


def test_a_query() -> None:
    assert parsed_query("1/a/c/b", {"a": 1, "b": 2, "c": 3}, 3) == [1, 1, 3, 2]


def test_a_phone_without_name() -> None:
    for draw in (drawing, svg_picture):
        with pytest.raises(Nnet3Error, match="no name for phone"):
            draw(TREE, {1: "SIL"})


def test_picture() -> None:
    root = ElementTree.fromstring(svg_picture(TREE, NAMES))
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert {f"pdf {pdf}" for pdf in range(TREE.num_pdfs)} == {text for text in texts if text.startswith("pdf")}
    heights = [float(element.get("y", "0")) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert max(heights) < float(root.get("height", "0"))


def test_questions_of_more_than_26_letters_are_shortened() -> None:
    for length, shown in ((16, f"phone in {16 * 'a'}?"), (17, f"phone in {16 * 'a'}…")):
        tree = ContextDependency(1, 0, Split(0, frozenset([1]), Constant(0), Constant(1)))
        root = ElementTree.fromstring(svg_picture(tree, {1: length * "a"}))
        title = next(root.iter("{http://www.w3.org/2000/svg}title"))
        assert title.text == f"phone in {length * 'a'}?" and title.tail == shown


def test_picture_of_a_path_and_page() -> None:
    picture = svg_picture(TREE, NAMES, [0, 2, 4])
    root = ElementTree.fromstring(picture)
    red = [element for element in root.iter("{http://www.w3.org/2000/svg}path") if element.get("stroke") == "#c0392b"]
    assert len(red) == 2          # the phone, then the state
    page = html_page(picture, "a <tree>")
    assert "a &lt;tree&gt;" in page and picture in page
