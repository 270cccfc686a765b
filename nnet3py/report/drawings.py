"""Drawings of a compilation in files, and the drawing of the computation graph.

The graph has a row of cells for each node, a column for each time, and arrows for dependencies.
"""
from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.build_graph import build_graph
from nnet3py.compiler.graph import Graph
from nnet3py.compiler.node_rules import node_epochs, node_rules
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.io.streams import write_text
from nnet3py.report.draw_memory import draw_memory
from nnet3py.report.draw_network import draw_network
from nnet3py.report.svg import BLUE, GRAY, GREEN, INK, ORANGE, Drawing, stacked, text_width

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Computation
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)

MOST_COLUMNS, MOST_ROWS = 60, 40
ROWS_OF_ALL = 12     # with more rows, those of nodes that only change values in place are left out
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 46.0, 30.0, 12.0, 44.0
_BETWEEN_HEADS = 10.0      # of arrows that end at the same side of a cell, if there is room

_LEGEND = ((GREEN, "given"), (GRAY, "given, not used"), (BLUE, "computed"), (ORANGE, "wanted"))

Cell = tuple[int, int]      # row, column


def draw_graph(nnet: Nnet, request: ComputationRequest, title: str = "Computation graph") -> Drawing:
    """Draw the cindexes of one sequence and their dependencies; of a large request, those of the first output row.

    Inputs of components are left out: a component's cell shows what its input depends on.

    Raises
    ------
    NotComputableError : the request cannot be computed
    Nnet3Error : even one output row needs more than fits on a page
    """
    picture, note = _Picture(nnet, request, build_graph(nnet, request)), "one sequence"
    if not picture.is_small():
        output = request.outputs[0]
        first_row = ComputationRequest([IoSpecification(io.name, io.indexes) for io in request.inputs],
                                       [IoSpecification(output.name, output.indexes[:1])])
        graph = _used_only(build_graph(nnet, first_row))
        picture, note = _Picture(nnet, request, graph), "what one row of the output needs"
    if not picture.is_small():
        raise Nnet3Error(f"the computation graph of one output row has {len(picture.columns)} times and "
                         f"{len(picture.rows)} nodes, too many for a drawing",
                         f"{MOST_COLUMNS} and {MOST_ROWS} are the most; take a smaller network")
    return picture.draw(f"{title} ({note})")


def _used_only(graph: Graph) -> Graph:
    """Return the graph without input rows that nothing uses."""
    used = np.zeros(len(graph.indexes), bool)
    used[graph.dependencies] = True
    keep = used | ~graph.is_input
    number = np.cumsum(keep) - 1
    lengths = np.diff(graph.dependency_starts)[keep]
    offsets = np.concatenate(([0], np.cumsum(keep)))[graph.offsets]
    return Graph(graph.sequences, offsets, graph.indexes[keep], graph.is_input[keep],
                 np.concatenate(([0], np.cumsum(lengths))), number[graph.dependencies])


