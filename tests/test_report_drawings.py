"""Drawings: layouts without overlaps, valid SVG, texts that do not cover each other."""
from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import CASES, RNN, TDNN, product, recorded_case, recorded_names, request
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py import compile
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.report.draw_memory import crosses, draw_memory
from nnet3py.report.draw_network import BYPASSED, draw_network, network_units
from nnet3py.report.drawings import draw_graph, drawings, write_drawings
from nnet3py.report.requests import natural_request
from nnet3py.report.svg import INK, VIOLET, Drawing, backward_edges, bypasses, layered, stacked
from nnet3py.report.tables import lifetimes
from nnet3py.runtime.binding import plan_memory

DEEP = "input-node name=input dim=4\n" + "".join(
    f"component name=tdnn{i}.affine type=NaturalGradientAffineComponent input-dim=8 output-dim=4\n"
    f"component-node name=tdnn{i}.affine component=tdnn{i}.affine input=Append(Offset({before}, -3), {before})\n"
    f"component name=tdnn{i}.relu type=RectifiedLinearComponent dim=4\n"
    f"component-node name=tdnn{i}.relu component=tdnn{i}.relu input=tdnn{i}.affine\n"
    for i, before in enumerate(["input", *(f"tdnn{k}.relu" for k in range(9))])
) + "output-node name=output input=tdnn9.relu\n"


ROUNDED = 0.2       # coordinates in files have one decimal
HEAD_WIDTH = 7.6    # of an arrow, as svg.py draws it


def overlaps(first: tuple[float, float, float, float], second: tuple[float, float, float, float]) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def check(drawing: Drawing) -> ElementTree.Element:
    """Valid XML with everything on the page, and no text over another."""
    root = ElementTree.fromstring(drawing.svg())
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for text, area in drawing.texts:
        assert left <= area[0] and area[2] <= left + width and top <= area[1] and area[3] <= top + height, text
    for (one, first), (other, second) in itertools.combinations(drawing.texts, 2):
        assert not overlaps(first, second), f"{one!r} and {other!r}"
    return root


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12).flatmap(lambda count: st.tuples(
    st.lists(st.tuples(st.floats(10, 300), st.floats(10, 80)), min_size=count, max_size=count),
    st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda e: e[0] != e[1]),
             unique=True, max_size=20))))
def test_layouts_have_no_overlaps(case: tuple) -> None:
    sizes, edges = case
    layout = layered(sizes, edges)
    boxes = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2)
             for x, y, (w, h) in zip(layout.x, layout.y, sizes, strict=True)]
    assert not any(overlaps(a, b) for a, b in itertools.combinations(boxes, 2))
    assert set(layout.routes) == set(edges)
    for (a, b), route in layout.routes.items():
        assert route[0] == (layout.x[a], layout.y[a]) and route[-1] == (layout.x[b], layout.y[b])
        rising = [q[1] > p[1] for p, q in itertools.pairwise(route)]
        assert rising == [(a, b) not in layout.backward] * len(rising)


def test_layers_of_a_graph() -> None:
    """Below all predecessors; what has none is just above what follows it, what is alone at the top."""
    layout = layered([(10.0, 20.0)] * 6, [(0, 1), (1, 2), (0, 2), (3, 2), (2, 4), (4, 1)], gap_y=30.0)
    assert layout.backward == {(4, 1)}
    assert layout.y == [10.0, 60.0, 110.0, 60.0, 160.0, 10.0]
    assert [len(layout.routes[edge]) for edge in ((0, 1), (0, 2), (4, 1))] == [2, 3, 3]
    lonely = layered([(10.0, 20.0), (30.0, 40.0)], [], gap_x=7.0)
    assert lonely.y == [20.0, 20.0] and lonely.x[1] - lonely.x[0] == 5 + 7 + 15


