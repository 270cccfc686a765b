"""Drawings of trees: in GraphViz's language (Kaldi: ``TreeRenderer``), and as SVG, a line for each leaf."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import count

from nnet3py.errors import Nnet3Error
from nnet3py.hmm.tree import PDF_CLASS, Constant, ContextDependency, Map, Split

_PLAIN, _ON_PATH = ("black", 1), ("red", 3)          # color and width of lines


class _Drawing:
    """Writer of a tree in GraphViz's language, depth first."""

    def __init__(self, tree: ContextDependency, names: Mapping[int, str], tooltips: bool) -> None:
        self._tree, self._names, self._tooltips = tree, names, tooltips
        self._ids = count()

    def node(self, tree: Map, number: int, event: Sequence[int] | None) -> Iterator[str]:
        """Yield the lines of a node and of its subtree.

        Parameters
        ----------
        number : id of the node in the drawing
        event : pdf class and phones whose path is highlighted, if it passes this node, else None
        """
        color, width = _PLAIN if event is None else _ON_PATH
        if isinstance(tree, Constant):
            yield f"{number}[shape=doublecircle, label={tree.answer},color={color}, penwidth={width}];"
            return
        yield f"{number}[label={self._label(tree.key)}, color={color}, penwidth={width}];"
        value = None if event is None else event[tree.key + 1]
        if isinstance(tree, Split):
            on_yes = value is not None and value in tree.values
            yield from self._yes(tree, number, event if on_yes else None)
            yield from self._child(tree.no, number, "[label=NO", event if value is not None and not on_yes else None)
            return
        for entry, child in enumerate(tree.children):
            if tree.key == PDF_CLASS or entry > 0:
                label = f" [label={entry if tree.key == PDF_CLASS else self._name(entry)}"
                yield from self._child(child, number, label, event if value == entry else None)

    def _yes(self, tree: Split, number: int, event: Sequence[int] | None) -> Iterator[str]:
        values = ", ".join(str(value) if tree.key == PDF_CLASS else self._name(value)
                           for value in sorted(tree.values))
        width = (_PLAIN if event is None else _ON_PATH)[1]
        label = f' [tooltip="{values}", label=YES' if self._tooltips else f' [label="{values}", penwidth={width}'
        yield from self._child(tree.yes, number, label, event, width_first=True)

    def _child(self, child: Map | None, parent: int, label: str, event: Sequence[int] | None,
               width_first: bool = False) -> Iterator[str]:
        number = next(self._ids)
        color, width = _PLAIN if event is None else _ON_PATH
        lines = f"penwidth={width}, color={color}" if width_first else f"color={color}, penwidth={width}"
        yield f"\t{parent} -> {number}{label}, {lines}];"
        if child is not None:          # Kaldi also draws the line that leads to nothing
            yield from self.node(child, number, event)

    def _name(self, phone: int) -> str:
        if phone not in self._names:
            raise Nnet3Error(f"the symbol table has no name for phone {phone}", "is it that of the tree?")
        return self._names[phone]

    def _label(self, key: int) -> str:
        width, position = self._tree.context_width, self._tree.central_position
        if key == PDF_CLASS:
            return '"PdfClass = ?"'
        if key == 0 and (width, position) == (1, 0):
            return '"Phone = ?"'
        if key == 0 and (width, position) == (3, 1):
            return '"LContext = ?"'
        if key == position:
            return '"Center = ?"'
        if key == 0:
            return ""                    # as Kaldi leaves it
        if key == 2 and (width, position) == (3, 1):
            return '"RContext = ?"'
        return f'"Ctx Position {key} = ?"'

    def lines(self, event: Sequence[int] | None) -> Iterator[str]:
        """Yield all lines of the drawing."""
        yield "digraph EventMap {"
        if self._tree.to_pdf is not None:
            yield from self.node(self._tree.to_pdf, next(self._ids), event)
        yield "}"


def drawing(tree: ContextDependency, names: Mapping[int, str], event: Sequence[int] | None = None,
            tooltips: bool = False) -> str:
    """Return a drawing of a tree for GraphViz's ``dot``; Nnet3Error for a phone without a name.

    ``names`` are by number. The path of ``event`` (pdf class and phones of a window) through the tree is red. With
    ``tooltips``, the values of a question are shown only when the mouse is on it.
    """
    return "\n".join([*_Drawing(tree, names, tooltips).lines(event), ""])


def parsed_query(text: str, numbers: Mapping[str, int], width: int) -> list[int]:
    """Parse an event ``CLASS/PHONE/…``: return pdf class and numbers of phones. Raises Nnet3Error for other text."""
    first, *phones = text.split("/")
    if not (first.isascii() and first.isdigit()) or len(phones) != width:
        raise Nnet3Error(f"expected a query such as 0{'/PHONE' * width}, found '{text}'")
    unknown = [phone for phone in phones if phone not in numbers]
    if unknown:
        raise Nnet3Error(f"the symbol table has no phone '{unknown[0]}' of the query '{text}'")
    return [int(first), *(numbers[phone] for phone in phones)]