class _Picture:
    def __init__(self, nnet: Nnet, request: ComputationRequest, graph: Graph) -> None:
        self.nnet, self.graph = nnet, graph
        self.nodes = graph.nodes()
        first = graph.indexes[:, 0] == 0
        self.columns = {(t, x): c for c, (t, x) in enumerate(np.unique(graph.indexes[first, 1:], axis=0).tolist())}
        self.outputs = {nnet.node_index(io.name) for io in request.outputs}
        epochs = node_epochs([rule.sources() for rule in node_rules(nnet)])
        shown = [int(node) for node in np.unique(self.nodes[first]) if not nnet.is_component_input(int(node))]
        shown.sort(key=lambda node: (epochs[node], node))
        self.hidden: set[int] = set()
        if len(shown) > ROWS_OF_ALL:
            self.hidden = {node for node in shown if self._is_pointwise(node)}
        self.rows = {node: r for r, node in enumerate(node for node in shown if node not in self.hidden)}
        self.cells = {int(c): self._cell(int(c)) for c in np.flatnonzero(first) if int(self.nodes[c]) in self.rows}

    def is_small(self) -> bool:
        """Return whether the drawing would be readable."""
        return len(self.columns) <= MOST_COLUMNS and len(self.rows) <= MOST_ROWS

    def _cell(self, c: int) -> Cell:
        _, t, x = self.graph.indexes[c].tolist()
        return self.rows[int(self.nodes[c])], self.columns[t, x]

    def _direct_sources(self, c: int) -> list[int]:
        sources = self.graph.dependencies_of(np.array([c]))
        if self.nnet.is_component(int(self.nodes[c])):
            sources = self.graph.dependencies_of(sources)
        return np.unique(sources).tolist()

    def _is_pointwise(self, node: int) -> bool:
        """Return whether each row of a node depends only on the row with the same index of another node."""
        if self.nnet.is_input(node) or node in self.outputs:
            return False
        for c in range(*self.graph.rows(node).indices(len(self.nodes))):
            sources = self._direct_sources(c)
            if len(sources) != 1 or (self.graph.indexes[sources[0]] != self.graph.indexes[c]).any():
                return False
        return True

    def _sources(self, c: int) -> list[int]:
        """Return the cindexes in the drawing on which cindex ``c`` depends, directly or through nodes left out."""
        sources: list[int] = []
        for source in self._direct_sources(c):
            sources += self._sources(source) if int(self.nodes[source]) in self.hidden else [source]
        return sorted(set(sources))

    def draw(self, title: str) -> Drawing:
        """Draw the picture."""
        drawing = Drawing(title)
        sources = {c: self._sources(c) for c in self.cells}
        used = set().union(*sources.values())
        for c, cell in self.cells.items():
            self._arrows(drawing, [self.cells[source] for source in sources[c]], cell)
        colors = {self._draw_cell(drawing, c, cell, c in used) for c, cell in self.cells.items()}
        for node, row in self.rows.items():
            drawing.text(-18, self._place((row, 0))[1] + 6, self.nnet.node_names[node], 17, "end", bold=True)
        left, top, _, _ = drawing.bounds
        drawing.text(left, top - 52, title, 22, bold=True)
        drawing.legend([(color, words) for color, words in _LEGEND if color in colors], left, top - 22)
        words = "in the cells: t; an arrow leads from what is used to what uses it"
        drawing.text(left, drawing.bounds[3] + 32, words + ("; nodes that use one row only are left out"
                                                            if self.hidden else ""), 13.5)
        return drawing

    def _place(self, cell: Cell) -> tuple[float, float]:
        row, column = cell
        return column * (_WIDTH + _GAP_X) + _WIDTH / 2, row * (_HEIGHT + _GAP_Y) + _HEIGHT / 2

    def _draw_cell(self, drawing: Drawing, c: int, cell: Cell, is_used: bool) -> str:
        """Draw a cell; return its color."""
        x, y = self._place(cell)
        n, t, extra = self.graph.indexes[c].tolist()
        color = ORANGE if int(self.nodes[c]) in self.outputs else BLUE
        if self.graph.is_input[c]:
            color = GREEN if is_used else GRAY
        drawing.box(x - _WIDTH / 2, y - _HEIGHT / 2, _WIDTH, _HEIGHT, color)
        label = f"{t},{extra}" if extra else str(t)
        size = 15.0 if text_width(label, 15.0) <= _WIDTH - 6 else 10.0
        drawing.text(x, y + 0.35 * size, label.replace("-", "−"), size, "middle")
        return color

    def _arrows(self, drawing: Drawing, sources: list[Cell], target: Cell) -> None:
        """Draw the arrows that end at a cell, evenly spaced on its upper and lower side."""
        for above in (True, False):
            ends = sorted((source for source in sources if (source[0] <= target[0]) == above), key=lambda cell: cell[1])
            between = min(_BETWEEN_HEADS, (_WIDTH - 6) / max(len(ends), 1))
            for i, source in enumerate(ends):
                self._arrow(drawing, source, target, (i - (len(ends) - 1) / 2) * between)

    def _arrow(self, drawing: Drawing, source: Cell, target: Cell, shift: float) -> None:
        """Draw an arrow that ends ``shift`` to the right of the middle of a cell."""
        (x0, y0), (x1, y1) = self._place(source), self._place(target)
        if source[0] == target[0]:      # within a row
            side = _WIDTH / 2 if x1 > x0 else -_WIDTH / 2
            if abs(source[1] - target[1]) == 1:
                drawing.line([(x0 + side, y0), (x1 - side, y1)], INK, arrow=True)
            else:
                top = y0 - _HEIGHT / 2
                drawing.curve((x0, top), (x0, top - 24), (x1 + shift, top - 24), (x1 + shift, top), INK, arrow=True)
            return
        down = 1.0 if y1 > y0 else -1.0
        start, end = (x0, y0 + down * _HEIGHT / 2), (x1 + shift, y1 - down * _HEIGHT / 2)
        color = GRAY if down > 0 else INK
        if abs(source[0] - target[0]) == 1:
            drawing.line([start, end], color, arrow=True)
        else:       # past the rows between, in the gap beside the cells
            bend = (x0 + x1) / 2 if source[1] != target[1] else x0 + (_WIDTH + _GAP_X) / 2
            half = down * _GAP_Y * 0.6
            drawing.curve(start, (bend, start[1] + half), (bend, end[1] - half), end, color, arrow=True)


def drawings(nnet: Nnet, request: ComputationRequest, computation: Computation) -> dict[str, Drawing]:
    """Draw ``network``, ``graph`` (if it is not too large, which is logged) and ``memory``, by name."""
    pictures = {"network": draw_network(nnet)}
    try:
        pictures["graph"] = draw_graph(nnet, request)
    except Nnet3Error as error:
        logger.warning("No drawing of the computation graph: %s", error)
    pictures["memory"] = draw_memory(computation, nnet)
    return pictures


def write_drawings(target: str, nnet: Nnet, request: ComputationRequest, computation: Computation) -> list[str]:
    """Write the drawings to files; return the names of the files.

    ``target`` : a file NAME.svg, which gets all of them, or a folder, which is made. Raises UsageError for a folder
    that cannot be made.
    """
    pictures = drawings(nnet, request, computation)
    if target.endswith(".svg") and not os.path.isdir(target):
        write_text(target, stacked("Compilation", list(pictures.values())))
        return [target]
    try:
        os.makedirs(target, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {target} for drawings cannot be made: {error.strerror}",
                         "give a new folder's name, or a file's that ends in .svg") from None
    paths = []
    for name, drawing in pictures.items():
        paths.append(os.path.join(target, f"{name}.svg"))
        write_text(paths[-1], drawing.svg())
    return paths
