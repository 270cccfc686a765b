"""A tree as a picture: its root on the left, a line for each leaf, questions where it branches."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from nnet3py.errors import Nnet3Error
from nnet3py.hmm.tree import PDF_CLASS, Constant, ContextDependency, Map, Split

_LINE, _COLUMN, _MARGIN, _LETTER = 18, 190, 12, 6.2        # pixels; the last, the width of a letter of the font
_LONGEST = 26                                              # letters of a question that are shown
_ON_PATH, _OTHER = "#c0392b", "#7f8c8d"


@dataclass
class _Node:
    """A node with its text, and what leads to it."""

    text: str
    answer: str
    on_path: bool
    children: list[_Node] = field(default_factory=list)
    line: float = 0.0


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
    """The tree as SVG; the path of ``event``, a pdf class and the phones of a window, in red.

    Long questions are cut; the whole is shown when the pointer is on it. Nnet3Error for a phone without a name.
    """
    root = _nodes(tree, names, event)
    num_lines, depth = _place(root, 0, 0)
    parts = list(_drawn(root, 0))
    height = (num_lines + 1) * _LINE + 2 * _MARGIN
    width = (depth + 1) * _COLUMN + 2 * _MARGIN
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="10">', *parts, "</svg>", ""])


def html_page(picture: str, title: str) -> str:
    """A page that shows a picture."""
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>\n'
            f"<body>\n{picture}</body></html>\n")


def _place(node: _Node, first: int, depth: int) -> tuple[int, int]:
    """Give lines to a node and what is below it, from ``first`` on; returns the next free line and the depth."""
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
    color = _ON_PATH if node.on_path else "#2c3e50"
    shown = node.text if len(node.text) <= _LONGEST else node.text[:_LONGEST - 1] + "…"
    parts = [f'<text x="{x}" y="{y:g}" fill="{color}"><title>{escape(node.text)}</title>{escape(shown)}</text>']
    for child in node.children:
        end_x, end_y = x + _COLUMN - 6, _MARGIN + child.line * _LINE + _LINE - 4
        start_x, middle = x + min(len(shown), _LONGEST) * _LETTER + 4, x + _COLUMN - 34
        line_color = _ON_PATH if child.on_path else _OTHER
        line = f"M{start_x:g} {y - 4:g}H{middle}V{end_y:g}H{end_x}"
        parts.append(f'<path d="{line}" fill="none" stroke="{line_color}"/>')
        parts.append(f'<text x="{end_x - 1}" y="{end_y - 2:g}" fill="{line_color}" font-size="8" '
                     f'text-anchor="end">{escape(child.answer)}</text>')
        parts += _drawn(child, depth + 1)
    return parts