_LINE, _COLUMN, _MARGIN, _LETTER = 18, 190, 12, 6.2        # pixels; the last, the width of a letter of the font
_LONGEST = 26                                              # letters of a question that are shown
_PATH_COLOR, _OTHER_COLOR = "#c0392b", "#7f8c8d"


@dataclass
class _Node:
    """Node of a tree in an SVG picture."""

    text: str          # question, or pdf
    answer: str        # answer to the parent's question that leads to the node
    on_path: bool      # whether the node is on the highlighted path
    children: list[_Node] = field(default_factory=list)
    line: float = 0.0  # vertical position, in lines of text


def _nodes(tree: ContextDependency, names: Mapping[int, str], event: Sequence[int] | None) -> _Node:
    width, position = tree.context_width, tree.central_position

    def name(key: int, value: int) -> str:
        if key == PDF_CLASS or value == 0:
            return str(value) if key == PDF_CLASS else "(none)"
        if value not in names:
            raise Nnet3Error(f"the symbol table has no name for phone {value}", "is it that of the tree?")
        return names[value]

    def asked(key: int) -> str:
        if key == PDF_CLASS:
            return "state"
        return "phone" if key == position else f"phone {key - position:+d}"

    def node(below: Map | None, answer: str, on_path: bool) -> _Node:
        if below is None:
            return _Node("", answer, False)
        if isinstance(below, Constant):
            return _Node(f"pdf {below.answer}", answer, on_path)
        value = event[below.key + 1] if on_path and event is not None and below.key <= width else None
        if isinstance(below, Split):
            values = ", ".join(name(below.key, member) for member in sorted(below.values))
            drawn = _Node(f"{asked(below.key)} in {values}?", answer, on_path)
            is_yes = value is not None and value in below.values
            drawn.children = [node(below.yes, "yes", is_yes), node(below.no, "no", value is not None and not is_yes)]
            return drawn
        drawn = _Node(f"{asked(below.key)}?", answer, on_path)
        drawn.children = [node(child, name(below.key, entry), value == entry)
                         for entry, child in enumerate(below.children) if child is not None]
        return drawn

    return node(tree.to_pdf, "", event is not None)


def svg_picture(tree: ContextDependency, names: Mapping[int, str], event: Sequence[int] | None = None) -> str:
    """Return a picture of a tree as SVG.

    The path of ``event``, a pdf class and the phones of a window, is red. Long questions are shortened; the mouse shows
    them in full. Raises Nnet3Error for a phone without a name.
    """
    root = _nodes(tree, names, event)
    num_lines, depth = _place(root, 0, 0)
    parts = list(_drawn(root, 0))
    height = (num_lines + 1) * _LINE + 2 * _MARGIN
    width = (depth + 1) * _COLUMN + 2 * _MARGIN
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="10">', *parts, "</svg>", ""])


def html_page(picture: str, title: str) -> str:
    """Return an HTML page with a title and a picture, SVG text."""
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>\n'
            f"<body>\n{picture}</body></html>\n")


def _place(node: _Node, first: int, depth: int) -> tuple[int, int]:
    """Set the lines of a node and its subtree, from ``first`` on; return the next free line and the largest depth."""
    if not node.children:
        node.line = first
        return first + 1, depth
    line, deepest = first, depth
    for child in node.children:
        line, below = _place(child, line, depth + 1)
        deepest = max(deepest, below)
    node.line = (node.children[0].line + node.children[-1].line) / 2
    return line, deepest


def _drawn(node: _Node, depth: int) -> list[str]:
    x, y = _MARGIN + depth * _COLUMN, _MARGIN + node.line * _LINE + _LINE
    color = _PATH_COLOR if node.on_path else "#2c3e50"
    shown = node.text if len(node.text) <= _LONGEST else node.text[:_LONGEST - 1] + "…"
    parts = [f'<text x="{x}" y="{y:g}" fill="{color}"><title>{escape(node.text)}</title>{escape(shown)}</text>']
    for child in node.children:
        end_x, end_y = x + _COLUMN - 6, _MARGIN + child.line * _LINE + _LINE - 4
        start_x, middle = x + min(len(shown), _LONGEST) * _LETTER + 4, x + _COLUMN - 34
        line_color = _PATH_COLOR if child.on_path else _OTHER_COLOR
        line = f"M{start_x:g} {y - 4:g}H{middle}V{end_y:g}H{end_x}"
        parts.append(f'<path d="{line}" fill="none" stroke="{line_color}"/>')
        parts.append(f'<text x="{end_x - 1}" y="{end_y - 2:g}" fill="{line_color}" font-size="8" '
                     f'text-anchor="end">{escape(child.answer)}</text>')
        parts += _drawn(child, depth + 1)
    return parts
