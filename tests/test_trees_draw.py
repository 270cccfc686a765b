"""nnet3py/trees/{draw,picture}.py: Kaldi's own drawing to the letter; the picture is well-formed and has all leaves."""
from __future__ import annotations

import re
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


ASKING = ContextDependency(3, 1, Split(
    1, frozenset([1]), Table(-1, (Constant(0), None, Constant(1))), Split(
        0, frozenset([2, 1]), Constant(2), Split(
            2, frozenset([2]), Constant(3), Split(
                -1, frozenset([0, 2]), Constant(4), Table(1, (None, Constant(5), None)))))))
ASKING_IN_DOT = """\
digraph EventMap {
0[label="Center = ?", color=red, penwidth=3];
	0 -> 1 [label="a", penwidth=1, penwidth=1, color=black];
1[label="PdfClass = ?", color=black, penwidth=1];
	1 -> 2 [label=0, color=black, penwidth=1];
2[shape=doublecircle, label=0,color=black, penwidth=1];
	1 -> 3 [label=1, color=black, penwidth=1];
	1 -> 4 [label=2, color=black, penwidth=1];
4[shape=doublecircle, label=1,color=black, penwidth=1];
	0 -> 5[label=NO, color=red, penwidth=3];
5[label="LContext = ?", color=red, penwidth=3];
	5 -> 6 [label="a, b", penwidth=3, penwidth=3, color=red];
6[shape=doublecircle, label=2,color=red, penwidth=3];
	5 -> 7[label=NO, color=black, penwidth=1];
7[label="RContext = ?", color=black, penwidth=1];
	7 -> 8 [label="b", penwidth=1, penwidth=1, color=black];
8[shape=doublecircle, label=3,color=black, penwidth=1];
	7 -> 9[label=NO, color=black, penwidth=1];
9[label="PdfClass = ?", color=black, penwidth=1];
	9 -> 10 [label="0, 2", penwidth=1, penwidth=1, color=black];
10[shape=doublecircle, label=4,color=black, penwidth=1];
	9 -> 11[label=NO, color=black, penwidth=1];
11[label="Center = ?", color=black, penwidth=1];
	11 -> 12 [label=a, color=black, penwidth=1];
12[shape=doublecircle, label=5,color=black, penwidth=1];
	11 -> 13 [label=b, color=black, penwidth=1];
}
"""


def test_every_kind_of_question() -> None:
    assert drawing(ASKING, {1: "a", 2: "b"}, [1, 2, 3, 2]) == ASKING_IN_DOT
    wide = ContextDependency(5, 2, Split(0, frozenset([1]), Constant(0), Split(1, frozenset([1]), Constant(1), Split(
        2, frozenset([1]), Constant(2), Split(3, frozenset([1]), Constant(3), Constant(4))))))
    assert re.findall(r"^\d\[label=(.*), color", drawing(wide, {1: "a"}), re.MULTILINE) == [
        "", '"Ctx Position 1 = ?"', '"Center = ?"', '"Ctx Position 3 = ?"']
    alone = ContextDependency(1, 0, Split(0, frozenset([1]), Constant(0), Constant(1)))
    assert '0[label="Phone = ?", color' in drawing(alone, {1: "a"})
    assert drawing(ContextDependency(1, 0, None), {}) == "digraph EventMap {\n}\n"


def test_picture_of_every_kind_of_question() -> None:
    """A line for each leaf; a question is halfway between its first and its last answer, in a column of its own."""
    root = ElementTree.fromstring(svg_picture(ASKING, {1: "a", 2: "b"}, [1, 2, 3, 2]))
    nodes = [element for element in root if len(element)]
    color = {"#c0392b": "red", "#2c3e50": "ink"}
    columns = sorted({float(node.attrib["x"]) for node in nodes})
    assert columns[0] > 0 and columns[-1] < float(root.attrib["width"])
    assert [(node[0].text, columns.index(float(node.attrib["x"])), color[node.attrib["fill"]]) for node in nodes] == [
        ("phone in a?", 0, "red"), ("state?", 1, "ink"), ("pdf 0", 2, "ink"), ("pdf 1", 2, "ink"),
        ("phone -1 in a, b?", 1, "red"), ("pdf 2", 2, "red"), ("phone +1 in b?", 2, "ink"), ("pdf 3", 3, "ink"),
        ("state in 0, 2?", 3, "ink"), ("pdf 4", 4, "ink"), ("phone?", 4, "ink"), ("pdf 5", 5, "ink")]
    height = {node[0].text: float(node.attrib["y"]) for node in nodes}
    line = height["pdf 1"] - height["pdf 0"]
    assert [(height[f"pdf {pdf}"] - height["pdf 0"]) / line for pdf in range(6)] == [0, 1, 2, 3, 4, 5]
    for question, first, last in (("state?", "pdf 0", "pdf 1"), ("phone?", "pdf 5", "pdf 5"),
                                  ("phone +1 in b?", "pdf 3", "state in 0, 2?"),
                                  ("phone in a?", "state?", "phone -1 in a, b?")):
        assert height[question] == (height[first] + height[last]) / 2
    answers = [(element.text, element.attrib["fill"] == "#c0392b") for element in root
               if element.tag.endswith("text") and not len(element)]
    assert answers == [("yes", False), ("0", False), ("2", False), ("no", True), ("yes", True), ("no", False),
                       ("yes", False), ("no", False), ("yes", False), ("no", False), ("a", False)]


def test_path_of_a_query() -> None:
    tree = ContextDependency(3, 1, Split(1, frozenset([1]), Table(-1, (Constant(0), Constant(1))),
                                         Split(0, frozenset([2]), Constant(2), Constant(3))))
    text = drawing(tree, {1: "a", 2: "b"}, [1, 2, 1, 0])
    red = [line.strip().split("[")[0].strip() for line in text.splitlines() if "red" in line]
    assert red == ["0", "0 -> 1", "1", "1 -> 3", "3"]
    assert 'label="LContext = ?"' in text and 'label="Center = ?"' in text


@pytest.mark.parametrize(("text", "message"), [
    ("0/a", "expected a query such as 0/PHONE/PHONE/PHONE, found '0/a'"), ("x/a/b/c", "expected a query"),
    ("0/a/b/c/a", "expected a query"), ("0/a/b/zz", "no phone 'zz' of the query '0/a/b/zz'")])
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