@pytest.mark.parametrize("name", recorded_names())
def test_recorded_cases_can_be_drawn(name: str) -> None:
    nnet, asked, _ = recorded_case(name)
    computation = compile(nnet, asked, shortcut=False)
    for drawing in drawings(nnet, asked, computation).values():
        check(drawing)
    assert (CASES / name).is_dir()


def test_a_small_network_shows_its_nodes() -> None:
    drawing = draw_network(Nnet.from_config(RNN))
    texts = [text for text, _ in drawing.texts]
    assert "affine 7 → 4" in texts and "of Append(input, IfDefined(Offset(t, -1)))" in texts and "−1" in texts
    assert "stroke-dasharray" in drawing.svg()      # the optional recurrence
    check(drawing)


def test_a_large_network_shows_runs_of_layers() -> None:
    nnet = Nnet.from_config(DEEP)
    units, links = network_units(nnet)
    assert [unit.name for unit in units] == ["input", *(f"tdnn{i}" for i in range(10)), "output"]
    units, links = network_units(nnet, most=5)
    assert [unit.name for unit in units] == ["input", "tdnn0 … tdnn9", "output"]
    assert units[1].lines[0] == "10 layers, each:" and set(links) == {(0, 1), (1, 2)}
    assert set().union(*(unit.nodes for unit in units)) == set(range(len(nnet.nodes)))
    check(draw_network(nnet))


RECURRENT = """\
input-node name=input dim=3
component name=a type=AffineComponent input-dim=7 output-dim=4
component-node name=a component=a input=Append(input, Offset(s, -3))
component name=s type=SigmoidComponent dim=4
component-node name=s component=s input=a
component name=b type=AffineComponent input-dim=8 output-dim=4
component-node name=b component=b input=Append(a, s)
output-node name=output input=b
"""


def test_what_leads_back_what_leads_past_and_nothing_else_is_explained() -> None:
    drawing = draw_network(Nnet.from_config(RECURRENT))
    texts = [text for text, _ in drawing.texts]
    assert texts.count("−3") == 1 and texts.count("32 parameters") == 1 and texts.count("36 parameters") == 1
    assert "dark: a recurrence, with its delay" in texts and "violet: a bypass, past other boxes" in texts
    assert "dashed: if defined" not in texts and "range of columns" not in texts
    assert "stroke-dasharray" not in drawing.svg()
    strokes = [path.attrib["stroke"] for path in check(drawing).iter("{http://www.w3.org/2000/svg}path")]
    assert strokes.count(VIOLET) >= 1 and strokes.count(INK) >= 1
    plain = [text for text, _ in draw_network(Nnet.from_config(
        "input-node name=input dim=3\noutput-node name=output input=input\n")).texts]
    assert plain == ["input", "3 columns", "output", "3 columns", "of input", "Network", "input", "output"]


def test_a_bypass_around_a_layer_is_told() -> None:
    """Both arrows of a TDNN-F layer come from the layer before, and are one in the drawing."""
    layer = ("component name={0}.linear type=LinearComponent input-dim=4 output-dim=2\n"
             "component-node name={0}.linear component={0}.linear input={1}\n"
             "component name={0}.affine type=AffineComponent input-dim=2 output-dim=4\n"
             "component-node name={0}.affine component={0}.affine input={0}.linear\n"
             "component name={0}.noop type=NoOpComponent dim=4\n"
             "component-node name={0}.noop component={0}.noop input=Sum(Scale(0.66, {1}), {0}.affine)\n")
    config = "input-node name=input dim=4\n" + "".join(
        layer.format(f"f{i}", f"f{i - 1}.noop" if i else "input") for i in range(300)) + (
        "output-node name=output input=f299.noop\n")
    units, links = network_units(Nnet.from_config(config))
    assert [unit.name for unit in units] == ["input", "f0 … f299", "output"]
    assert [BYPASSED in unit.lines for unit in units] == [False, True, False]
    assert BYPASSED not in network_units(Nnet.from_config(DEEP), most=5)[0][1].lines


def test_edges_that_lead_back() -> None:
    assert backward_edges(3, [(0, 1), (1, 2), (2, 0)]) == {(2, 0)}
    assert backward_edges(4, [(0, 0), (1, 2), (2, 1), (0, 3), (1, 3)]) == {(0, 0), (2, 1)}


@given(st.integers(2, 9).flatmap(lambda count: st.lists(
    st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda e: e[0] < e[1]), unique=True)))
def test_bypasses_are_edges_beside_a_longer_way(edges: list[tuple[int, int]]) -> None:
    def leads(a: int, b: int) -> bool:
        return any(x == a and (y == b or leads(y, b)) for x, y in edges)

    assert bypasses(edges, ()) == {(a, b) for a, b in edges if any(x == a and y != b and leads(y, b) for x, y in edges)}


def test_arrows_end_at_points_of_their_own() -> None:
    drawing = draw_network(Nnet.from_config(RECURRENT))
    tips = [head.attrib["points"].split()[0] for head in
            ElementTree.fromstring(drawing.svg()).iter("{http://www.w3.org/2000/svg}polygon")]
    assert len(tips) == 6 and len(set(tips)) == 6


def test_an_arrow_points_to_where_its_line_ends() -> None:
    """The head is 8 long; the line ends within it."""
    drawing = Drawing("arrows")
    drawing.line([(0.0, 90.0), (10.0, 20.0), (40.0, 60.0)], arrow=True)
    drawing.curve((0.0, 90.0), (0.0, 90.0), (10.0, 20.0), (40.0, 60.0), arrow=True)
    heads, lines = (re.findall(pattern, drawing.svg()) for pattern in ('points="([^"]*)"', '<path d="([^"]*)"'))
    assert heads == 2 * ["40,60 32.2,55.9 38.2,51.3"]
    assert lines == ["M 0 90 L 10 20 L 36.6 55.5", "M 0 90 C 0 90, 10 20, 36.6 55.5"]


def test_arrow_heads_do_not_pile_up() -> None:
    names = [f"i{number}" for number in range(14)]
    drawing = draw_network(Nnet.from_config("".join(f"input-node name={name} dim=1\n" for name in names)
                                            + "component name=s type=SigmoidComponent dim=14\n"
                                            f"component-node name=s component=s input=Append({','.join(names)})\n"
                                            "output-node name=output input=s\n"))
    tips = sorted(float(head.attrib["points"].split(",")[0]) for head in
                  check(drawing).iter("{http://www.w3.org/2000/svg}polygon"))
    apart = [after - before for before, after in itertools.pairwise(tips[:])]
    assert len(tips) == 15 and sum(gap < HEAD_WIDTH for gap in apart) <= 1      # the arrow below is on its own


def test_a_recurrence_within_a_layer_is_one_loop() -> None:
    nnet = Nnet.from_config(RECURRENT.replace("name=a", "name=l.a").replace("component=a", "component=l.a")
                            .replace("(a,", "(l.a,").replace("input=a\n", "input=l.a\n")
                            .replace("name=s", "name=l.s").replace("component=s", "component=l.s")
                            .replace("Offset(s", "Offset(l.s").replace(", s)", ", l.s)"))
    units, links = network_units(nnet, most=3)
    assert [unit.name for unit in units] == ["input", "l", "b", "output"]
    assert units[1].lines[-1] == "32 parameters"
    assert links[1, 1].shifts == ["−3"] and not links[1, 1].optional
    check(draw_network(nnet, most=3))


def test_a_graph_has_a_cell_for_each_cindex() -> None:
    nnet = Nnet.from_config(TDNN)
    drawing = draw_graph(nnet, request(product([0, 1], range(-5, 6)), product([0, 1], [0, 3])))
    cells = [text for text, _ in drawing.texts if text.replace("−", "").isdigit()]
    assert cells.count("0") == 1 + 2 + 1 + 1      # input; a, r (for the output at 0 and at 3); b; output
    assert len(cells) == 11 + 2 * 3 + 2 * 2
    check(drawing)


def test_arrows_in_a_graph_end_beside_each_other_and_the_legend_has_what_is_there() -> None:
    nnet = Nnet.from_config(TDNN)
    drawing = draw_graph(nnet, request(product([0], range(-4, 4)), product([0], [0, 1])))
    tips = [tuple(map(float, head.attrib["points"].split()[0].split(","))) for head in
            check(drawing).iter("{http://www.w3.org/2000/svg}polygon")]
    assert all(x != other or y != other_y for (x, y), (other, other_y) in itertools.combinations(tips, 2))
    texts = [text for text, _ in drawing.texts]
    assert "given" in texts and "given, not used" not in texts
    unused = draw_graph(nnet, request(product([0], range(-9, 4)), product([0], [0, 1])))
    assert "given, not used" in [text for text, _ in unused.texts]


def test_a_large_graph_is_cut_to_one_output_row() -> None:
    nnet = Nnet.from_config(TDNN)
    drawing = draw_graph(nnet, natural_request(nnet, 100))
    assert drawing.title.endswith("(what one row of the output needs)")
    check(drawing)


def test_a_graph_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3py.report.drawings.MOST_COLUMNS", 4)
    nnet = Nnet.from_config(TDNN)
    with pytest.raises(Nnet3Error, match="has 5 times and 5 nodes, too many for a drawing"):
        draw_graph(nnet, natural_request(nnet, 10))


def test_points_of_a_deep_graph_are_left_out() -> None:
    drawing = draw_graph(Nnet.from_config(DEEP), natural_request(Nnet.from_config(DEEP), 2))
    names = [text for text, _ in drawing.texts]
    assert "tdnn5.affine" in names and "tdnn5.relu" not in names


def test_memory_marks_the_peak_and_every_matrix() -> None:
    nnet = Nnet.from_config(TDNN)
    computation = compile(nnet, request(product([0, 1], range(-4, 5)), product([0, 1], range(3)), train=True))
    drawing = draw_memory(computation, nnet)
    root = ElementTree.fromstring(drawing.svg())
    tips = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len([tip for tip in tips if tip.startswith("m")]) == len(computation.matrices) - 1
    assert any(text.startswith("peak ") for text, _ in drawing.texts)
    bars = [tuple(map(float, (rect.attrib[key] for key in ("x", "y", "width", "height"))))
            for rect in root.iter("{http://www.w3.org/2000/svg}rect") if len(rect)]
    areas = [(x + ROUNDED, y + ROUNDED, x + width - ROUNDED, y + height - ROUNDED) for x, y, width, height in bars]
    assert not any(overlaps(first, second) for first, second in itertools.combinations(areas, 2))


def check_memory(drawing: Drawing, computation: Computation) -> None:
    """Every matrix is named, by what it holds or by its number and the list below; no line goes through a text."""
    root = check(drawing)
    numbers = [f"m{m}" for m in range(1, len(computation.matrices))]
    texts = [text.strip("\N{NO-BREAK SPACE}") for text, _ in drawing.texts]
    heading = next((place for place, text in enumerate(texts) if text.startswith("By number")), len(texts))
    full = {text.split()[0] for text in texts[:heading] if text.startswith("m") and " " in text}
    tagged = [text for text in texts[:heading] if text in numbers]
    listed = " ".join(texts[heading:])
    assert len(tagged) == len(set(tagged)) and not full & set(tagged)
    for number in set(numbers) - full:
        found = re.search(rf"\b{number}\b( \(c)?", listed)
        assert found and bool(found[1]) == (number not in tagged), number
    shapes = list(root)
    for text, (left, top, right, bottom) in drawing.texts:
        place = next(place for place, shape in enumerate(shapes) if shape.text == text)
        crossing = [number for number, shape in enumerate(shapes) if shape.tag.endswith("path")
                    and crosses(straight(shape), np.array([(left + ROUNDED, top, right - ROUNDED, bottom)]))[0]]
        covering = [number for number, shape in enumerate(shapes) if shape.tag.endswith("rect") and number < place
                    and float(shape.attrib["x"]) <= left + 1 <= right - 1 <= sum(
                        float(shape.attrib[key]) for key in ("x", "width"))]
        assert not crossing or max(crossing) < max(covering), text


def straight(path: ElementTree.Element) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The ends of a straight line; a point for one with corners, which is drawn above the bars."""
    points = [tuple(map(float, point.split())) for point in path.attrib["d"].removeprefix("M ").split(" L ")]
    return (points[0], points[1]) if len(points) == 2 else (points[0], points[0])


@pytest.mark.parametrize("frames", [3, 40])
def test_every_bar_has_a_name_and_no_line_goes_through_one(frames: int) -> None:
    nnet = Nnet.from_config(TDNN)
    computation = compile(nnet, request(product([0, 1], range(-4, frames + 2)), product([0, 1], range(frames)),
                                        train=True))
    check_memory(draw_memory(computation, nnet), computation)


def test_bars_without_room_have_tags_or_places_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = Nnet.from_config(DEEP)
    computation = compile(nnet, request(product([0, 1], range(-30, 9)), product([0, 1], range(9)), train=True),
                          OptimizeOptions(optimize=False))
    assert len(computation.matrices) > 60
    drawing = draw_memory(computation, nnet)
    check_memory(drawing, computation)
    tags = sum(bool(re.fullmatch(r"m\d+", text)) for text, _ in drawing.texts)
    monkeypatch.setattr("nnet3py.report.draw_memory.MOST_TAGS", 0)
    drawing = draw_memory(computation, nnet)
    check_memory(drawing, computation)
    assert sum(bool(re.fullmatch(r"m\d+", text)) for text, _ in drawing.texts) < tags


def test_what_is_in_use_is_what_the_bars_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block of the runtime is never smaller."""
    nnet = Nnet.from_config(TDNN)
    computation = compile(nnet, request(product([0, 1], range(-4, 5)), product([0, 1], range(3)), train=True))
    monkeypatch.setattr("nnet3py.report.draw_memory.bytes_text", "{} B".format)
    words = " ".join(text for text, _ in draw_memory(computation, nnet).texts)
    found = re.search(r"\bpeak (\d+) B after c(\d+).* block of the runtime: (\d+) B", words)
    assert found and 0 < int(found[1]) <= int(found[3]) == 4 * plan_memory(computation).size
    alive = [life for life in lifetimes(computation, nnet) if life.begin <= int(found[2]) < life.end]
    assert int(found[1]) == sum(life.num_bytes for life in alive)      # nothing is swapped in this computation


def test_files(tmp_path: Path) -> None:
    nnet = Nnet.from_config(RNN)
    asked = request(product([0], range(3)), product([0], range(3)))
    computation = compile(nnet, asked)
    paths = write_drawings(str(tmp_path / "new" / "folder"), nnet, asked, computation)
    assert [Path(path).name for path in paths] == ["network.svg", "graph.svg", "memory.svg"]
    assert write_drawings(str(tmp_path / "all.svg"), nnet, asked, computation) == [str(tmp_path / "all.svg")]
    for path in (*paths, tmp_path / "all.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    with pytest.raises(UsageError, match="cannot be made"):
        write_drawings(str(tmp_path / "all.svg" / "folder"), nnet, asked, computation)


def test_text_is_escaped() -> None:
    drawing = Drawing("a < b & c")
    drawing.box(0, 0, 10, 10, tip="x < y")
    drawing.text(0, 0, "<&>")
    assert [element.text for element in check(drawing) if element.tag.endswith("text")] == ["<&>"]
    assert ElementTree.fromstring(Drawing("empty").svg()) is not None
    assert ElementTree.fromstring(stacked("two", [drawing, drawing])) is not None
